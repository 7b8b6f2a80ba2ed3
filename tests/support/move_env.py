"""A cluster with keys, a plan, a shim and the slotferry command, for tests of the migrator as a process."""
import json
import os
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo"))
from cluster import PRODUCT, Cluster  # noqa: E402
from ferry_env import connect, free_port, program  # noqa: E402


def slot_of(key):
    key = key.encode() if isinstance(key, str) else key
    start = key.find(b"{")
    end = key.find(b"}", start + 1) if start >= 0 else -1
    return zlib.crc32(key[start + 1:end] if end >= 0 else key) % 1024


class Outcome:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return "exit code %d\n%s\n%s" % (self.code, self.out[-3000:], self.err)

    def json_lines(self, event):
        rows = [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]
        return [row for row in rows if row["event"] == event]


def slotferry(*words, timeout=240):
    return Outcome(subprocess.run([program("slotferry"), *map(str, words)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=timeout))


class Move:
    """Groups 3 (slots 801-1023) and 4 (empty); slots 901-1023 shall move."""

    def __init__(self, env, kind="node", keys=2000, slots="901-1023", soak="0"):
        self.env = env
        self.cluster = Cluster(env, kind)
        self.proxy = connect(self.cluster.proxy_ports[0])
        self.proxy.delete("ready{user:1000}")  # what the cluster tried itself with
        self.keys = self.load(keys, strings=kind.startswith("pika"))
        self.shim_port, self.admin_port = free_port(), free_port()
        self.plan = env.path("plan.json")
        made = slotferry("plan", *self.plan_words(slots=slots), "--soak", soak)
        assert made.code == 0, made
        self.state = env.path("state")
        self.shim = env.add("shim", [program("slotferry-shim"), "--port", str(self.shim_port), "--bind", "127.0.0.1",
                                     "--admin-port", str(self.admin_port), "--dir", env.path("shim"), "--threads",
                                     "2", "--plan", self.plan], "ready on", start=False)
        self.shim.start(extra=["--init"])

    def plan_words(self, **changed):
        words = {"dashboard": self.cluster.dashboard_address, "product": PRODUCT, "slots": "901-1023", "to": "4",
                 "shim": "127.0.0.1:%d" % self.shim_port, "shim-admin": "127.0.0.1:%d" % self.admin_port,
                 "out": self.plan}
        words.update({name.replace("_", "-"): str(value) for name, value in changed.items()})
        return [word for name, value in words.items() for word in ("--" + name, value)]

    def load(self, count, strings=False):
        """Keys of five types (or strings alone), some with TTLs, in slots 801-1023 only; key -> slot."""
        keys = {}
        pipe = self.proxy.pipeline(transaction=False)
        for i in range(count):
            key = "k%d" % i
            if slot_of(key) < 801:
                continue
            keys[key] = slot_of(key)
            make = (lambda: pipe.set(key, "v%d" % i, px=10**8 if i % 2 else None),
                    lambda: pipe.rpush(key, *range(i % 7 + 1)),
                    lambda: pipe.execute_command("HMSET", key, *(w for j in range(i % 5 + 1) for w in ("f%d" % j, j))),
                    lambda: pipe.sadd(key, *range(i % 9 + 1)),
                    lambda: pipe.zadd(key, {str(j): j * 1.5 for j in range(i % 6 + 1)}))
            make[0 if strings else i % 5]()
        pipe.execute()
        return keys

    def edit_plan(self, **changes):
        with open(self.plan) as f:
            plan = json.load(f)
        plan.update(changes)
        with open(self.plan, "w") as f:
            json.dump(plan, f)

    def __call__(self, command, *words, **kw):
        """slotferry COMMAND plan.json ... with this move's state folder."""
        return slotferry(command, self.plan, *words, "--dir", kw.pop("state", self.state), **kw)

    def admin(self, *words):
        return connect(self.admin_port).execute_command("SHIM", *words)

    def shim_states(self, slots="901-1023"):
        """state -> number of slots"""
        states = {}
        for row in self.admin("SLOTS", slots):
            states[row[1].decode().lower()] = states.get(row[1].decode().lower(), 0) + 1
        return states

    def group_of(self, slot):
        return self.cluster.api.stats()["slots"][slot]["group_id"]

    def keys_on(self, server):
        """slot -> number of keys there, as a node counts them"""
        return {int(slot): int(n) for slot, n in connect(server.port).execute_command("SLOTSINFO")}

    def planned(self, first=901, last=1023):
        counts = {}
        for slot in self.keys.values():
            if first <= slot <= last:
                counts[slot] = counts.get(slot, 0) + 1
        return counts
