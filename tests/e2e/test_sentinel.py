"""Real redis-sentinel over three nodes, the words it uses, and INFO as each of its readers takes it apart."""
import os
import re
import sys
import threading

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from replica_env import Node, assert_equal, wait_in_sync  # noqa: E402
from sentinel import Sentinel  # noqa: E402


def info(node):
    """INFO replication of a node whose clients a sentinel may end at that moment; empty then."""
    try:
        return node.info()
    except redis.ConnectionError:
        return {}


def copies(node):
    return node.proc.tail(10 ** 6).count("replication: copying ")


def three(env, **kw):
    nodes = [Node(env, name, **kw) for name in "abc"]
    for replica in nodes[1:]:
        replica("SLAVEOF", "127.0.0.1", nodes[0].port)
    for replica in nodes[1:]:
        wait_in_sync(nodes[0], replica)
    return nodes


class Confirmed:
    """A client that asks the sentinel for the master and counts a write only when WAIT says that a replica has it too."""

    def __init__(self, sentinel):
        self.sentinel = sentinel
        self.written, self.stop = [], threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        n = 0
        while not self.stop.is_set():
            try:
                port = self.sentinel.master_port()
                with connect(port, timeout=2) as client:
                    while not self.stop.is_set():
                        n += 1
                        client.set("w%d" % n, n)
                        if client.wait(1, 1000) >= 1:
                            self.written.append(n)
            except (redis.RedisError, OSError):
                self.stop.wait(0.05)

    def end(self):
        self.stop.set()
        self.thread.join()


def test_sentinels_promote_a_replica_lose_nothing_and_take_the_old_master_back():
    with Env() as env:
        nodes = a, b, c = three(env)
        sentinels = [Sentinel(env, "s%d" % i, a, 2) for i in range(3)]
        for s in sentinels:  # replicas from INFO, the other sentinels from their words on each node's channel
            wait_until("replicas", lambda: len(s.known("REPLICAS")) == 2, 10)
            wait_until("sentinels", lambda: len(s.known("SENTINELS")) == 2, 10)
            assert all(r["master-link-status"] == "ok" for r in s.known("REPLICAS"))
        before = [copies(n) for n in nodes]
        client = Confirmed(sentinels[0])
        wait_until("writes", lambda: len(client.written) > 100)
        a.proc.kill()
        wait_until("failover", lambda: sentinels[0].master_port() != a.port, 25)  # a split vote is repeated
        new = b if sentinels[0].master_port() == b.port else c
        other = c if new is b else b
        at = len(client.written)
        wait_until("writes again", lambda: len(client.written) > at + 50, 10)
        wait_until("re-attached", lambda: info(other).get("master_port") == str(new.port), 10)
        wait_until("up", lambda: info(other).get("master_link_status") == "up", 10)
        a.proc.start()
        wait_until("old master is a replica", lambda: info(a).get("role") == "slave", 15)
        wait_until("of the new one", lambda: info(a).get("master_port") == str(new.port), 15)
        client.end()
        wait_in_sync(new, a)
        wait_in_sync(new, other)
        lost = [n for n in client.written if new.client.get("w%d" % n) != b"%d" % n]
        assert not lost, (len(client.written), lost[:5])
        assert_equal(new, other)
        assert_equal(new, a)
        assert [copies(n) for n in (new, other)] == before[1:]  # neither was copied again
        for s in sentinels:
            wait_until("all agree", lambda: s.master_port() == new.port, 10)


def test_a_sentinel_with_passwords_fails_over_by_hand_and_the_configuration_is_kept():
    with Env() as env:
        extra = ("--masterauth", "secret")
        nodes = []
        for name in "abc":
            conf = env.path(name + ".conf")
            with open(conf, "w") as f:
                f.write("# a node's\n")
            nodes.append(Node(env, name, extra=("--config", conf, *extra), password="secret"))
        a, b, c = nodes
        for replica in (b, c):
            replica("SLAVEOF", "127.0.0.1", a.port)
        for replica in (b, c):
            wait_in_sync(a, replica)
        sentinel = Sentinel(env, "s", a, 1, password="secret")
        wait_until("replicas", lambda: [r["master-link-status"] for r in sentinel.known("REPLICAS")] == ["ok", "ok"], 10)
        assert sentinel("SENTINEL", "FAILOVER", "m") == b"OK"
        wait_until("failover", lambda: sentinel.master_port() != a.port, 25)
        new = b if sentinel.master_port() == b.port else c
        other = c if new is b else b
        for node in (a, other):
            wait_until("follows", lambda: info(node).get("master_port") == str(new.port), 12)
            wait_until("up", lambda: info(node).get("master_link_status") == "up", 10)
        new.client.set("k", 1)
        for node in (a, other):
            wait_in_sync(new, node)
        # CONFIG REWRITE, which the sentinel sends with each SLAVEOF.
        with open(env.path(other.name + ".conf")) as f:
            assert "slaveof : 127.0.0.1:%d" % new.port in f.read()
        other.restart()
        wait_in_sync(new, other)
        assert copies(a) == 0 and copies(b) == copies(c) == 1


