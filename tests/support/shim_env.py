"""A pair of groups, a plan and a shim for tests of the shim alone: no proxies, no dashboard; writers go straight to it."""
import json
import threading
import time
import zlib

import redis

from ferry_env import connect, free_port, program, wait_until


def slot_of(key):
    """Codis's hash: the tag between the first { and the next }, else the whole key."""
    raw = key.encode() if isinstance(key, str) else key
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start)
        if end > start:
            raw = raw[start + 1:end]
    return (zlib.crc32(raw) & 0xffffffff) % 1024


def keys_in(first, last, count, prefix="k"):
    """`count` names whose slots lie in first..last."""
    out, n = [], 0
    while len(out) < count:
        name = "%s:%d" % (prefix, n)
        if first <= slot_of(name) <= last:
            out.append(name)
        n += 1
    return out


def pika(env, name, *extra):
    """A fake Pika, started; `ask` asks it."""
    port = free_port()
    proc = env.add(name, [program("fake-pika"), "--port", str(port), *extra], "ready on")
    proc.port, proc.address = port, "127.0.0.1:%d" % port
    proc.ask = lambda *words: connect(port, decode_responses=True).execute_command(*words)
    return proc


def link_up(proc):
    return proc.ask("INFO", "replication").get("master_link_status") == "up"


class Shim:
    """slotferry-shim of one plan. `slots` move from `old` to `new`."""

    def __init__(self, env, old, new, slots, kind, stay="", name="shim", plan_id="p1", max_pause_ms=500, extra=(), folder=None):
        self.env, self.old, self.new, self.slots, self.name = env, old, new, slots, name
        self.port, self.admin_port = free_port(), free_port()
        self.plan_path = env.path(name + ".plan.json")
        self.dir = folder or env.path(name)
        self.plan = {
            "plan": plan_id, "dashboard": "127.0.0.1:%d" % free_port(), "product": "demo", "product_auth": "", "slots": slots,
            "source_group": 3, "target_group": 4, "shim_group": 9, "stay": stay,
            "old": {"master": old, "servers": [old], "password": "", "kind": kind},
            "new": {"master": new, "servers": [new], "password": "", "kind": kind},
            "shim": {"address": "127.0.0.1:%d" % self.port, "admin": "127.0.0.1:%d" % self.admin_port, "admin_password": ""},
            "unit": "slot" if kind == "node" else "plan", "max_pause_ms": max_pause_ms, "hold_share_percent": 5,
            "handback": "assign" if kind == "node" else "slot-action", "soak_seconds": 0, "ask": [], "verify": True,
            "cleanup": False}
        self.write_plan()
        self.proc = env.add(name, [program("slotferry-shim"), "--port", str(self.port), "--admin-port",
                                   str(self.admin_port), "--dir", self.dir, "--plan", self.plan_path, "--log-level", "debug",
                                   *extra], "ready on", start=False)

    def write_plan(self, **changes):
        self.plan.update(changes)
        with open(self.plan_path, "w") as f:
            json.dump(self.plan, f)

    def start(self, init=False):
        self.proc.start(("--init",) if init else ())
        self.admin = connect(self.admin_port, timeout=60, decode_responses=True)
        return self

    def ask(self, *words):
        return self.admin.execute_command("SHIM", *words)

    def status(self):
        flat = self.ask("STATUS")
        return dict(zip(flat[::2], flat[1::2]))

    def states(self, slots=None):
        rows = self.ask("SLOTS", slots or self.slots)
        return {row[0]: row[1] for row in rows}

    def rows(self, slots=None):
        return self.ask("SLOTS", slots or self.slots)

    def cutover(self, slots=None, *more):
        slots = slots or self.slots
        self.ask("PERMIT", slots)
        return self.ask("CUTOVER", slots, *more)

    def audit(self):
        with open(self.dir + "/audit.jsonl") as f:
            return [json.loads(line) for line in f]


class Permit:
    """Renews the permit as the migrator does, also over restarts of the shim."""

    def __init__(self, port, slots):
        self.port, self.slots, self.end = port, slots, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        client = None
        while not self.end.wait(0.05 if client is None else 1.0):
            try:
                client = client or connect(self.port, timeout=2)
                client.execute_command("SHIM", "PERMIT", self.slots)
            except (redis.RedisError, OSError):
                client = None

    def stop(self):
        self.end.set()
        self.thread.join()


