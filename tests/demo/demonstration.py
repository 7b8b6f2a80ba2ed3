#!/usr/bin/env python3
"""The demonstration: slots 901-1023 move from group 3 to group 4 under load, end to end. See scripts/quickstart --help.

Exits 0 only if nothing was lost, doubled or stale and no client saw an error (while a killed program was down, errors are
allowed and counted apart).
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import PRODUCT, Cluster  # noqa: E402
from ferry_env import Env, connect, free_port, program, wait_until  # noqa: E402
from load import Load, dataset  # noqa: E402

MOVED = range(901, 1024)
KILLABLE = ("shim", "migrator", "new-master", "new-slave", "old-master", "old-slave")
# Where a kill may fall: phase of the run, and how far into it, in seconds.
KILL_WINDOWS = (("replicate", 3.0), ("attach", 0.3), ("cutover", 8.0), ("cutover", 8.0), ("cutover", 8.0), ("verify", 3.0),
                ("handback", 0.3))
ERROR_GRACE_S = 2.0  # proxies notice and redial within their own back-off after a program is back


def slot_of(key):
    """Codis's hash: CRC-32 of the tag between the first { and the next }, else of the whole key."""
    opening = key.find(b"{")
    closing = key.find(b"}", opening + 1) if opening >= 0 else -1
    return zlib.crc32(key[opening + 1:closing] if closing >= 0 else key) % 1024


def moved_tags(count):
    """Hash tags of moved slots, for redis-benchmark's keys."""
    return [tag for tag in ("t%d" % i for i in range(10000)) if slot_of(tag.encode()) in MOVED][:count]


class Failure(Exception):
    """Something the demonstration found wrong, as one sentence."""


def parse_flags():
    flags = argparse.ArgumentParser(prog="quickstart", description="Moves slots 901-1023 from group 3 to group 4 under load.")
    flags.add_argument("--groups", choices=("node", "redis", "old-redis"), default="node",
                       help="what the groups are made of (old-redis: as a codis-server, or the binary SF_OLD_REDIS names)")
    flags.add_argument("--keys", type=int, default=200000, help="standing keys of all five types in 801-1023")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--kill", choices=KILLABLE, help="kill -9 this program at a random moment and start it again")
    flags.add_argument("--clients", type=int, default=16, help="checking clients")
    flags.add_argument("--hot", action="store_true",
                       help="redis-benchmark writes one moving slot a proxy as fast as it can: overload, on purpose")
    flags.add_argument("--no-benchmark", action="store_true", help="only the checking clients write")
    flags.add_argument("--keep", metavar="DIR", help="keep everything (logs, data, plan, audit) in DIR")
    flags.add_argument("--json", action="store_true", help="print only the last line, the JSON summary")
    return flags.parse_args()


