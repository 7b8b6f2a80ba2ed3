"""The node against a real redis-server: seeded random command scripts, the same replies byte for byte.

Where Redis promises no order (HGETALL, SMEMBERS ...) both replies are sorted first. Random members and cursors are
compared by shape only. SF_PARITY_COMMANDS (default 20000) commands a type, SF_PARITY_SEED (default 1); to replay
against servers that run already: test_redis_parity.py <port of redis> <port of node> [type ...].
"""
import os
import random
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

COMMANDS = int(os.environ.get("SF_PARITY_COMMANDS", "20000"))
SEED = int(os.environ.get("SF_PARITY_SEED", "1"))
BATCH = 200


class Error(bytes):
    pass


class Status(bytes):
    pass


class Resp:
    """A pipelining RESP2 client that keeps reply types apart: bytes, Status, Error, int, None, list."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.sock.makefile("rb")

    def run(self, commands):
        self.sock.sendall(b"".join(
            b"*%d\r\n" % len(argv) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in argv) for argv in commands))
        return [self.read() for _ in commands]

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return Status(rest)
        if kind == b"-":
            return Error(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return ("nil array",) if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise AssertionError("no reply: %r" % line)

    def close(self):
        self.file.close()
        self.sock.close()


# ---- comparing

def same(value):
    return value


def unordered(value):
    return sorted(value, key=repr) if isinstance(value, list) else value


def unordered_pairs(value):
    if not isinstance(value, list):
        return value
    return sorted(zip(value[::2], value[1::2]))


def shape(value):
    """What is random or a cursor counts by kind and length only."""
    if isinstance(value, (Error, Status)):
        return value
    if isinstance(value, list):
        return [len(value)]
    return type(value).__name__


def scan_shape(value):
    return value if isinstance(value, Error) else [len(value)]


def remaining(value):
    """A time to live differs by the milliseconds between the two servers."""
    return "some time" if isinstance(value, int) and value > 0 else value


COMPARE = {
    b"TTL": remaining, b"PTTL": remaining, b"EXPIRETIME": remaining, b"PEXPIRETIME": remaining, b"SCAN": scan_shape,
    b"HGETALL": unordered_pairs, b"HKEYS": unordered, b"HVALS": unordered, b"SMEMBERS": unordered, b"SINTER": unordered,
    b"SUNION": unordered, b"SDIFF": unordered, b"HRANDFIELD": shape, b"SRANDMEMBER": shape, b"ZRANDMEMBER": shape,
    b"HSCAN": scan_shape, b"SSCAN": scan_shape, b"ZSCAN": scan_shape, b"RANDOMKEY": shape, b"KEYS": unordered,
}


# ---- making commands

ODD = [b"", b"\x00", b"\xff\xfe", b"\r\n", b"a b", b"{t}", b"-1", b"1e3", b"007"]


class Script:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def one(self, *options):
        return self.r.choice(options)

    def key(self):
        return self.r.choice([b"k1", b"k2", b"k3", b"", b"bin\x00\xff", b"{t}x"])

    def member(self):
        return self.r.choice(ODD) if self.r.random() < 0.2 else b"m%d" % self.r.randrange(30)

    def members(self, most=4):
        return [self.member() for _ in range(self.r.randint(1, most))]

    def integer(self):
        if self.r.random() < 0.04:
            return self.one(b"x", b"", b"1.5", b"9223372036854775808", b"-9223372036854775808", b"9223372036854775807", b" 1",
                            b"+1", b"01")
        return b"%d" % self.r.randint(-12, 12)

    def count(self):
        return self.integer() if self.r.random() < 0.1 else b"%d" % self.r.randint(0, 6)

    def real(self):
        p = self.r.random()
        if p < 0.03:
            return self.one(b"x", b"", b"nan", b"inf", b"-inf", b"+inf", b"1e400", b" 1", b"0x1f", b"1e5", b".5", b"5.")
        if p < 0.5:
            return b"%d" % self.r.randint(-9, 9)
        return b"%.*f" % (self.r.randint(1, 4), self.r.uniform(-20, 20))

    def word(self, *words):
        """One of the words, sometimes in odd case, seldom a wrong one."""
        w = self.r.choice(words)
        if self.r.random() < 0.1:
            w = w.lower()
        return b"NONSENSE" if self.r.random() < 0.02 else w

    def maybe(self, chance, *argv):
        return list(argv) if self.r.random() < chance else []

    # Another type under the same names, keys that go and come: in every script.
    def any_type(self):
        k = self.key()
        return self.one([b"DEL", k], [b"SET", k, b"text"], [b"HSET", k, b"f", b"v"], [b"RPUSH", k, b"e"],
                        [b"SADD", k, b"m"], [b"ZADD", k, b"1", b"m"], [b"DEL", k, self.key()], [b"TYPE", k],
                        [b"EXISTS", k, k], [b"DEL", k])

    def next(self, kind):
        return self.any_type() if self.r.random() < 0.07 else getattr(self, kind)()

    def hash(self):
        k, f = self.key(), self.member()
        pairs = [x for m in self.members() for x in (m, self.one(self.member(), self.integer(), self.real()))]
        return self.one(
            [b"HSET", k] + pairs, [b"HSET", k] + pairs, [b"HMSET", k] + pairs, [b"HSET", k] + pairs + self.maybe(0.2, f),
            [b"HSETNX", k, f, b"nx"], [b"HGET", k, f], [b"HMGET", k] + self.members(), [b"HGETALL", k], [b"HKEYS", k],
            [b"HVALS", k], [b"HLEN", k], [b"HDEL", k] + self.members(), [b"HEXISTS", k, f], [b"HSTRLEN", k, f],
            [b"HINCRBY", k, f, self.integer()], [b"HINCRBYFLOAT", k, f, self.real()],
            [b"HINCRBY", k, b"n", self.integer()], [b"HINCRBYFLOAT", k, b"n", self.real()],
            [b"HSCAN", k, self.one(b"0", b"0", b"x"), b"COUNT", b"1000"] + self.maybe(0.3, b"MATCH", b"m1*"),
            [b"HRANDFIELD", k], [b"HRANDFIELD", k, self.integer()] + self.maybe(0.5, self.word(b"WITHVALUES")))

    def list(self):
        k, e = self.key(), self.one(b"a", b"b", b"c", self.member())
        elements = [self.one(b"a", b"b", b"c", self.member()) for _ in range(self.r.randint(1, 4))]
        ends = lambda: self.word(b"LEFT", b"RIGHT")
        rank = self.integer()
        if rank == b"-9223372036854775808":  # an error since Redis 7.2 and here, -1 to 7.0 (C35)
            rank = b"-1"
        pos = (self.maybe(0.5, b"RANK", rank) + self.maybe(0.5, b"COUNT", self.count()) +
               self.maybe(0.3, b"MAXLEN", self.count()) + self.maybe(0.03, b"COUNT"))
        return self.one(
            [b"LPUSH", k] + elements, [b"RPUSH", k] + elements, [b"RPUSH", k] + elements, [b"LPUSHX", k] + elements,
            [b"RPUSHX", k] + elements, [b"LPOP", k], [b"RPOP", k], [b"LPOP", k, self.count()], [b"RPOP", k, self.count()],
            [b"LPOP", k] + self.maybe(0.05, b"1", b"2"), [b"LLEN", k], [b"LRANGE", k, self.integer(), self.integer()],
            [b"LRANGE", k, b"0", b"-1"], [b"LINDEX", k, self.integer()], [b"LSET", k, self.integer(), e],
            [b"LTRIM", k, self.integer(), self.integer()], [b"LREM", k, self.integer(), e],
            [b"LINSERT", k, self.word(b"BEFORE", b"AFTER"), e, self.member()], [b"RPOPLPUSH", k, self.key()],
            [b"LMOVE", k, self.key(), ends(), ends()], [b"LPOS", k, e] + pos)

    def set(self):
        k, m = self.key(), self.member()
        keys = [self.key() for _ in range(self.r.randint(1, 3))]
        return self.one(
            [b"SADD", k] + self.members(), [b"SADD", k] + self.members(8), [b"SREM", k] + self.members(), [b"SMEMBERS", k],
            [b"SISMEMBER", k, m], [b"SMISMEMBER", k] + self.members(), [b"SCARD", k], [b"SMOVE", k, self.key(), m],
            [b"SINTER"] + keys, [b"SUNION"] + keys, [b"SDIFF"] + keys, [b"SINTERSTORE", k] + keys,
            [b"SUNIONSTORE", k] + keys, [b"SDIFFSTORE", k] + keys,
            [b"SINTERCARD", self.one(b"%d" % len(keys), b"%d" % len(keys), self.integer())] + keys +
            self.maybe(0.4, self.word(b"LIMIT"), self.count()),
            [b"SRANDMEMBER", k], [b"SRANDMEMBER", k, self.integer()], [b"SPOP", self.one(b"none", b"none"), self.count()],
            [b"SSCAN", k, b"0", b"COUNT", self.one(b"1000", b"1000", b"0")])

    def score_end(self):
        return self.one(b"", b"(") + self.real() if self.r.random() < 0.8 else self.one(b"-inf", b"+inf", b"(")

    def lex_end(self):
        if self.r.random() < 0.3:
            return self.one(b"-", b"+")
        return self.one(b"[", b"(", b"[", b"(", b"") + self.member()

    def limit(self):
        return self.maybe(0.4, b"LIMIT", self.integer(), self.integer())

    def algebra_tail(self, keys):
        weights = [b"WEIGHTS"] + [self.real() for _ in range(len(keys) - (self.r.random() < 0.03))]
        return (weights if self.r.random() < 0.4 else []) + self.maybe(0.4, b"AGGREGATE", self.word(b"SUM", b"MIN", b"MAX"))

    def zset(self):
        """Lexical ranges only over keys whose scores are all 0 (z...): Redis promises nothing for others."""
        return self.zset_lex() if self.r.random() < 0.2 else self.zset_scores()

    def zset_lex(self):
        z = self.one(b"z1", b"z2")
        a, b = self.lex_end(), self.lex_end()
        return self.one(
            [b"ZADD", z] + [x for m in self.members(6) for x in (b"0", m)], [b"ZADD", z, b"0", self.member()],
            [b"ZREM", z] + self.members(), [b"ZRANGEBYLEX", z, a, b] + self.limit(),
            [b"ZREVRANGEBYLEX", z, a, b] + self.limit(), [b"ZLEXCOUNT", z, a, b],
            [b"ZRANGE", z, a, b, b"BYLEX"] + self.maybe(0.4, b"REV") + self.limit() + self.maybe(0.05, b"WITHSCORES"),
            [b"ZREMRANGEBYLEX", z, self.one(b"[m1", b"(m2"), self.one(b"[m11", b"(m20", b"x")],
            [b"ZRANGESTORE", b"zd", z, a, b, b"BYLEX"] + self.limit(), [b"ZRANGE", b"zd", b"0", b"-1"], [b"DEL", z])

    def zset_scores(self):
        k, m = self.key(), self.member()
        keys = [self.key() for _ in range(self.r.randint(1, 3))]
        n = self.integer() if self.r.random() < 0.03 else b"%d" % len(keys)
        ws = self.maybe(0.5, self.word(b"WITHSCORES"))
        flags = [self.word(b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR") for _ in range(self.r.choice([0, 0, 1, 1, 2]))]
        pairs = [x for m2 in self.members() for x in (self.real(), m2)]
        a, b = self.score_end(), self.score_end()
        i, j = self.integer(), self.integer()
        return self.one(
            [b"ZADD", k] + pairs, [b"ZADD", k] + pairs, [b"ZADD", k] + flags + pairs, [b"ZADD", k] + flags + pairs[:2],
            [b"ZINCRBY", k, self.real(), m], [b"ZREM", k] + self.members(), [b"ZSCORE", k, m],
            [b"ZMSCORE", k] + self.members(), [b"ZCARD", k], [b"ZCOUNT", k, a, b], [b"ZRANK", k, m], [b"ZREVRANK", k, m],
            [b"ZRANGE", k, i, j] + ws, [b"ZRANGE", k, i, j, b"REV"] + ws, [b"ZREVRANGE", k, i, j] + ws,
            [b"ZRANGE", k, i, j] + self.limit(), [b"ZRANGE", k, a, b, b"BYSCORE"] + ws + self.limit(),
            [b"ZRANGE", k, a, b, b"BYSCORE", b"REV"] + ws + self.limit(), [b"ZRANGEBYSCORE", k, a, b] + ws + self.limit(),
            [b"ZREVRANGEBYSCORE", k, a, b] + ws + self.limit(), [b"ZRANGE", k, b"0", b"-1", b"WITHSCORES"],
            [b"ZREMRANGEBYRANK", k, i, self.one(i, b"2")], [b"ZREMRANGEBYSCORE", k, a, a], [b"ZPOPMIN", k],
            [b"ZPOPMAX", k, self.count()], [b"ZUNION", n] + keys + self.algebra_tail(keys) + ws,
            [b"ZINTER", n] + keys + self.algebra_tail(keys) + ws, [b"ZDIFF", n] + keys + ws,
            [b"ZUNIONSTORE", k, n] + keys + self.algebra_tail(keys), [b"ZINTERSTORE", k, n] + keys + self.algebra_tail(keys),
            [b"ZDIFFSTORE", k, n] + keys, [b"ZINTERCARD", n] + keys + self.maybe(0.3, b"LIMIT", self.count()),
            [b"ZRANGESTORE", k, self.key(), i, j], [b"ZRANGESTORE", k, self.key(), a, b, b"BYSCORE"] + self.limit(),
            [b"ZRANDMEMBER", k], [b"ZRANDMEMBER", k, self.integer()] + ws, [b"ZSCAN", k, b"0", b"COUNT", b"1000"])


    def expiry(self):
        """Seconds or milliseconds: far away, so that nothing expires meanwhile, or gone at once."""
        return b"%d" % self.r.randint(100000, 10 ** 9) if self.r.random() < 0.8 else self.one(b"-1", b"0", b"x", b"9223372036854775807")

    def expiry_ms(self):
        return b"%d" % self.r.randint(10 ** 8, 10 ** 12) if self.r.random() < 0.8 else self.one(b"-1", b"0", b"x", b"9223372036854775807")

    def string(self):
        k = self.key()
        v = self.one(self.member(), self.integer(), self.real(), b"text")
        at = b"%d" % (4000000000 + self.r.randrange(9))
        options = self.maybe(0.3, self.word(b"NX", b"XX")) + self.maybe(0.2, b"GET") + self.one(
            [], [], [b"EX", b"100000"], [b"PX", b"100000000"], [b"KEEPTTL"], [b"EXAT", at], [b"PXAT", at + b"000"],
            [b"EX", self.one(b"0", b"-3", b"x")], [b"PX"], [b"EX", b"100000", b"KEEPTTL"])
        pairs = [x for _ in range(self.r.randint(1, 3)) for x in (self.key(), self.member())]
        offset = b"%d" % self.r.randint(0, 40) if self.r.random() < 0.9 else self.integer()
        unit = self.maybe(0.3, self.word(b"BIT", b"BYTE"))
        return self.one(
            [b"SET", k, v], [b"SET", k, v], [b"SET", k, v] + options, [b"SET", k, v] + options, [b"GET", k], [b"GET", k],
            [b"SETNX", k, v], [b"SETEX", k, self.expiry(), v], [b"PSETEX", k, self.expiry_ms(), v], [b"GETSET", k, v],
            [b"GETDEL", k], [b"GETEX", k] + self.one([], [b"EX", b"100000"], [b"PERSIST"], [b"PXAT", at + b"000"],
                                                     [b"EX", b"0"], [b"NONSENSE"], [b"PERSIST", b"EX", b"5"]),
            [b"APPEND", k, v], [b"STRLEN", k], [b"GETRANGE", k, self.integer(), self.integer()],
            [b"SUBSTR", k, self.integer(), self.integer()], [b"SETRANGE", k, offset, v], [b"INCR", k], [b"DECR", k],
            [b"INCRBY", k, self.integer()], [b"DECRBY", k, self.integer()], [b"INCRBYFLOAT", k, self.real()],
            [b"SET", k, self.integer()], [b"MSET"] + pairs + self.maybe(0.05, k), [b"MSETNX"] + pairs,
            [b"MGET", k, self.key(), self.key()], [b"SETBIT", k, offset, self.one(b"0", b"1", b"1", b"2")],
            [b"GETBIT", k, offset], [b"BITCOUNT", k] + self.maybe(0.6, self.integer(), self.integer(), *unit),
            [b"BITPOS", k, self.one(b"0", b"1", b"1", b"2")] +
            self.one([], [self.integer()], [self.integer(), self.integer()] + unit),
            [b"TTL", k], [b"EXPIRE", k, b"100000"], [b"PERSIST", k])

    def keyspace(self):
        k, other = self.key(), self.key()
        when = self.maybe(0.4, self.word(b"NX", b"XX", b"GT", b"LT")) + self.maybe(0.05, b"XX")
        at = b"%d" % (4000000000 + self.r.randrange(9))
        return self.one(
            self.any_type(), self.any_type(), self.any_type(), self.any_type(), [b"UNLINK", k, other], [b"EXISTS", k, other],
            [b"EXPIRE", k, self.expiry()] + when, [b"PEXPIRE", k, self.expiry_ms()] + when,
            [b"EXPIREAT", k, self.one(at, at, at, b"1", b"x")] + when, [b"PEXPIREAT", k, at + b"000"] + when,
            [b"PERSIST", k], [b"TTL", k], [b"PTTL", k], [b"EXPIRETIME", k], [b"PEXPIRETIME", k], [b"TYPE", k], [b"TOUCH", k, other],
            [b"RENAME", k, other], [b"RENAMENX", k, other], [b"COPY", k, other] + self.maybe(0.5, b"REPLACE"),
            [b"COPY", k, other, b"DB", self.one(b"1", b"99", b"x")], [b"KEYS", self.one(b"*", b"k*", b"k?", b"[^k]*", b"nope")],
            [b"DBSIZE"], [b"RANDOMKEY"], [b"HGETALL", k], [b"LRANGE", k, b"0", b"-1"], [b"SMEMBERS", k], [b"GET", k],
            [b"ZRANGE", k, b"0", b"-1", b"WITHSCORES"], [b"SCAN", b"0", b"COUNT", b"1000"] +
            self.maybe(0.5, b"TYPE", self.one(b"hash", b"string", b"stream")), [b"SCAN", b"x"], [b"SCAN", b"0", b"COUNT", b"0"],
            [b"SET", k, b"v", b"KEEPTTL"])


def differences(redis_port, node_port, kind, commands=COMMANDS, seed=SEED):
    """Up to 20 differing replies, each with what was asked of its key lately."""
    script = Script("%s %d" % (kind, seed))
    a, b = Resp(redis_port), Resp(node_port)
    found = []
    try:
        for server in (a, b):
            server.run([[b"FLUSHALL"]])
        for at in range(0, commands, BATCH):
            batch = [script.next(kind) for _ in range(BATCH)]
            for n, (argv, ours, theirs) in enumerate(zip(batch, b.run(batch), a.run(batch))):
                view = COMPARE.get(argv[0], same)
                if type(view(ours)) is type(view(theirs)) and view(ours) == view(theirs):
                    continue
                found.append("command %d: %r\n   redis %r\n   node  %r" % (at + n, argv, theirs, ours))
                if len(found) >= 20:
                    return found
    finally:
        a.close()
        b.close()
    return found


def check(kind):
    from ferry_env import Env
    with Env() as env:
        found = differences(env.redis("redis").port, env.node("node").port, kind)
    assert not found, "\n".join(found)


def test_strings_answer_as_redis():
    check("string")


def test_keys_of_all_types_answer_as_redis():
    check("keyspace")


def test_hashes_answer_as_redis():
    check("hash")


def test_lists_answer_as_redis():
    check("list")


def test_sets_answer_as_redis():
    check("set")


def test_sorted_sets_answer_as_redis():
    check("zset")


if __name__ == "__main__":
    for name in sys.argv[3:] or ["string", "keyspace", "hash", "list", "set", "zset"]:
        result = differences(int(sys.argv[1]), int(sys.argv[2]), name)
        print("%s: %d commands, %d differences" % (name, COMMANDS, len(result)))
        print("\n".join(result))
