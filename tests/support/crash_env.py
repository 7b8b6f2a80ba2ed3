"""Crash rounds: a master, a full replica and a slot replica under load; some of them are killed at a random moment and
start again; then every copy must be what the master says, and the master must be a prefix of what was asked of it.

Two kinds of nodes: `slotferry-node`, whose kill -9 keeps the page cache, so nothing acknowledged may be missing; and
`power-loss-node`, whose kill -9 loses everything that was not synced.
"""
import os
import random
import signal
import threading
import time

import redis

from ferry_env import connect, wait_until
from replica_env import Node, slot_of, tag_in_cached, wait_in_sync

SLOTS = "700-1023"
RANGE = range(700, 1024)
BATCH = 16
KEYS = 400  # a writer's own, written again and again


class Writer:
    """One connection; its operations in order, each with a value of its own. What a crash leaves of them must be a prefix."""

    def __init__(self, me, seed):
        self.me, self.rnd = me, random.Random(seed)
        self.count = 0
        self.base = {}   # content before this round
        self.ops = []    # (key, value or None for a list's push, number)
        self.acked = []  # when each was acknowledged
        self.error = None
        self.thread = None

    def start(self, master, stop):
        self.ops, self.acked = [], []
        self.list_key = "{%s}l%d" % (tag_in_cached(self.rnd.randrange(1024)), self.me)
        self.thread = threading.Thread(target=self._run, args=(master.port, stop), daemon=True)
        self.thread.start()

    def _run(self, port, stop):
        try:
            with connect(port) as client:
                while not stop.is_set():
                    pipe = client.pipeline(transaction=False)
                    for _ in range(BATCH):
                        self._add(pipe)
                    pipe.execute()
                    self.acked += [time.monotonic()] * BATCH
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            pass
        except Exception as error:  # shown by check
            self.error = error

    def _add(self, pipe):
        n = self.count
        self.count += 1
        if n % 10 == 0:
            self.ops.append((self.list_key, None, n))
            pipe.rpush(self.list_key, n)
            return
        ring = self.rnd.randrange(KEYS)
        key = "{%s}s%d_%d" % (tag_in_cached((ring * 37 + self.me * 311) % 1024), self.me, ring)
        value = "%d:%d:%s" % (self.me, n, "x" * self.rnd.randrange(200))
        self.ops.append((key, value, n))
        pipe.set(key, value)

    def mine(self, content):
        return {k: v for k, v in content.items() if k.split("}")[1][1:].split("_")[0] == str(self.me)}

    def check(self, content):
        """The content is what the first operations left, exactly. Returns (acknowledged ones lost, age of the oldest of them
        when the last was acknowledged)."""
        assert self.error is None, self.error
        now = self.mine(content)
        number_of = {(key, value): i for i, (key, value, _) in enumerate(self.ops)}
        last = max((number_of.get(item, -1) for item in now.items() if not isinstance(item[1], tuple)), default=-1)
        pushed = [int(n) for n in now.get(self.list_key, ())]
        if pushed and self.ops:
            last = max(last, pushed[-1] - self.ops[0][2])
        expected = dict(self.base)
        for key, value, n in self.ops[:last + 1]:
            if value is None:
                expected[key] = expected.get(key, ()) + (str(n),)
            else:
                expected[key] = value
        wrong = [k for k in expected.keys() | now.keys() if expected.get(k) != now.get(k)]
        assert not wrong, "%d keys are not what the first %d operations left, first %r: %r, should be %r" % (
            len(wrong), last + 1, wrong[0], now.get(wrong[0]), expected.get(wrong[0]))
        self.base = now
        lost = self.acked[last + 1:]
        return len(lost), (self.acked[-1] - lost[0] if lost else 0)


def content(node, slots=None):
    """{key: value, a tuple for a list} of these slots."""
    client = connect(node.port, decode_responses=True)
    keys = sorted({k for k in client.scan_iter(count=2000) if slots is None or slot_of(k) in slots})
    plain = [k for k in keys if k.split("}")[1][0] == "s"]
    out = {}
    for i in range(0, len(plain), 500):
        out.update(zip(plain[i:i + 500], client.mget(plain[i:i + 500])))
    for key in keys:
        if key.split("}")[1][0] != "s":
            out[key] = tuple(client.lrange(key, 0, -1))
    client.close()
    return out


def assert_same(what, left, right):
    wrong = [k for k in left.keys() | right.keys() if left.get(k) != right.get(k)]
    assert not wrong, "%s: %d of %d keys differ, first %r: %r / %r" % (
        what, len(wrong), len(left), wrong[0], left.get(wrong[0]), right.get(wrong[0]))


def numbers(line):
    return dict(part.split("=", 1) for part in line.split(",") if "=" in part)


