#!/usr/bin/python3
"""How long a cutover holds its clients, beside the bars: one slot and 123 slots of nodes, Redis groups, the Pika of the tests,
and faults of each before the owner record. Writes come at min(20,000/s, 40 % of what the chain sustains, measured first) at pipeline 16
through two proxies, on keys of all slots.

    tests/bench/pause_bench.py [--cutovers 300] [--faults 30] [--rows slot,plan,redis,pika,fault,fault-redis,fault-pika] [--json] [--keep DIR]

Needs a build (build/release, or SF_BIN). Progress goes to standard error, the table to standard output. No figure fails it; it
exits 1 if something was lost, doubled or stale, or a client saw an error. Ends the servers it started, and only those."""
import argparse
import json
import os
import signal
import sys
import time
import traceback

import redis

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pause_figures as figures  # noqa: E402
from pause_stage import LAST, UNITS, AuditTail, Checker, Load, NotSwitched, Stage, in_background, text_of  # noqa: E402
from ferry_env import Env, wait_until  # noqa: E402

RATE_MAX = 20000
SHARE = 0.4
PIPELINE = 16
UNINVOLVED = "100-110"
ENDS = ("cutover ended", "cutover done")
PAUSES = {"node": 500, "redis": 500, "pika": 2000}  # bound of a unit, ms
FAULT_AT = (("step done", "announce"), ("step begins", "fence"), ("step begins", "promote"))
# Of whole groups also the proof: the end is told, and whether it was applied is asked.
GROUP_FAULT_AT = (*FAULT_AT, ("step done", "fence"))
GROUP_FAULTS = {"redis": ("stop", "kill", "cut"), "pika": ("stop", "kill")}


def say(text):
    print("[%s] %s" % (time.strftime("%H:%M:%S"), text), file=sys.stderr, flush=True)


class Progress:
    def __init__(self, row, total):
        self.row, self.total, self.began, self.said = row, total, time.monotonic(), 0

    def at(self, count):
        now = time.monotonic()
        if now - self.said > 5 or count >= self.total:
            gone = now - self.began
            say("row %s: %d of %d, %d s gone, about %d s left"
                % (self.row, count, self.total, gone, gone * (self.total - count) / max(count, 1)))
            self.said = now


class Run:
    """One row: a stage, the three loads, and what they found."""

    def __init__(self, env, kind, row, flags, total, hot_permille=0):
        self.env, self.kind, self.flags = env, kind, flags
        self.progress = Progress(row, total)
        self.stage = Stage(env, kind, PAUSES[kind])
        self.hot_permille = hot_permille

    def begin(self, first, last):
        """Attaches the first leg, measures what the chain sustains, starts the loads."""
        stage, flags = self.stage, self.flags
        stage.attach(first, last)
        start = time.monotonic()
        full = Load(self.env, stage.proxy_ports, "paced", rate=0, pipeline=PIPELINE, keys=flags.keys,
                    value_bytes=64, seconds=flags.sustain_seconds).end_by_itself()
        stage.wait_caught_up(stage.other)
        sustained = full.windows["start"]["answered"] / (time.monotonic() - start)
        self.rate = int(min(RATE_MAX, SHARE * sustained))
        say("row %s: the chain sustains %d writes/s, the load is %d/s" % (self.progress.row, sustained, self.rate))
        ports = stage.proxy_ports
        self.main = Load(self.env, ports, "paced", rate=self.rate, pipeline=PIPELINE, keys=flags.keys, value_bytes=64,
                         hot_permille=self.hot_permille)
        self.probe = Load(self.env, ports, "probe", rate=500, pipeline=1, connections=2, keys=200, slots=UNINVOLVED)
        self.checker = Checker(self.env, ports, text_of(stage.first, LAST))
        self.mark("warm")
        time.sleep(flags.base_seconds / 2)
        self.progress.began = time.monotonic()

    def mark(self, name):
        self.main.say("mark " + name)
        self.probe.say("mark " + name)

    def base(self, seconds):
        """The same load without a cutover."""
        self.mark("base")
        time.sleep(seconds)

    def end(self):
        main, probe, checked = self.main.end(), self.probe.end(), self.checker.end()
        audits = self.stage.end()
        texts = main.error_texts + probe.error_texts + list(checked["error_texts"]) + checked["samples"]
        for text in texts[:5]:
            say("row %s: %s" % (self.progress.row, text))
        return audits, figures.load_figures(main, probe, checked, self.rate)


