"""The stage of the pause benchmark: dashboard, two proxies, an uninvolved group, two groups between which slots move, and
one shim a leg. All of it under load the whole time, as a chain of real moves would be."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo"))
from cluster import PRODUCT, Dashboard  # noqa: E402
from ferry_env import connect, free_port, program, wait_until  # noqa: E402
from shim_env import Permit, Shim, follow_node, keys_in  # noqa: E402

UNITS = 123
LAST = 1023
FIRST = {"node": LAST + 1 - 3 * UNITS}  # of the slots of group 3; the others belong to a group that takes no part
KEY = "{%s}bench:end"


def text_of(first, last):
    return str(first) if first == last else "%d-%d" % (first, last)


class NotSwitched(Exception):
    """A cutover that did not come about, as one sentence."""


class Load:
    """tests/support/paced_load_main.cc under command; its findings by window."""

    def __init__(self, env, ports, name, **flags):
        words = [w for key, value in flags.items() for w in ("--" + key.replace("_", "-"), str(value))]
        self.log = open(env.path(name + ".log"), "wb")
        self.popen = subprocess.Popen([program("paced-load"), "--ports", ",".join(map(str, ports)), "--prefix", name, *words],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        env.cleanups.append(self.end)

    def say(self, line):
        self.popen.stdin.write((line + "\n").encode())
        self.popen.stdin.flush()

    def end_by_itself(self):
        """For a load of --seconds."""
        self.popen.wait(60)
        return self.end()

    def end(self):
        if not self.popen.stdin.closed:
            self.popen.stdin.close()
            out = self.popen.stdout.read()
            self.popen.wait(30)
            self.popen.stdout.close()
            self.log.close()
            found = json.loads(out) if out else {"windows": [], "error_texts": ["the load generator ended early"]}
            self.windows = {w["name"]: w for w in found["windows"]}
            self.error_texts = found["error_texts"]
            self.errors = sum(w["errors"] for w in found["windows"]) + (not out)
        return self


class Checker:
    """ferry-check through both proxies: nothing lost, doubled or stale."""

    def __init__(self, env, ports, slots, clients=8):
        self.out = env.path("checker.json")
        self.proc = env.add("checker", [program("ferry-check"), "run", "--proxies",
                                        ",".join("127.0.0.1:%d" % p for p in ports), "--slots", slots, "--clients",
                                        str(clients), "--out", self.out, "--think-us", "10000"], "running")

    def end(self):
        self.proc.stop(120)
        with open(self.out) as f:
            return json.load(f)


class Stage:
    """Groups 1 (slots that take no part), 3 and 4 (one of them owns the slots from `first` on); a leg moves slots between 3 and 4 by a shim of its own."""

    def __init__(self, env, kind, max_pause_ms):
        self.env, self.kind, self.max_pause_ms = env, kind, max_pause_ms
        self.first = FIRST.get(kind, LAST + 1 - UNITS)
        self.legs, self.shim, self.audits, self.range = 0, None, [], (self.first, LAST)
        self.owner, self.other = self._server("three"), self._server("four")
        self.groups = {self.owner.address: 3, self.other.address: 4}
        one = env.redis("one") if kind == "pika" else self._server("one")
        self._start_dashboard(one)
        self.proxy_ports = [self._start_proxy(i) for i in (1, 2)]
        wait_until("proxies route", lambda: all(connect(p).set(KEY % k, 1) for p in self.proxy_ports
                                                for k in keys_in(1023, 1023, 1)), 20)
        if kind != "node":
            self.follow(self.owner, self.other)

    def _server(self, name):
        if self.kind == "node":
            return self.env.node(name)
        if self.kind == "redis":
            return self.env.redis(name)
        port = free_port()
        proc = self.env.add(name, [program("fake-pika"), "--port", str(port)], "ready on")
        proc.port, proc.address = port, "127.0.0.1:%d" % port
        return proc

    def _start_dashboard(self, one):
        port, state = free_port(), self.env.path("dashboard-state.json")
        groups = [{"id": g, "servers": [{"server": a, "datacenter": "", "action": {}, "replica_group": False}],
                   "promoting": {}, "out_of_sync": False}
                  for g, a in ((1, one.address), (3, self.owner.address), (4, self.other.address))]
        slots = [{"id": s, "group_id": 3 if s >= self.first else 1, "action": {}} for s in range(1024)]
        with open(state, "w") as f:
            json.dump({"groups": groups, "slots": slots, "proxies": []}, f)
        self.dashboard_address = "127.0.0.1:%d" % port
        self.env.add("dashboard", [program("codis-standin"), "dashboard", "--port", str(port), "--product", PRODUCT,
                                   "--state", state], "ready")
        self.api = Dashboard(self.dashboard_address)

    def _start_proxy(self, number):
        port, admin = free_port(), free_port()
        self.env.add("proxy-%d" % number, [program("codis-standin"), "proxy", "--port", str(port), "--admin-port", str(admin),
                                           "--product", PRODUCT], "ready")
        self.api.put("proxy/create", "127.0.0.1:%d" % admin)
        return port

    # ---- replication

    def follow(self, master, slave, slots=None):
        """`slave` follows `master` and has all of it."""
        if self.kind == "node":
            return follow_node(master.port, slave.port, slots)
        client = connect(slave.port, decode_responses=True)
        if self.kind == "redis":
            client.config_set("min-replicas-to-write", 0)  # the fence of the leg before
        client.execute_command("SLAVEOF", "127.0.0.1", master.port)
        if self.kind == "pika":
            client.execute_command("CONFIG", "REWRITE")
        wait_until("link up", lambda: client.info("replication").get("master_link_status") == "up", 60)
        client.connection_pool.disconnect()  # a foreign connection stops a cutover
        self.wait_caught_up(slave)

    def wait_caught_up(self, slave, timeout=120):
        """A write of now, sent through a proxy, is readable on `slave`."""
        key, value = KEY % keys_in(self.range[0], self.range[0], 1)[0], "%d" % time.monotonic_ns()
        client = connect(slave.port, decode_responses=True)
        connect(self.proxy_ports[0]).set(key, value)
        wait_until("%s has the last write" % slave.name, lambda: client.get(key) == value, timeout, step=0.002)
        client.connection_pool.disconnect()

    def follows(self, first, last):
        """Nodes: the other side follows its owner in all these slots, and the link is up."""
        if first > last:
            return True
        try:
            rows = connect(self.other.port, decode_responses=True).execute_command("REPLICATION", "POSITIONS",
                                                                                   text_of(first, last))
        except (OSError, redis.RedisError):
            return False
        return all(row[1] == "slave" and row[4] == "up" for row in rows)

    # ---- faults of whole groups

    def strike(self, how):
        """A fault, now. The answer undoes it: the new side is there again and follows its owner, or (True) is the owner by now."""
        if how == "stop":
            os.kill(self.other.pid, signal.SIGSTOP)
            return lambda is_owner: os.kill(self.other.pid, signal.SIGCONT)
        if how == "kill":
            self.other.kill()
            return lambda is_owner: self.other.start() if is_owner else self._copy_anew()
        self._cut_driver()
        return lambda is_owner: None

    def _cut_driver(self):
        """The connections of the shim's drivers to the owner end, as by a firewall; those of clients stay."""
        client = connect(self.owner.port)
        for row in client.client_list():
            if row["name"].startswith("slotferry-shim"):
                try:
                    client.client_kill(row["addr"])
                except redis.ResponseError:
                    pass  # it was ended by itself
        client.connection_pool.disconnect()

    def _copy_anew(self):
        """The new side comes up again, a master of what its disk has (Redis), or empty (the tests' Pika), which the shim does not trust and
        has copied anew itself."""
        self.other.start()
        client = connect(self.other.port, decode_responses=True)
        client.execute_command("SLAVEOF", "127.0.0.1", self.owner.port)
        if self.kind == "pika":
            client.execute_command("CONFIG", "REWRITE")
        client.connection_pool.disconnect()

    def serves(self):
        try:
            return connect(self.proxy_ports[0]).set(KEY % keys_in(self.range[0], self.range[0], 1)[0], 1)
        except redis.RedisError:
            return False

    def until_ready(self):
        """The new side follows and has everything: the next attempt can begin. One that was promoted is taken back by the shim."""
        def follows():
            try:
                client = connect(self.other.port, decode_responses=True)
                said = client.info("replication")
                client.connection_pool.disconnect()
            except (OSError, redis.RedisError):
                return False
            return said.get("role") == "slave" and said.get("master_link_status") == "up"
        wait_until("the new side follows", follows, 60)
        wait_until("nothing is owed", lambda: "still to do" not in self.shim.ask("SLOTS", text_of(*self.range))[0][7], 60)
        self.wait_caught_up(self.other)

    # ---- legs

    def attach(self, first, last):
        """A shim for these slots between their owner and the other group; proxies send them to it from now on."""
        self.legs += 1
        slots, group = text_of(first, last), 10 + self.legs
        if self.kind == "node":
            self.follow(self.owner, self.other, slots)
        shim = Shim(self.env, self.owner.address, self.other.address, slots, self.kind, name="shim-%d" % self.legs,
                    plan_id="leg%d" % self.legs, max_pause_ms=self.max_pause_ms)
        shim.proc.argv[shim.proc.argv.index("debug")] = "info"
        shim.write_plan(dashboard=self.dashboard_address, product=PRODUCT, source_group=self.groups[self.owner.address],
                        target_group=self.groups[self.other.address], shim_group=group,
                        **({"accept": ["streams"]} if self.kind == "pika" else {}))
        shim.start(init=True)
        self.api.put("group/create", group)
        self.api.put("group/add", group, "127.0.0.1:%d" % shim.port)
        self.assign(first, last, group)
        self._end_shim()
        self.shim, self.range, self.group = shim, (first, last), group
        self.permit = Permit(shim.admin_port, slots)
        wait_until("permit", lambda: shim.status()["permit_ms_left"] > 0)

    def assign(self, first, last, group):
        self.api.put("slots/assign", body=[{"id": s, "group_id": group} for s in range(first, last + 1)])

    def _end_shim(self, group_too=True):
        """The proxies have left it already, or nothing is sent any more."""
        if self.shim is None:
            return
        self.permit.stop()
        self.shim.admin.connection_pool.disconnect()
        self.shim.proc.stop()
        self.env.procs.pop(self.shim.name)
        if group_too:
            self.api.put("group/del", self.group, "127.0.0.1:%d" % self.shim.port)
            self.api.put("group/remove", self.group)
        self.audits.append(self.shim.audit())
        self.shim = None

    def cut(self, first, last, patience=120):
        """Until the new group owns these slots. Attempts that were taken back are asked for again; they are in the audit log."""
        deadline = time.monotonic() + patience
        while True:
            rows = self.shim.ask("CUTOVER", text_of(first, last))
            left = [row for row in rows if row[1] != "NEW"]
            if not left:
                return
            if time.monotonic() > deadline:
                raise NotSwitched("after %d s: slots %s are %s: %s" % (patience, left[0][0], left[0][1], left[0][4]))
            if not any("still" in row[4] for row in left):
                time.sleep(0.5)

    def swap(self):
        """Whole groups: the old side follows the new one, and the next leg moves back."""
        self.owner, self.other = self.other, self.owner
        self.follow(self.owner, self.other)

    def hand_back(self):
        """Slots: the new group has them now, without a shim."""
        self.shim.ask("FINAL", text_of(*self.range))
        self.assign(*self.range, 4)
        self._end_shim()

    def end(self):
        """The last shim's words; called after the loads have ended."""
        self._end_shim(group_too=False)
        return self.audits


class AuditTail:
    """What the shim adds to its audit log from now on, seen as soon as it can be."""

    def __init__(self, path):
        self.file = open(path)
        self.file.seek(0, os.SEEK_END)
        self.rest, self.unread, self.passed = "", [], []

    def _read(self):
        self.rest += self.file.read()
        whole, _, self.rest = self.rest.rpartition("\n")
        self.unread += [json.loads(line) for line in whole.splitlines() if line]

    def skip(self):
        self._read()
        self.unread, self.passed = [], []

    def wait(self, wanted, timeout):
        """The first new entry for which `wanted` holds; None at the timeout. `passed` has all up to it since skip()."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._read()
            while self.unread:
                self.passed.append(self.unread.pop(0))
                if wanted(self.passed[-1]):
                    return self.passed[-1]
        return None


def in_background(what):
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    return thread
