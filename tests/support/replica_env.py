"""What tests of replication between nodes share: verbs, exact comparison by slot, load that knows what was acknowledged."""
import random
import threading
import zlib

import redis

from ferry_env import connect, wait_until


def slot_of(key):
    raw = key if isinstance(key, bytes) else key.encode()
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start)
        if end >= 0:
            raw = raw[start + 1:end]
    return (zlib.crc32(raw) & 0xffffffff) % 1024


def tag_in(slot):
    """A short tag whose slot this is: "{tag}x" lives there."""
    n = 0
    while slot_of("t%d" % n) != slot:
        n += 1
    return "t%d" % n


def pairs(flat):
    return {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}


class Node:
    """One slotferry-node and a client for the verbs; kill -9 and start again as one likes."""

    def __init__(self, env, name, extra=(), password=None, binary="slotferry-node"):
        self.env, self.name, self.password = env, name, password
        if password:
            extra = ("--requirepass", password, *extra)
        self.proc = env.node(name, extra=extra, binary=binary)
        self.port = self.proc.port
        self.address = self.proc.address
        self.client = connect(self.port, password=password)

    def restart(self, kill=True):
        if kill:
            self.proc.kill()
        else:
            self.proc.stop()
        self.proc.start()

    def __call__(self, *words):
        return self.client.execute_command(*words)

    def follow_slots(self, master, slots, *more):
        return self("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", master.port, slots, *more)

    def positions(self, slots="all"):
        return {row[0]: {"role": row[1].decode(), "history": row[2].decode(), "seq": row[3], "link": row[4].decode(),
                         "fence": row[5].decode()} for row in self("REPLICATION", "POSITIONS", slots)}

    def fence(self, slots, plan, epoch, lease=5000):
        reply = pairs(self("PKCLUSTER", "FENCE", slots, plan, epoch, "LEASE", lease))
        return reply["history"].decode(), reply["seq"]

    def permanent(self, slots, plan, epoch, owner):
        reply = pairs(self("PKCLUSTER", "FENCE", slots, plan, epoch, "PERMANENT", owner.address))
        return reply["history"].decode(), reply["seq"]

    def unfence(self, slots, plan, epoch):
        return self("PKCLUSTER", "UNFENCE", slots, plan, epoch)

    def wait_applied(self, slots, end, ms=5000):
        return self("REPLICATION", "WAITAPPLIED", slots, end[0], end[1], ms)

    def promote(self, slots, plan, epoch, end):
        reply = pairs(self("PKCLUSTER", "PROMOTE", slots, plan, epoch, "FROM", end[0], end[1]))
        return reply["applied"], reply["history"].decode(), reply["seq"]

    def follow(self, slots, plan, epoch, master, position):
        return self("PKCLUSTER", "FOLLOW", slots, plan, epoch, "127.0.0.1", master.port, "FROM", position[0], position[1])

    def info(self):
        """Lines name:value of INFO replication, as they are: redis-py would take some apart."""
        with connect(self.port, password=self.password) as client:
            client.set_response_callback("INFO", lambda reply, **_: reply.decode())
            text = client.execute_command("INFO", "replication")
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def wait_in_sync(master, replica, slots="all", timeout=60):
    """Every slot of the replica has applied what the master's last write to it was, as the master says now."""
    ends = master.positions(slots)
    history = next(iter(ends.values()))["history"]
    top = max(end["seq"] for end in ends.values())

    def there():
        try:
            return replica.wait_applied(slots, (history, top), 1000) == 1
        except redis.ConnectionError:
            return False

    wait_until("%s in sync with %s" % (replica.name, master.name), there, timeout)


def value_of(client, key):
    kind = client.type(key)
    if kind == b"string":
        return kind, client.get(key)
    if kind == b"hash":
        return kind, tuple(sorted(client.hgetall(key).items()))
    if kind == b"list":
        return kind, tuple(client.lrange(key, 0, -1))
    if kind == b"set":
        return kind, tuple(sorted(client.smembers(key)))
    if kind == b"zset":
        return kind, tuple(client.zrange(key, 0, -1, withscores=True))
    return kind, None


def content(node, slots=None, dbs=(0,)):
    """{(db, key): (type, value, absolute expiry)} of these slots, everything, in order."""
    out = {}
    for db in dbs:
        client = connect(node.port, db=db, password=node.password)
        client.execute_command("PKCLUSTER", "VERIFYREAD", "ON")
        for key in client.scan_iter(count=1000):
            if slots is None or slot_of(key) in slots:
                out[(db, key)] = (*value_of(client, key), client.execute_command("PEXPIRETIME", key))
        client.close()
    return out