class Demonstration:
    def __init__(self, flags, env):
        self.flags, self.env = flags, env
        self.random = random.Random(flags.seed)
        self.seconds, self.outages = {}, []
        self.began = time.monotonic()

    def say(self, text):
        if not self.flags.json:
            print("[%6.1f s] %s" % (time.monotonic() - self.began, text), flush=True)

    def timed(self, name, what):
        self.say(name)
        start = time.monotonic()
        result = what()
        self.seconds[name] = round(time.monotonic() - start, 2)
        return result

    # ---- the programs

    def slotferry(self, *words, check=True):
        done = subprocess.run([program("slotferry"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, timeout=600)
        if check and done.returncode != 0:
            raise Failure("slotferry %s ended with %d: %s" % (words[0], done.returncode, done.stdout.strip()[-600:]))
        return done.stdout

    def make_plan(self):
        self.shim_port, self.admin_port = free_port(), free_port()
        self.plan = self.env.path("plan.json")
        self.slotferry("plan", "--dashboard", self.cluster.dashboard_address, "--product", PRODUCT, "--slots", "901-1023",
                       "--to", "4", "--shim", "127.0.0.1:%d" % self.shim_port, "--shim-admin",
                       "127.0.0.1:%d" % self.admin_port, "--shim-group", "9", "--out", self.plan)
        with open(self.plan) as f:
            plan = json.load(f)
        plan.update(cleanup=True, soak_seconds=1)
        with open(self.plan, "w") as f:
            json.dump(plan, f, indent=2)

    def start_shim(self):
        self.shim = self.env.add("shim", [program("slotferry-shim"), "--port", str(self.shim_port), "--bind", "127.0.0.1",
                                          "--admin-port", str(self.admin_port), "--dir", self.env.path("shim"),
                                          "--threads", "2", "--plan", self.plan], "ready on", start=False)
        self.shim.start(extra=["--init"])

    def run_migrator(self):
        """slotferry run; started again after a kill -9, as an operator would."""
        self.migrator_log = self.env.path("run.log")
        self.migrator_kills = 0
        for _ in range(5):
            with open(self.migrator_log, "ab") as log:
                self.migrator = subprocess.Popen([program("slotferry"), "run", self.plan, "--yes", "--dir",
                                                  self.env.path("journal")], stdout=log, stderr=log,
                                                 stdin=subprocess.DEVNULL)
                code = self.migrator.wait(600)
            if code == 0:
                return
            if code != -9 and not self.outages:
                break
            self.wait_for_outage()
            self.say("slotferry run ended with %d, started again" % code)
        with open(self.migrator_log, errors="replace") as f:
            raise Failure("slotferry run ended with %d: %s" % (code, "".join(f.readlines()[-15:])))

    # ---- faults

    def wait_for_outage(self):
        if getattr(self, "killer", None):
            self.killer.join(60)

    def kill_later(self, victim):
        phase, span = self.random.choice(KILL_WINDOWS)
        delay = self.random.uniform(0, span)

        def phase_begun():
            try:
                with open(self.env.path("run.log"), errors="replace") as f:
                    return "== " + phase in f.read()
            except OSError:
                return False

        def run():
            wait_until("the run reaches " + phase, phase_begun, 300, step=0.01)
            time.sleep(delay)  # the random moment itself
            began = time.time()
            if victim == "migrator":
                self.say("kill -9 migrator, %.1f s into %s" % (delay, phase))
                self.migrator.kill()
                self.outages.append((began, time.time()))
                return
            proc = {"shim": lambda: self.shim, "new-master": lambda: self.cluster.g4,
                    "new-slave": lambda: self.cluster.g4_slave, "old-master": lambda: self.cluster.g3,
                    "old-slave": lambda: self.cluster.g3_slave}[victim]()
            self.say("kill -9 %s, %.1f s into %s" % (proc.name, delay, phase))
            self.outages.append((began, float("inf")))
            proc.kill()
            proc.start()
            self.outages[-1] = (began, time.time())
            self.say("%s is back" % proc.name)

        self.killer = threading.Thread(target=run)
        self.killer.start()

    # ---- what must hold at the end

    def slot_counts(self, server):
        if self.flags.groups == "node":
            return {int(slot): int(n) for slot, n in connect(server.port, timeout=60).execute_command("SLOTSINFO")}
        raise NotImplementedError

    def check_places(self):
        """Moved slots live in group 4 only, on master and slave alike; the others did not leave group 3 (M05)."""
        if self.flags.groups.endswith("redis"):
            return self.check_places_redis()
        old, new = self.slot_counts(self.cluster.g3), self.slot_counts(self.cluster.g4)
        left = sum(n for slot, n in old.items() if slot in MOVED)
        foreign = sum(n for slot, n in new.items() if slot not in MOVED)
        if left or foreign:
            raise Failure("after cleanup group 3 still holds %d keys of moved slots, group 4 %d foreign ones" % (left, foreign))
        return sum(n for slot, n in new.items() if slot in MOVED)

    def check_places_redis(self):
        moved_left = foreign = moved = 0
        for key in connect(self.cluster.g3.port).scan_iter(count=5000):
            moved_left += slot_of(key) in MOVED
        for key in connect(self.cluster.g4.port).scan_iter(count=5000):
            here = slot_of(key) in MOVED or key.find(b"__slotferry") >= 0
            moved += here
            foreign += not here
        if moved_left or foreign:
            raise Failure("after cleanup group 3 still holds %d keys of moved slots, group 4 %d foreign ones"
                          % (moved_left, foreign))
        return moved

    def check_routes(self):
        for slot in self.cluster.api.slots():
            want = self.cluster.g4.address if slot["id"] in MOVED else None
            if want and (slot.get("backend_addr") != want or slot.get("migrate_from")):
                raise Failure("slot %d is mapped to %s, not to %s" % (slot["id"], slot.get("backend_addr"), want))

    # ---- the whole

    def run(self):
        flags = self.flags
        self.cluster = self.timed("start dashboard, two proxies, groups 1, 3 and 4", lambda: Cluster(self.env, flags.groups))
        loaded = self.timed("load %d keys of five types" % flags.keys,
                            lambda: dataset("load", self.cluster, flags.keys, flags.seed))
        if loaded["bad"]:
            raise Failure("loading failed: %s" % loaded["samples"])
        self.say("load: checking clients%s through both proxies" % ("" if flags.no_benchmark else " and redis-benchmark"))
        load = Load(self.env, self.cluster, flags.seed, clients=flags.clients, benchmarks=not flags.no_benchmark,
                    hot_tags=moved_tags(2) if flags.hot else ())
        self.make_plan()
        self.start_shim()
        if flags.kill:
            self.kill_later(flags.kill)
        self.timed("slotferry run: replicate, attach, cut over, verify, hand back, clean up, detach", self.run_migrator)
        self.wait_for_outage()
        findings = load.stop()
        audit = self.timed("compare %d standing keys" % flags.keys,
                           lambda: dataset("audit", self.cluster, flags.keys, flags.seed))
        moved_keys = self.check_places()
        self.check_routes()
        return self.summary(findings, audit, moved_keys)

    def report(self):
        """The migrator's own report (slots, bytes, phases, pauses), from its JSON form."""
        return json.loads(self.slotferry("report", self.plan, "--dir", self.env.path("journal"), "--json").splitlines()[-1])

    def summary(self, findings, audit, moved_keys):
        outside = sum(n for at, n in findings["errors_by_100ms"]
                      if not any(a * 1000 - 200 <= at <= (b + ERROR_GRACE_S) * 1000 for a, b in self.outages))
        report = self.report()
        return {
            "groups": self.flags.groups, "seed": self.flags.seed, "killed": self.flags.kill or "",
            "slots_moved": report.get("slots_moved"), "keys": moved_keys, "bytes": report.get("bytes"),
            "acked_writes": findings["acked_writes"], "lost": findings["lost"] + audit["bad"],
            "doubled": findings["doubled"], "stale": findings["stale"], "errors": outside,
            "errors_while_down": findings["errors"] - outside, "benchmark_error_lines": findings["benchmark_error_lines"],
            "pause_ms": {k: report.get("pause_%s_ms" % k) for k in ("p50", "p99", "max")},
            "client_max_stall_ms": findings["max_stall_ms"], "phases_s": report.get("phases_s"), "steps_s": self.seconds,
            "samples": findings["samples"] + audit["samples"], "error_texts": findings["error_texts"],
        }


def show(summary):
    pause = summary["pause_ms"]
    rows = [("slots moved", summary["slots_moved"]), ("keys", summary["keys"]), ("bytes copied", summary["bytes"]),
            ("acknowledged writes during the move", summary["acked_writes"]), ("lost", summary["lost"]),
            ("doubled", summary["doubled"]), ("stale reads", summary["stale"]), ("client errors", summary["errors"]),
            ("client errors while a killed program was down", summary["errors_while_down"]),
            ("pause per cut unit p50 / p99 / max, ms", "%s / %s / %s" % (pause["p50"], pause["p99"], pause["max"])),
            ("longest wait of a checking client, ms", round(summary["client_max_stall_ms"], 1))]
    rows += [("  " + name + ", s", took) for name, took in (summary["phases_s"] or {}).items()]
    width = max(len(name) for name, _ in rows)
    print()
    for name, value in rows:
        print("  %-*s  %s" % (width, name, value))
    for sample in summary["samples"]:
        print("  ! " + sample)
    print()


def main():
    flags = parse_flags()
    # SIGTERM ends the programs it started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("quickstart: stopped"))
    try:
        with Env(keep=flags.keep) as env:
            summary = Demonstration(flags, env).run()
    except (Failure, AssertionError) as error:
        print("quickstart: %s" % error, file=sys.stderr)
        return 1
    bad = [name for name in ("lost", "doubled", "stale", "errors") if summary[name]]
    if not flags.kill and (summary["errors_while_down"] or summary["benchmark_error_lines"]):
        bad.append("errors")
    if summary["slots_moved"] != len(MOVED):
        bad.append("slots_moved")
    summary["ok"] = not bad
    if not flags.json:
        show(summary)
    print(json.dumps(summary))
    if bad:
        print("quickstart: not clean: %s" % ", ".join(bad), file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