# ---- the words


def test_publish_and_subscribe_as_redis_has_them():
    with Env() as env:
        node = Node(env, "a", extra=("--threads", "2"))
        real = env.redis("redis")

        def talk(port):
            """The same conversation with either server; its answers."""
            said = []
            subs = [connect(port).pubsub(ignore_subscribe_messages=False) for _ in range(4)]
            subs[0].subscribe("news", "other")
            subs[1].psubscribe("n*")
            subs[2].subscribe("news")
            subs[2].psubscribe("n?ws", "[abc]x")
            subs[3].subscribe("gone")
            for sub, count in zip(subs, (2, 1, 3, 1)):
                said.append([sub.get_message(timeout=5) for _ in range(count)])
            subs[3].unsubscribe()
            said.append(subs[3].get_message(timeout=5))
            client = connect(port)
            said.append(client.publish("news", b"hello\x00\r\n"))
            said.append(client.publish("nobody", b"x"))
            said.append(client.publish("gone", b"x"))
            said += [sub.get_message(timeout=5) for sub in subs[:3] for _ in range(2 if sub is subs[2] else 1)]
            said.append([m for m in (subs[1].get_message(timeout=5),)])
            said.append(sorted(client.pubsub_channels()))
            said.append(client.pubsub_channels("o*"))
            said.append(client.pubsub_numsub("news", "gone", "none"))
            said.append(client.pubsub_numpat())
            raw = connect(port).connection_pool.get_connection("x")
            answers = []
            for words in (("SUBSCRIBE", "z"), ("GET", "k"), ("PING",), ("PING", "m"), ("UNSUBSCRIBE",), ("UNSUBSCRIBE",),
                          ("PUNSUBSCRIBE", "q"), ("GET", "k"), ("SUBSCRIBE", "z"), ("RESET",), ("GET", "k")):
                raw.send_command(*words)
                try:
                    answers.append(raw.read_response())
                except redis.ResponseError as error:
                    answers.append(str(error))
            said.append(answers)
            killed = client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            said.append((killed, client.ping()))
            wait_until("gone", lambda: client.publish("news", "x") == 0)
            for sub in subs:
                sub.close()
            return said

        for ours, theirs in zip(talk(node.port), talk(real.port)):
            assert ours == theirs


def test_I9_a_subscriber_that_does_not_read_is_cut():
    with Env() as env:
        node = Node(env, "a")
        sub = connect(node.port).connection_pool.get_connection("x")
        sub.send_command("SUBSCRIBE", "c")
        sub.read_response()
        message = b"x" * (1 << 20)
        wait_until("cut", lambda: node.client.publish("c", message) == 0, 10, step=0)
        assert "does not read and is disconnected" in node.proc.tail()
        with pytest.raises((redis.ConnectionError, ConnectionError)):
            while True:
                sub.read_response()


def test_what_a_sentinel_sends_in_one_transaction_is_taken():
    with Env() as env:
        a, b = Node(env, "a"), Node(env, "b")
        sub = connect(b.port).pubsub()
        sub.subscribe("x")
        pipe = b.client.pipeline(transaction=True)
        pipe.execute_command("SLAVEOF", "127.0.0.1", a.port)
        pipe.execute_command("CONFIG", "REWRITE")
        pipe.execute_command("CLIENT", "KILL", "TYPE", "normal")
        pipe.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        answers = pipe.execute(raise_on_error=False)
        assert answers[0] and "without a config file" in str(answers[1]) and len(answers) == 4
        wait_in_sync(a, b)


# ---- INFO