def assert_equal(master, replica, slots=None, dbs=(0,)):
    left, right = content(master, slots, dbs), content(replica, slots, dbs)
    different = [k for k in left.keys() | right.keys() if left.get(k) != right.get(k)]
    assert not different, "%d of %d keys differ, the first: %r: %r / %r" % (
        len(different), len(left), different[0], left.get(different[0]), right.get(different[0]))
    return len(left)


class Load:
    """Threads that write all types into some slots of a node. `owner()` gives the node for the next write; an error that
    says "elsewhere" or "later" is retried at what owner() says then; a broken connection makes the write unknown."""

    LATER = ("TRYAGAIN", "READONLY", "MOVEDSLOT")

    def __init__(self, owner, slots, threads=4, seed=1, kinds="all"):
        self.owner, self.slots, self.kinds = owner, list(slots), kinds
        self.stop_event = threading.Event()
        self.errors = []
        self.acked = [{} for _ in range(threads)]       # key -> acknowledged increments, pushes
        self.unknown = [set() for _ in range(threads)]  # keys of writes whose answer was lost
        self.count = [0] * threads
        self.threads = [threading.Thread(target=self._run, args=(i, random.Random(seed * 1000 + i)), daemon=True)
                        for i in range(threads)]
        for t in self.threads:
            t.start()

    def stop(self):
        self.stop_event.set()
        for t in self.threads:
            t.join()
        assert not self.errors, self.errors[:3]
        return sum(self.count)

    def _run(self, me, rnd):
        clients = {}
        try:
            while not self.stop_event.is_set():
                self._one(me, rnd, clients)
        except Exception as error:  # shown by stop()
            self.errors.append(repr(error))

    def _one(self, me, rnd, clients):
        tag = "{%s}" % tag_in_cached(rnd.choice(self.slots))
        counter, series = "%sn%d" % (tag, me), "%sl%d" % (tag, me)
        acked = self.acked[me]
        choice = rnd.randrange(6) if self.kinds == "all" else rnd.randrange(2)
        if choice == 0:
            done = self._do(me, counter, clients, "INCR", counter)
        elif choice == 1:
            done = self._do(me, series, clients, "RPUSH", series, acked.get(series, 0))
        else:
            name = "%sx%d" % (tag, rnd.randrange(20))
            words = [("SET", name + "s", rnd.randrange(10 ** 9), "PX", rnd.randrange(10 ** 6, 10 ** 8)),
                     ("HSET", name + "h", rnd.randrange(5), rnd.randrange(10 ** 6)),
                     ("ZADD", name + "z", rnd.randrange(100), rnd.randrange(20)),
                     ("DEL", name + "h", name + "z")][choice - 2]
            self._do(me, None, clients, *words)
            return
        if done:
            acked[counter if choice == 0 else series] = acked.get(counter if choice == 0 else series, 0) + 1

    def _do(self, me, key, clients, *words):
        while not self.stop_event.is_set():
            node = self.owner()
            client = clients.get(node.port)
            if client is None:
                client = clients[node.port] = connect(node.port, password=node.password, retry_on_timeout=False)
            try:
                client.execute_command(*words)
                self.count[me] += 1
                return True
            except redis.ResponseError as error:
                if not str(error).startswith(self.LATER) and "read only" not in str(error):
                    raise
                self.stop_event.wait(0.001)
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                if key is not None:
                    self.unknown[me].add(key)
                clients.pop(node.port)
                self.stop_event.wait(0.02)
                return False
        return False

    def check(self, node):
        """Each acknowledged INCR and RPUSH is there exactly once (unknown ones: at most once more each)."""
        client = connect(node.port, password=node.password)
        for me, acked in enumerate(self.acked):
            for key, times in acked.items():
                if key.split("}")[1].startswith("n"):
                    got = int(client.get(key) or 0)
                else:
                    got = client.llen(key)
                    if key not in self.unknown[me]:
                        assert client.lrange(key, 0, -1) == [b"%d" % i for i in range(times)], key
                if key in self.unknown[me]:
                    assert got >= times, "%s: %d acknowledged, %d there" % (key, times, got)
                else:
                    assert got == times, "%s: %d acknowledged, %d there" % (key, times, got)
        return sum(sum(a.values()) for a in self.acked)


_tags = {}


def tag_in_cached(slot):
    if slot not in _tags:
        _tags[slot] = tag_in(slot)
    return _tags[slot]
