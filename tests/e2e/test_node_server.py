"""slotferry-node as a server: connections, passwords, transactions, administration, slots, crashes, bounds."""
import os
import random
import signal
import socket
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from ferry_env import Env, connect, wait_until  # noqa: E402


@pytest.fixture(scope="module")
def env():
    with Env() as e:
        yield e


@pytest.fixture(scope="module")
def node(env):
    return env.node("node")


@pytest.fixture()
def client(node):
    c = connect(node.port, decode_responses=True)
    c.flushall()
    yield c
    c.close()


class Raw:
    """A socket that sends bytes and reads as many as it is told, so that order and closing can be seen."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=10)

    def send(self, *lines):
        self.sock.sendall(b"".join(line.encode() + b"\r\n" for line in lines))

    def read_until(self, end):
        seen = b""
        while not seen.endswith(end):
            chunk = self.sock.recv(65536)
            assert chunk, seen
            seen += chunk
        return seen

    def closed(self):
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


def test_dbs_are_apart(node, client):
    one = connect(node.port, db=1, decode_responses=True)
    client.set("k", "zero")
    one.set("k", "one")
    assert (client.get("k"), one.get("k")) == ("zero", "one")
    assert client.info("keyspace") == {"db0": {"keys": 1, "expires": 0, "avg_ttl": 0},
                                       "db1": {"keys": 1, "expires": 0, "avg_ttl": 0}}
    one.flushdb()
    assert (client.dbsize(), one.dbsize()) == (1, 0)
    with pytest.raises(redis.ResponseError, match="DB index is out of range"):
        client.execute_command("SELECT", "16")
    assert client.copy("k", "k", destination_db=3) and connect(node.port, db=3).get("k") == b"zero"


def test_password(env):
    node = env.node("locked", extra=["--requirepass", "s3cret"])
    with pytest.raises(redis.AuthenticationError):
        connect(node.port).ping()
    raw = Raw(node.port)
    raw.send("GET a", "HELLO 2", "AUTH wrong", "AUTH default s3cret", "GET a")
    text = raw.read_until(b"$-1\r\n")
    assert [line.split(b" ")[0] for line in text.split(b"\r\n")[:5]] == [b"-NOAUTH", b"-NOAUTH", b"-WRONGPASS", b"+OK", b"$-1"]
    client = connect(node.port, password="s3cret")
    client.config_set("requirepass", "other")
    assert connect(node.port, password="other").ping()
    with pytest.raises(redis.ResponseError):
        connect(node.port, password="s3cret").ping()
    node.stop()


def test_hello(node):
    raw = Raw(node.port)
    raw.send("HELLO 3", "HELLO 2 SETNAME me", "CLIENT GETNAME", "HELLO x")
    text = raw.read_until(b"out of range\r\n")
    assert text.startswith(b"-NOPROTO") and b"$2\r\nme\r\n" in text


def test_replies_keep_their_order_behind_a_command_that_waits_for_other_loops(node):
    raw = Raw(node.port)
    raw.send("SET order 1", "CLIENT LIST", "GET order", "CLIENT LIST", "PING")
    text = raw.read_until(b"+PONG\r\n")
    assert text.startswith(b"+OK\r\n$") and text.count(b"id=") >= 2
    assert text.index(b"$1\r\n1\r\n") > text.index(b"id=")


def test_client_commands(node, client):
    others = [connect(node.port) for _ in range(5)]
    for i, other in enumerate(others):
        other.client_setname("other-%d" % i)
    names = {c["name"] for c in client.client_list()}
    assert {"other-%d" % i for i in range(5)} <= names
    victim = others[0].client_id()
    assert client.client_kill_filter(_id=victim) == 1
    assert victim not in {int(c["id"]) for c in client.client_list()}
    assert client.execute_command("CLIENT", "KILL", "TYPE", "normal") >= 4
    assert len(client.client_list()) == 1
    with pytest.raises(redis.ResponseError, match="No such client"):
        client.execute_command("CLIENT", "KILL", "127.0.0.1:1")
    raw = Raw(node.port)
    raw.send("CLIENT REPLY OFF", "SET a 1", "PING", "CLIENT REPLY ON", "CLIENT REPLY SKIP", "PING", "GET a")
    assert raw.read_until(b"$1\r\n1\r\n") == b"+OK\r\n$1\r\n1\r\n"


def test_the_sequence_codis_sends(node, client):
    pipe = client.pipeline(transaction=True)
    pipe.config_set("masterauth", "")
    pipe.execute_command("SLAVEOF", "NO", "ONE")
    pipe.execute_command("CLIENT", "KILL", "TYPE", "normal")
    replies = pipe.execute()
    assert replies[0] is True and isinstance(replies[2], int)
    assert client.config_get("maxmemory") == {"maxmemory": "0"}


def test_transactions(node, client):
    with client.pipeline() as pipe:
        pipe.watch("k")
        client.set("k", "other")
        pipe.multi()
        pipe.set("k", "mine")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("k") == "other"
    threads, n = 6, 150

    def transfer():
        c = connect(node.port)
        for _ in range(n):
            c.pipeline(transaction=True).incr("{acc}a").decr("{acc}b").execute()

    run = [threading.Thread(target=transfer) for _ in range(threads)]
    seen = set()
    for t in run:
        t.start()
    while any(t.is_alive() for t in run):
        a, b = client.pipeline(transaction=True).get("{acc}a").get("{acc}b").execute()
        seen.add(int(a or 0) + int(b or 0))
    assert (client.get("{acc}a"), client.get("{acc}b")) == (str(threads * n), str(-threads * n))
    assert seen == {0}


def test_concurrent_counters_lose_nothing(node, client):
    def count():
        c = connect(node.port)
        pipe = c.pipeline(transaction=False)
        for i in range(2000):
            pipe.incr("counter").hincrby("h", "f%d" % (i % 7), 1).rpush("list", i)
        pipe.execute()

    run = [threading.Thread(target=count) for _ in range(8)]
    for t in run:
        t.start()
    for t in run:
        t.join()
    assert client.get("counter") == "16000"
    assert sum(map(int, client.hvals("h"))) == 16000
    assert client.llen("list") == 16000
    assert client.dbsize() == 3


def test_scan_shows_what_was_there_all_the_time(node, client):
    stay = {"stay-%d" % i for i in range(3000)}
    client.mset({k: 1 for k in stay})
    stop = threading.Event()

    def churn():
        c = connect(node.port)
        rng = random.Random(7)
        while not stop.is_set():
            i = rng.randrange(5000)
            c.set("come-%d" % i, 1)
            c.delete("come-%d" % rng.randrange(5000))

    t = threading.Thread(target=churn)
    t.start()
    try:
        for count in (1000, 10, 137):
            assert stay <= set(client.scan_iter(count=count))
    finally:
        stop.set()
        t.join()


def test_slot_commands(node, client):
    keys = ["a", "user:1000", "{user1000}.following", "foo{}bar"]
    assert client.execute_command("SLOTSHASHKEY", *keys) == [579, 995, 870, 0]
    for k in keys:
        client.set(k, 1)
    client.sadd("{a}set", *range(100))
    assert client.execute_command("SLOTSINFO") == [[0, 1], [579, 2], [870, 1], [995, 1]]
    assert client.execute_command("SLOTSINFO", "870", "100") == [[870, 1]]
    cursor, found = "0", []
    while True:
        cursor, some = client.execute_command("SLOTSSCAN", "579", cursor, "COUNT", "1")
        found += some
        if cursor == "0":
            break
    assert sorted(found) == ["a", "{a}set"]
    assert client.execute_command("SLOTSDEL", "579", "870-995") [0] == [579, 0]
    assert client.execute_command("SLOTSINFO") == [[0, 1]]
    assert client.smembers("{a}set") == set() and client.dbsize() == 1
    for bad in (["SLOTSINFO", "1024"], ["SLOTSDEL", "5-3"], ["SLOTSSCAN", "-1", "0"]):
        with pytest.raises(redis.ResponseError):
            client.execute_command(*bad)


def test_expired_keys_go_by_themselves(env, client):
    """Also without anybody reading them: DBSIZE and SLOTSINFO come down."""
    for i in range(200):
        client.set("t%d" % i, 1, px=30)
    client.set("stay", 1, ex=1000)
    wait_until("expired keys are removed", lambda: client.dbsize() == 1, timeout=90)
    assert client.info("stats")["expired_keys"] >= 200
    assert client.info("keyspace")["db0"]["expires"] in (0, 1)


def test_config_rewrite_keeps_comments_and_lasts(env):
    path = env.path("node.conf")
    with open(path, "w") as f:
        f.write("# the node of group 3\nmaxclients : 100\n")
    node = env.node("rewritten", extra=["--config", path])
    client = connect(node.port, decode_responses=True)
    client.config_set("masterauth", "pw")
    client.config_set("maxclients", "200")
    assert client.config_rewrite()
    text = open(path).read()
    assert "# the node of group 3" in text and "maxclients : 200" in text and "masterauth : pw" in text
    with pytest.raises(redis.ResponseError, match="immutable"):
        client.config_set("threads", "9")
    with pytest.raises(redis.ResponseError, match="Unknown option"):
        client.config_set("nosuch", "9")
    node.stop()


def test_shutdown_ends_cleanly_and_the_data_is_there(env):
    node = env.node("ending")
    client = connect(node.port, decode_responses=True)
    client.set("k", "v")
    with pytest.raises(redis.ConnectionError):
        client.execute_command("SHUTDOWN", "NOSAVE")
        client.ping()
    assert node.popen.wait(10) == 0
    node.start()
    assert connect(node.port, decode_responses=True).get("k") == "v"
    node.popen.send_signal(signal.SIGTERM)
    assert node.popen.wait(10) == 0


@pytest.mark.parametrize("sync", ["no", "everysec", "always"])
def test_I10_kill_9_loses_no_acknowledged_write(env, sync):
    node = env.node("killed-" + sync, extra=["--sync", sync])
    pushed = [0] * 4
    for round_ in range(3):
        acked = [0] * 4
        first = connect(node.port)
        base = [int(first.get("n%d" % i) or 0) for i in range(4)]
        ready = threading.Barrier(5)

        def write(i):
            c = connect(node.port)
            ready.wait()
            try:
                while True:
                    acked[i] = c.incr("n%d" % i)
                    c.rpush("l%d" % i, acked[i])
                    pushed[i] += 1
                    c.set("r%d-%d" % (round_, acked[i]), 1)
            except redis.ConnectionError:
                pass

        run = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for t in run:
            t.start()
        ready.wait()
        wait_until("some writes", lambda: all(a > b + 20 for a, b in zip(acked, base)))
        node.kill()
        for t in run:
            t.join()
        node.start()
        client = connect(node.port)
        for i in range(4):
            got = int(client.get("n%d" % i))
            assert acked[i] <= got <= acked[i] + 1
            assert pushed[i] <= client.llen("l%d" % i) <= pushed[i] + round_ + 1
        assert client.dbsize() == len(list(client.scan_iter(count=5000)))
    node.stop()


def test_I9_clients_that_do_not_read_cost_no_more_than_their_limit(env):
    node = env.node("bounded")
    client = connect(node.port)
    client.set("big", b"x" * 100_000)
    before = client.info("memory")["used_memory"]
    lazy = []
    for _ in range(30):
        raw = socket.create_connection(("127.0.0.1", node.port))
        raw.setblocking(False)
        try:
            for _ in range(20):
                raw.send(b"GET big\r\n" * 500)
        except BlockingIOError:
            pass
        lazy.append(raw)
    time.sleep(1)  # time for the node to do wrong
    assert client.get("big") is not None
    used = client.info("memory")["used_memory"] - before
    assert used < 30 * (2 << 20) + (64 << 20), used
    for raw in lazy:
        raw.close()
    node.stop()


def test_too_many_clients(env):
    node = env.node("few", extra=["--maxclients", "3"])
    held = [connect(node.port) for _ in range(3)]
    for c in held:
        c.ping()
    with pytest.raises(redis.RedisError):
        connect(node.port).ping()
    assert Raw(node.port).read_until(b"\r\n") == b"-ERR max number of clients reached\r\n"
    held[0].connection_pool.disconnect()
    wait_until("a place is free", lambda: try_ping(node.port))
    node.stop()


def try_ping(port):
    try:
        return connect(port).ping()
    except redis.RedisError:
        return False


def test_command_tables(node, client):
    assert client.command_count() == len(client.command())
    assert client.command_getkeys("MSET", "a", 1, "b", 2) == ["a", "b"]
    raw = Raw(node.port)
    raw.send("COMMAND INFO get nosuch")
    assert raw.read_until(b"*-1\r\n").startswith(b"*2\r\n*6\r\n$3\r\nget\r\n:2\r\n")
    raw.send("COMMAND DOCS get")
    assert raw.read_until(b"Pika.\r\n").startswith(b"*2\r\n$3\r\nget\r\n")
