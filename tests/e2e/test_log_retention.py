"""The log is kept for who needs it, within limits; beyond them a replica is cut and both sides say why (cases R08, R22)."""
import os
import queue
import signal
import socket
import sys
import threading
import time

import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from replica_env import Node, assert_equal, wait_in_sync  # noqa: E402

MB = 1 << 20
SMALL = ("--write-buffer-size", "1mb", "--backlog-size", "64kb", "--wal-spare-size", "0")


def numbers(line):
    """a=1,b=2 as a dictionary."""
    return dict(part.split("=", 1) for part in line.split(","))


def log_of(node):
    return numbers(node.info()["slotferry_log"])


def claims_of(node):
    return [numbers(value) for name, value in node.info().items() if name.startswith("slotferry_log_claim")]


def write_log(node, megabytes):
    value = "x" * 10000
    pipe = node.client.pipeline(transaction=False)
    for n in range(megabytes * 100):
        pipe.set("w%d" % (n % 300), value)
        if n % 100 == 99:
            pipe.execute()


class ScriptedReplica:
    """A replica that says what the test wants it to: `REPLICATION SYNC` and what follows."""

    def __init__(self, master):
        self.connection = redis.Connection(host="127.0.0.1", port=master.port, socket_timeout=10)
        self.connection.connect()
        self.socket = self.connection._sock
        self.say("REPLICATION", "SYNC", 2, "f" * 40, 12345, "full", "0-1023", "-", 0)
        hello = self.read()
        assert hello[0] == b"hello", hello
        chain = next(part for part in hello if part.count(b":") >= 2)
        self.seq, self.history = int(hello[3]), chain.decode().split(",")[-1].split(":")[0]

        self.heard = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        """As it comes: what is unread when the master closes would be lost with the next word said to it."""
        try:
            while True:
                self.heard.put(self.read())
        except (redis.ConnectionError, redis.TimeoutError, OSError, ValueError, AttributeError):
            return

    def say(self, *words):
        try:
            self.connection.send_command(*words, check_health=False)
        except (redis.ConnectionError, OSError):
            pass  # closed; what was heard before tells why

    def read(self):
        return self.connection.read_response()

    def read_until(self, word):
        while True:
            message = self.heard.get(timeout=10)
            if message[0] == word:
                return message

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # the listener closes it


def keep_acking(replica, seq, until):
    """Keeps the master from thinking the replica is gone until the condition holds."""
    def step():
        replica.say("ack", seq, seq)
        return until()
    wait_until("the log's limit is noticed", step, 30, 0.3)


def test_R08_the_log_a_copy_needs_is_kept_and_goes_when_it_ends():
    with Env() as env:
        master = Node(env, "master", extra=(*SMALL, "--wal-keep-size", "1gb"))
        write_log(master, 1)
        replica = ScriptedReplica(master)
        write_log(master, 20)
        keep_acking(replica, 0, lambda: int(log_of(master)["bytes"]) > 19 * MB)
        claim, = claims_of(master)
        assert claim["who"].startswith("replica 127.0.0.1:12345") and int(claim["after"]) == replica.seq
        assert int(claim["bytes"]) > 19 * MB
        assert int(master.info()["slotferry_oldest_seq"]) <= replica.seq + 1
        replica.close()
        wait_until("no claim", lambda: not claims_of(master))
        write_log(master, 1)
        wait_until("the log goes", lambda: int(log_of(master)["bytes"]) < 8 * MB)
        assert log_of(master)["cuts"] == "0" and "slotferry_log_last_cut" not in master.info()


def test_R08_a_copy_that_outlives_its_log_cannot_finish_and_says_so():
    with Env() as env:
        master = Node(env, "master", extra=(*SMALL, "--wal-keep-size", "6mb"))
        write_log(master, 1)
        replica = ScriptedReplica(master)
        write_log(master, 20)
        keep_acking(replica, 0, lambda: log_of(master)["cuts"] == "1")
        text = replica.read_until(b"lost")[1].decode()
        assert "127.0.0.1:12345 cannot finish" in text and "after %d " % replica.seq in text, text
        assert "wal-keep-size 6 MB" in text and "it begins again" in text, text
        assert "127.0.0.1:12345" in master.info()["slotferry_log_last_cut"]
        assert "cannot finish" in master.proc.tail()
        wait_until("the replica is let go of", lambda: master.info()["connected_slaves"] == "0")


def test_R22_a_streaming_replica_over_the_limit_is_cut_with_its_position():
    with Env() as env:
        master = Node(env, "master", extra=(*SMALL, "--wal-keep-size", "6mb"))
        write_log(master, 1)
        replica = ScriptedReplica(master)
        replica.say("stream", replica.history, replica.seq)
        replica.say("ack", replica.seq, replica.seq)
        write_log(master, 20)
        keep_acking(replica, replica.seq, lambda: log_of(master)["cuts"] == "1")
        text = replica.read_until(b"lost")[1].decode()
        assert "fell too far behind" in text and "after %d " % replica.seq in text and "wal-keep-size 6 MB" in text, text


def test_log_older_than_the_limit_cuts_too():
    with Env() as env:
        master = Node(env, "master", extra=(*SMALL, "--wal-keep-size", "1gb", "--wal-keep-seconds", "1"))
        write_log(master, 1)
        replica = ScriptedReplica(master)
        write_log(master, 12)
        keep_acking(replica, 0, lambda: log_of(master)["cuts"] == "1")
        assert "wal-keep-seconds 1" in replica.read_until(b"lost")[1].decode()


def test_R22_a_stopped_replica_is_cut_copies_again_and_both_sides_say_why():
    with Env() as env:
        master = Node(env, "master", extra=(*SMALL, "--wal-keep-size", "6mb"))
        replica = Node(env, "replica", extra=("--write-buffer-size", "1mb"))
        write_log(master, 1)
        replica("SLAVEOF", "127.0.0.1", master.port)
        wait_in_sync(master, replica)
        started = time.monotonic()
        os.kill(replica.proc.pid, signal.SIGSTOP)
        try:
            write_log(master, 30)  # the master's clients do not wait for it
            wait_until("cut", lambda: log_of(master)["cuts"] == "1", 20)
        finally:
            os.kill(replica.proc.pid, signal.SIGCONT)
        assert time.monotonic() - started < 15
        seen = []

        def shown():
            seen.append(replica.info().get("master_link_error", ""))
            return "no longer" in seen[-1]

        wait_until("the replica says why", shown, 20, 0.005)
        assert "log after" in seen[-1], seen[-1]
        assert "127.0.0.1:%d" % replica.port in master.info()["slotferry_log_last_cut"]
        wait_until("up again", lambda: replica.info()["master_link_status"] == "up")
        wait_in_sync(master, replica)
        assert assert_equal(master, replica) == 300
        assert replica.info()["master_link_error"] == ""


def test_an_absent_replica_resumes_from_the_spare_log():
    with Env() as env:
        master = Node(env, "master", extra=("--write-buffer-size", "1mb", "--backlog-size", "64kb"))
        replica = Node(env, "replica")
        write_log(master, 1)
        replica("SLAVEOF", "127.0.0.1", master.port)
        wait_in_sync(master, replica)
        replica.proc.kill()
        write_log(master, 30)
        wait_until("log is kept", lambda: int(log_of(master)["bytes"]) > 29 * MB)
        replica.proc.start()
        wait_in_sync(master, replica)
        assert "copied_slots=0" in replica.info()["slotferry_link0"]
        assert_equal(master, replica)