class Writer:
    """One client that writes unique, rising values to its own keys and reads its last acknowledged one back. `lost` and
    `stale` name what it saw; a write answered with an error may or may not have happened, until it is read."""

    def __init__(self, port, keys, name, tolerate_errors=False):
        self.port, self.keys, self.name, self.tolerate = port, keys, name, tolerate_errors
        self.acked = {k: 0 for k in keys}
        self.maybe = {k: set() for k in keys}
        self.stale, self.errors, self.writes, self.max_ms = [], [], 0, 0.0
        self.counter, self.counter_maybe = 0, 0
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        client, n = None, 0
        while not self.end.is_set():
            n += 1
            key = self.keys[n % len(self.keys)]
            try:
                client = client or connect(self.port, timeout=10, decode_responses=True)
                self._write(client, key, n)
                self._read(client, key)
                self._count(client)
            except (redis.RedisError, OSError) as e:
                self.errors.append("%s: %s" % (key, e))
                if isinstance(e, (redis.ConnectionError, redis.TimeoutError, OSError)):
                    client = None
                    self.end.wait(0.02)

    def _write(self, client, key, n):
        self.maybe[key].add(n)
        start = time.monotonic()
        client.set(key, n)
        self.max_ms = max(self.max_ms, (time.monotonic() - start) * 1000)
        self.maybe[key].clear()
        self.acked[key] = n
        self.writes += 1

    def _count(self, client):
        self.counter_maybe += 1
        got = client.incr("{%s}:count" % self.keys[0])
        self.counter += 1
        if not self.counter <= got <= self.counter_maybe:
            self.stale.append("counter %d not in %d..%d" % (got, self.counter, self.counter_maybe))
        self.counter = self.counter_maybe = got

    def _read(self, client, key):
        value = client.get(key)
        got = 0 if value is None else int(value)
        if got == self.acked[key]:
            return
        if got in self.maybe[key]:
            self.maybe[key] -= {v for v in self.maybe[key] if v <= got}
            self.acked[key] = got
        else:
            self.stale.append("%s is %d, written %d, perhaps %s" % (key, got, self.acked[key], sorted(self.maybe[key])))

    def stop(self):
        self.end.set()
        self.thread.join()

    def check(self, port):
        """After the end: what the owner holds is what was acknowledged."""
        client = connect(port, decode_responses=True)
        lost = []
        for key in self.keys:
            value = client.get(key)
            got = 0 if value is None else int(value)
            if got != self.acked[key] and got not in self.maybe[key]:
                lost.append("%s is %d, acknowledged %d" % (key, got, self.acked[key]))
        count = int(client.get("{%s}:count" % self.keys[0]) or 0)
        if not self.counter <= count <= self.counter_maybe:
            lost.append("counter is %d, not in %d..%d" % (count, self.counter, self.counter_maybe))
        client.close()
        assert not self.stale, self.stale[:5]
        assert not lost, lost[:5]
        if not self.tolerate:
            assert not self.errors, self.errors[:5]


def writers(port, first, last, count=6, tolerate_errors=False, prefix="w"):
    return [Writer(port, keys_in(first, last, 20, "%s%d" % (prefix, i)), "w%d" % i, tolerate_errors) for i in range(count)]


def follow_redis(old_port, new_port):
    connect(new_port).execute_command("REPLICAOF", "127.0.0.1", old_port)
    wait_until("replica in sync", lambda: connect(new_port).info("replication").get("master_link_status") == "up")


def follow_node(old_port, new_port, slots, *how):
    new = connect(new_port, decode_responses=True)
    new.execute_command("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", old_port, slots, *how)

    def in_sync():
        ours = {row[0]: row for row in new.execute_command("REPLICATION", "POSITIONS", slots)}
        theirs = {row[0]: row for row in connect(old_port, decode_responses=True).execute_command(
            "REPLICATION", "POSITIONS", slots)}
        return all(r[1] == "slave" and r[4] == "up" and r[3] >= theirs[s][3] for s, r in ours.items())
    wait_until("slots %s in sync" % slots, in_sync)