def sentinel_reads(text):
    """The fields a sentinel takes, as it takes them: by prefix of the line; of slaveN what follows ip= and port=."""
    out = {"slaves": []}
    for line in text.split("\r\n"):
        if line.startswith("run_id:"):
            out["run_id"] = line[7:47]
        if re.match(r"slave\d", line):
            out["slaves"].append((line.split("ip=")[1].split(",")[0], line.split("port=")[1].split(",")[0]))
        if line.startswith("role:"):
            out["role"] = line[5:]
        for name in ("master_host", "master_port", "master_link_status", "slave_priority", "slave_repl_offset",
                     "master_link_down_since_seconds", "replica_announced"):
            if line.startswith(name + ":"):
                out[name] = line.split(":", 1)[1]
    return out


def codis_reads(text):
    """First colon; nothing else. A master must have neither master_host nor master_port."""
    return {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in text.split("\n") if ":" in line}


def pika_codis_reads(text):
    """Pika's fork: slaveN's k=v list, and the two numbers with a blank between them in db0's line."""
    info = codis_reads(text)
    slaves = [dict(pair.split("=", 1) for pair in value.split(","))
              for key, value in info.items() if re.search(r"slave[0-9]+", key) and "ip=" in value]
    (db0,) = [value for key, value in info.items() if key.startswith("db0")]
    offsets = [part.split("=")[1].split(" ") for part in db0.split(",") if part.startswith("binlog_offset=")]
    return info, slaves, [int(n) for n in offsets[0]]


def exporter_reads(text):
    """Pika's exporter for versions from 3.1 on: the line by its fixed order, then the databases in the lag."""
    line = re.compile(r"slave\d+:ip=([\d.]+),port=([\d.]+),conn_fd=([\d]+),lag=([^\r\n]*)")
    return [(ip, port, re.findall(r"(db[\d.]+):([\d]+)", lag)) for ip, port, _, lag in line.findall(text)]


def whole_info(node):
    with connect(node.port) as client:
        client.set_response_callback("INFO", lambda reply, **_: reply.decode())
        return client.execute_command("INFO"), client.execute_command("INFO", "replication")


def test_R01_R02_one_text_for_sentinel_both_codis_and_pikas_exporter():
    with Env() as env:
        a, b, c = three(env)
        a.client.set("k", 1)
        for replica in (b, c):
            wait_in_sync(a, replica)
        wait_until("acked", lambda: whole_info(a)[1].count("lag=(db0:0)") == 2)
        everything, text = whole_info(a)
        ports = sorted(str(n.port) for n in (b, c))
        seen = sentinel_reads(everything)
        assert seen["role"] == "master" and re.fullmatch("[0-9a-f]{40}", seen["run_id"])
        assert sorted(port for _, port in seen["slaves"]) == ports and seen["slaves"][0][0] == "127.0.0.1"
        info = codis_reads(everything)
        assert "master_host" not in info and "master_port" not in info and info["maxmemory"] == "0"
        info, slaves, (file, offset) = pika_codis_reads(text)
        assert info["connected_slaves"] == "2" and info["is_eligible_for_master_election"] == "true"
        assert sorted(s["port"] for s in slaves) == ports and all(s["state"] == "online" for s in slaves)
        assert {int(s["offset"]) for s in slaves} == {file * (1 << 30) + offset}
        assert sorted(port for _, port, _ in exporter_reads(text)) == ports
        assert all(lag == [("db0", "0")] for _, _, lag in exporter_reads(text))
        assert info["slave_repl_offset"] == info["master_repl_offset"]  # Pika prints it on masters too

        everything, text = whole_info(b)
        seen = sentinel_reads(everything)
        assert (seen["role"], seen["master_host"], seen["master_port"]) == ("slave", "127.0.0.1", str(a.port))
        assert (seen["master_link_status"], seen["slave_priority"]) == ("up", "100")
        assert int(seen["slave_repl_offset"]) == file * (1 << 30) + offset
        info, _, position = pika_codis_reads(text)
        assert (info["role"], info["master_link_status"], position) == ("slave", "up", [file, offset])
        a.proc.kill()
        wait_until("down", lambda: sentinel_reads(whole_info(b)[0])["master_link_status"] == "down")
        wait_until("for how long", lambda: int(
            sentinel_reads(whole_info(b)[0])["master_link_down_since_seconds"]) >= 1)