def moves_of_slots(env, flags, row):
    """Nodes. Three plans of 123 slots at most, one after the other; row `slot` cuts each slot alone, with a fifth of the
    writes on that one slot, row `plan` a whole plan at the default pacing."""
    alone = row == "slot"
    plans = min(3, -(-flags.cutovers // UNITS))
    total = min(flags.cutovers if alone else plans * UNITS, flags.cutovers if flags.small else plans * UNITS)
    run = Run(env, "node", row, flags, total, hot_permille=200 if alone else 0)
    count, took = 0, []
    for i in range(plans):
        first = run.stage.first + i * UNITS
        last = min(first + UNITS, first + total - count) - 1
        if i == 0:
            run.begin(first, last)
        else:
            run.mark("prepare")
            run.stage.attach(first, last)
        run.base(flags.base_seconds)
        run.mark("cut")
        if alone:
            for slot in range(first, last + 1):
                run.main.say("hot %d" % slot)
                time.sleep(0.05)
                run.stage.cut(slot, slot)
                count += 1
                run.progress.at(count)
        else:
            run.stage.cut(first, last)
            count += last - first + 1
            run.progress.at(count)
        run.mark("prepare")
        run.stage.hand_back()
    audits, loads = run.end()
    out = figures.pause_figures(audits, p99=10, most=50)
    if not alone:
        took = [figures.seconds_of(a) for a in audits]
        gaps = figures.idle_gaps_ms(audits)
        out.append(figures.at_most("123 slots, longest of the plans", max(took), 15, "s"))
        out.append(figures.Figure("idle gap between units: p50", figures.percentile(gaps, 0.5), "", None))
        out.append(figures.at_most("idle gap between units: max", max(gaps, default=0), 50))
    return out + loads


def moves_of_groups(env, flags, kind):
    """Whole groups of 123 slots, there and back again, each leg with a plan and a shim of its own."""
    run = Run(env, kind, kind, flags, flags.cutovers)
    first, last = LAST + 1 - UNITS, LAST
    early = []
    for leg in range(flags.cutovers):
        try:
            if leg == 0:
                run.begin(first, last)
                run.base(flags.base_seconds)
            else:
                run.mark("prepare")
                run.stage.swap()
                run.stage.attach(first, last)
            run.base(0.2)
            run.mark("cut")
            run.stage.cut(first, last)
        except (NotSwitched, AssertionError) as why:
            if leg == 0:
                raise
            say("row %s ends early: %s" % (kind, why))
            early = [figures.Figure("ended early", str(why)[:300], "never", False)]
            break
        run.progress.at(leg + 1)
        time.sleep(0.1)  # what the held requests do to their neighbours afterwards
    audits, loads = run.end()
    loads += early
    if kind == "redis":
        return figures.pause_figures(audits, p99=10, most=50) + loads
    return figures.pause_figures(audits, p50=100, most=PAUSES["pika"]) + loads


def faults_of_nodes(env, flags):
    """The new side is stopped (every other time killed and started again) while a slot is held."""
    run = Run(env, "node", "fault", flags, flags.faults, hot_permille=1000)
    first, last = LAST + 1 - UNITS, LAST
    stage = run.stage
    run.begin(first, last)
    tail = AuditTail(stage.shim.dir + "/audit.jsonl")
    holds, steps, names = [], [], []
    for number, slot in enumerate(range(first, last + 1)):
        at, name = dict(zip(("what", "step"), FAULT_AT[number % len(FAULT_AT)])), "fault %d" % slot
        run.main.say("hot %d" % slot)
        time.sleep(0.05)
        run.mark(name)
        tail.skip()
        cutting = in_background(lambda: stage.shim.ask("CUTOVER", str(slot)))
        begun = tail.wait(lambda e: {"slots": str(slot), **at}.items() <= e.items(), 10)
        kill = number % 2 == 1
        stage.other.kill() if kill else os.kill(stage.other.pid, signal.SIGSTOP)
        ended = begun and tail.wait(lambda e: e.get("slots") == str(slot) and e["what"] in ENDS, 20)
        if ended and ended["what"] == "cutover ended":
            stage.shim.ask("ABORT", str(slot))  # no second attempt: the slot stays with its owner
        time.sleep(0.1)  # the requests let go are answered
        run.mark("prepare")
        stage.other.start() if kill else os.kill(stage.other.pid, signal.SIGCONT)
        if ended and ended["what"] == "cutover ended" and ended["hold_us"] > 0:
            holds.append(ended["hold_us"])
            steps.append(figures.failed_step([e for e in tail.passed if e.get("slots") == str(slot)]))
            names.append(name)
            run.progress.at(len(holds))
        cutting.join(60)
        wait_until("the new side follows", lambda: stage.follows(slot + 1, last), 60)
        if len(holds) >= flags.faults:
            break
    audits, loads = run.end()
    windows = [run.main.windows[n] for n in names]
    waits, errors = [w["max_us"] for w in windows], sum(w["errors"] for w in windows)
    # The checking clients write other slots too, some of which the killed server owns since a fault that came too late.
    exact = [f for f in loads if f.bar == "0" and f.name != "client errors"]
    return (figures.fault_figures(holds, waits, steps, PAUSES["node"])
            + [figures.none_of("errors of the held slots' clients", errors)] + exact)


def faults_of_groups(env, flags, kind):
    """A group of 123 slots as one unit. The new side is stopped or killed, or (Redis) the connection to the old master over which the
    shim's driver works is cut. A fault that came too late ends the leg: the next one moves back."""
    run = Run(env, kind, "fault-" + kind, flags, flags.faults)
    first, last = LAST + 1 - UNITS, LAST
    stage, unit = run.stage, text_of(first, last)
    run.begin(first, last)
    tail = AuditTail(stage.shim.dir + "/audit.jsonl")
    holds, steps, names, late, number = [], [], [], 0, 0
    while len(holds) < flags.faults and number < 4 * flags.faults + 8:
        at = dict(zip(("what", "step"), GROUP_FAULT_AT[number % len(GROUP_FAULT_AT)]))
        at.update({"ok": True} if at["what"] == "step done" else {})
        how = GROUP_FAULTS[kind][number // len(GROUP_FAULT_AT) % len(GROUP_FAULTS[kind])]
        if kind == "pika" and at["step"] == "promote":
            how = "stop"  # killed a moment too late it would be an owner whose memory is gone
        name = "fault %d" % number
        number += 1
        stage.until_ready()
        run.mark(name)
        tail.skip()
        cutting = in_background(lambda: stage.shim.ask("CUTOVER", unit))
        begun = tail.wait(lambda e: at.items() <= e.items(), 15)
        if not begun:
            say("row fault-%s: no attempt: %s" % (kind, stage.shim.ask("SLOTS", unit)[0][7]))
        undo = stage.strike(how) if begun else lambda owner: None
        ended = begun and tail.wait(lambda e: e.get("slots") == unit and e["what"] in ENDS, 20)
        if ended and ended["what"] == "cutover ended":
            stage.shim.ask("ABORT", unit)  # no second attempt
        time.sleep(0.1)  # the requests let go are answered
        run.mark("prepare")
        switched = {row[1] for row in stage.shim.ask("SLOTS", unit)} == {"NEW"}
        undo(switched)
        cutting.join(60)
        if switched:
            late += 1
            wait_until("the new owner serves", stage.serves, 60)
            stage.swap()
            stage.attach(first, last)
            tail = AuditTail(stage.shim.dir + "/audit.jsonl")
        elif ended and ended["what"] == "cutover ended" and ended["hold_us"] > 0:
            holds.append(ended["hold_us"])
            steps.append("%s, %s" % (how, figures.failed_step(figures.last_attempt(tail.passed, unit))))
            names.append(name)
            run.progress.at(len(holds))
    audits, loads = run.end()
    windows = [run.main.windows[n] for n in names]
    exact = [f for f in loads if f.bar == "0" and f.name != "client errors"]
    return (figures.fault_figures(holds, [w["max_us"] for w in windows], steps, PAUSES[kind])
            + [figures.Figure("faults that came too late, the unit was switched", late, "", None),
               figures.none_of("client errors", sum(w["errors"] for w in windows))] + exact)


ROWS = {
    "slot": ("node, one slot at a time", lambda env, flags: moves_of_slots(env, flags, "slot")),
    "plan": ("node, plan of 123 slots", lambda env, flags: moves_of_slots(env, flags, "plan")),
    "redis": ("Redis groups", lambda env, flags: moves_of_groups(env, flags, "redis")),
    "pika": ("Pika of the tests", lambda env, flags: moves_of_groups(env, flags, "pika")),
    "fault": ("node, fault before the owner record", faults_of_nodes),
    "fault-redis": ("Redis groups, fault before the owner record", lambda env, flags: faults_of_groups(env, flags, "redis")),
    "fault-pika": ("Pika of the tests, fault before the owner record", lambda env, flags: faults_of_groups(env, flags, "pika")),
}


def parse_flags():
    flags = argparse.ArgumentParser(prog="pause_bench.py", description="How long a cutover holds its clients.")
    flags.add_argument("--cutovers", type=int, default=300, help="of each row; plans of 123 slots are not cut short")
    flags.add_argument("--small", action="store_true", help="cut a plan short as well: for a look, or a test")
    flags.add_argument("--faults", type=int, default=30)
    flags.add_argument("--rows", default=",".join(ROWS), help="any of " + ",".join(ROWS))
    flags.add_argument("--keys", type=int, default=20000, help="keys of 64 bytes the load writes")
    flags.add_argument("--base-seconds", type=float, default=10, help="of load without a cutover, before each plan")
    flags.add_argument("--sustain-seconds", type=int, default=4, help="of load as fast as it is taken")
    flags.add_argument("--json", action="store_true")
    flags.add_argument("--keep", metavar="DIR", help="keep logs and audit logs there")
    return flags.parse_args()


def main():
    flags = parse_flags()
    out, bad = {}, False
    if not flags.json:
        print(figures.TABLE_HEAD, flush=True)
    for row in flags.rows.split(","):
        name, run = ROWS[row]
        try:
            with Env(keep=flags.keep and os.path.join(flags.keep, row)) as env:
                out[name] = run(env, flags)
        except (AssertionError, NotSwitched, OSError, redis.RedisError) as why:  # the other rows are worth having
            traceback.print_exc()
            out[name] = [figures.Figure("failed", str(why)[:300], "never", False)]
        if not flags.json:
            print(figures.table_lines(name, out[name]), flush=True)
        bad = bad or any(f.bar in ("0", "never") and not f.met for f in out[name])
    if flags.json:
        print(json.dumps({row: [f._asdict() for f in found] for row, found in out.items()}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