class CrashRounds:
    def __init__(self, env, binary, sync, seed, writers=4):
        self.env, self.sync, self.rnd = env, sync, random.Random(seed)
        self.power = binary == "power-loss-node"
        extra = ("--sync", sync, "--write-buffer-size", "2mb", "--backlog-size", "1mb", "--block-cache", "8mb")
        self.master, self.full, self.part = (Node(env, name, extra=extra, binary=binary)
                                             for name in ("master", "full", "part"))
        self.writers = [Writer(i, seed * 100 + i) for i in range(writers)]
        self.copies = self.ahead = self.lost = self.writes = 0
        self.worst_s = 0.0
        self.full("SLAVEOF", "127.0.0.1", self.master.port)
        self.part.follow_slots(self.master, SLOTS)
        for replica in (self.full, self.part):
            wait_in_sync(self.master, replica, self._slots(replica))

    def _slots(self, replica):
        return SLOTS if replica is self.part else "all"

    def _position(self, replica):
        rows = replica.positions(self._slots(replica)).values()
        return min((row["history"], row["seq"]) for row in rows)

    def _promises(self):
        """What the master believes each replica to have on disk: it keeps the log from there on only."""
        out = {}
        for name, line in self.master.info().items():
            if name.startswith("slotferry_log_claim"):
                row = numbers(line)
                for replica in (self.full, self.part):
                    if "127.0.0.1:%d " % replica.port in row["who"]:
                        out[replica] = int(row["after"])
        return out

    def _told_of_copy(self, replica):
        with open(replica.proc.log_path, errors="replace") as f:
            return f.read().count("is not part of the master's log")

    def round(self):
        killed = self.rnd.choice([(self.master,), (self.master,), (self.full,), (self.part,), (self.full, self.part),
                                  (self.master, self.full), (self.master, self.part),
                                  (self.master, self.full, self.part)])
        if killed == (self.master,) or self.rnd.random() < 0.7:
            self._wait_online()
        before = self._promises()
        stop = threading.Event()
        for writer in self.writers:
            writer.start(self.master, stop)
        time.sleep(self.rnd.uniform(0.05, 1.6))
        promised = {r: at for r, at in self._promises().items() if at > before.get(r, 1 << 63)}
        old_history = self.master.info()["slotferry_history"]
        for node in killed:
            node.proc.kill()
        stop.set()
        for writer in self.writers:
            writer.thread.join()
        self.writes += sum(len(w.acked) for w in self.writers)
        self._restart(killed, promised)
        if self.rnd.random() < 0.4:  # again, in the middle of what the restart began: recovery, a copy
            time.sleep(self.rnd.uniform(0, 0.3))
            again = self.rnd.choice((self.master, self.full, self.part))
            again.restart()
            killed += (again,)
        now = content(self.master)
        ends = [w.check(now) for w in self.writers]
        self._judge_loss(killed, ends)
        if self.master in killed:
            assert self.master.info()["slotferry_history"] != old_history
        for replica in (self.full, self.part):
            wait_in_sync(self.master, replica, self._slots(replica))
            there = content(replica, RANGE if replica is self.part else None)
            mine = now if replica is self.full else {k: v for k, v in now.items() if slot_of(k) in RANGE}
            assert_same("%s after killing %s" % (replica.name, [n.name for n in killed]), mine, there)

    def _wait_online(self):
        for replica in (self.full, self.part):
            wait_until("link of %s" % replica.name,
                       lambda r=replica: all(p["link"] == "up" for p in r.positions(self._slots(r)).values()))

    def _restart(self, killed, promised):
        """The replicas first, while no master answers, so that what they came back with can be seen."""
        if self.master not in killed:
            os.kill(self.master.proc.pid, signal.SIGSTOP)
        told = {r: self._told_of_copy(r) for r in (self.full, self.part)}
        for node in killed:
            if node is not self.master:
                node.proc.start()
                history, at = self._position(node)
                if node in promised and history != "-":
                    assert at >= promised[node], "%s promised %d and came back with %d" % (node.name, promised[node], at)
        positions = {r: self._position(r) for r in (self.full, self.part)}
        if self.master not in killed:
            os.kill(self.master.proc.pid, signal.SIGCONT)
            return
        self.master.proc.start()
        end = int(self.master.info()["slotferry_seq"])
        for replica, (history, at) in positions.items():
            if history == "-" or at <= end:
                continue
            self.ahead += 1  # it has what the master no longer knows of: nothing of that may stay
            wait_until("%s copies, it was at %d and the master at %d" % (replica.name, at, end),
                       lambda r=replica: self._told_of_copy(r) > told[r])
            self.copies += 1

    def _judge_loss(self, killed, ends):
        lost = sum(count for count, _ in ends)
        worst = max(age for _, age in ends)
        self.lost += lost
        self.worst_s = max(self.worst_s, worst)
        if self.master not in killed or not self.power or self.sync == "always":
            assert lost == 0, "%d acknowledged writes are lost" % lost
        else:
            assert worst < 2.0, "writes acknowledged %.2f s before the end are lost" % worst

    def report(self, rounds):
        return "%d rounds, %d acknowledged writes, %d lost (oldest %.2f s), %d times a replica was ahead, %d copies" % (
            rounds, self.writes, self.lost, self.worst_s, self.ahead, self.copies)
