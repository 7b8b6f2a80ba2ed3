"""The R cases of public bug reports that need a bent link, a stopped process or many role changes. Names carry the case."""
import os
import random
import resource
import signal
import socket
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from replica_env import Load, Node, assert_equal, content, slot_of, tag_in_cached, wait_in_sync  # noqa: E402
from tcp_link import TO_MASTER, TO_REPLICA, TcpLink  # noqa: E402

QUICK = ("--repl-timeout", "2")


def pair(env, full=True, extra=QUICK):
    """A master, a replica that reaches it through a link, and the link."""
    old, new = Node(env, "old", extra=extra), Node(env, "new", extra=extra)
    link = TcpLink(env, old.port)
    return old, new, link


def attach(new, link):
    assert new("SLAVEOF", "127.0.0.1", link.port)


def link_up(node):
    return node.info()["master_link_status"] == "up"


def fill(node, keys, size, tags=range(1024), seed=1):
    """`keys` strings of `size` incompressible bytes."""
    rnd, tags = random.Random(seed), list(tags)
    pipe = node.client.pipeline(transaction=False)
    for n in range(keys):
        pipe.set("{%s}f%d" % (tag_in_cached(tags[n % len(tags)]), n), rnd.randbytes(size))
        if n % 200 == 199:
            pipe.execute()
    pipe.execute()


def fields(line):
    """ip=..,port=.. of a replica's or link's line."""
    return dict(part.split("=", 1) for part in line.split(",") if "=" in part)


def copies(node):
    """How many first copies it began since it was made, as its log tells."""
    return node.proc.tail(10 ** 6).count("replication: copying ")


def rss_mb(node):
    with open("/proc/%d/status" % node.proc.pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


# ---- what counts as caught up


def test_R01_the_new_nodes_own_numbers_prove_nothing_and_no_tail_is_lost():
    with Env() as env:
        old, new, link = pair(env)
        text, slots = "900-905", range(900, 906)
        fill(new, 4000, 20, range(0, 50))  # its own sequence is far ahead of the old node's
        load = Load(lambda: old, slots, threads=4, kinds="counted")
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, text)
        wait_in_sync(old, new, text)
        link.delay = 0.4
        time.sleep(0.2)
        end = old.fence(text, "p", 1)
        assert int(new.info()["slotferry_seq"]) > end[1]
        assert max(p["seq"] for p in new.positions(text).values()) < end[1]
        with pytest.raises(redis.ResponseError, match="NOTAPPLIED"):
            new.promote(text, "p", 1, end)
        assert new.wait_applied(text, end, 50) == 0
        assert int(fields(old.info()["slotferry_replica0"])["lag"]) > 0
        assert new.wait_applied(text, end, 5000) == 1
        new.promote(text, "p", 1, end)
        old.permanent(text, "p", 1, new)
        load.stop_event.set()
        load.stop()
        assert load.check(new) > 100


def test_R03_slaveof_again_and_again_during_the_copy_is_harmless():
    with Env() as env:
        old, new, link = pair(env)
        fill(old, 6000, 4000)
        link.rate = 12 << 20
        attach(new, link)
        copied, lags, done = [], [], False
        while not done:
            assert new("SLAVEOF", "127.0.0.1", link.port)
            info = new.info()
            mine = fields(info["slotferry_link0"])
            done = info["master_link_status"] == "up"
            copied.append(int(mine["copied_slots"]))
            theirs = old.info().get("slave0")
            if not done:
                assert mine["lag"] != "0", info  # nothing may look caught up before the copy is applied
                if mine["state"] == "copying":
                    assert info["is_eligible_for_master_election"] == "false"
                if theirs and "state=online" not in theirs:
                    assert "lag=(db0:0)" not in theirs, theirs
            time.sleep(0.2)
        assert len(copied) > 5 and copied == sorted(copied)  # one copy, not one a SLAVEOF
        assert link.connections == 1
        wait_in_sync(old, new)
        assert assert_equal(old, new) == 6000


def test_R06_no_bookkeeping_is_seen_and_a_replica_that_was_master_reattaches():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new("SLAVEOF", "127.0.0.1", old.port)
        for node in (old, new):  # slot bookkeeping is always on here; asking for it changes nothing
            try:
                node("CONFIG", "SET", "slotmigrate", "yes")
            except redis.ResponseError:
                pass
        fill(old, 300, 10)
        old.client.sadd("s", *range(10))
        wait_in_sync(old, new)
        assert new("SLAVEOF", "NO", "ONE")
        assert new("SLAVEOF", "127.0.0.1", old.port)
        wait_until("up again", lambda: link_up(new))
        old.client.delete("s")
        old.client.set("more", 1)
        wait_in_sync(old, new)
        assert "copied_slots=0" in new.info()["slotferry_link0"]
        assert new.info()["slotferry_seq"] == old.info()["slotferry_seq"]
        assert assert_equal(old, new) == 301
        for node in (old, new):
            assert node.client.dbsize() == 301
            assert not [k for k in node.client.scan_iter(count=1000) if k.startswith(b"_internal")]
            assert sum(n for _, n in node("SLOTSINFO")) == 301
        assert old("SLOTSINFO") == new("SLOTSINFO")


# ---- a link that loses something


def test_R07_lost_acks_are_made_good_and_the_lag_is_seen_meanwhile():
    with Env() as env:
        old, new, link = pair(env)
        attach(new, link)
        wait_in_sync(old, new)
        wait_until("acked", lambda: "lag=(db0:0)" in old.info()["slave0"])
        lost = link.drop(TO_MASTER, "ack")
        old.client.set("a", 1)
        assert lost.done.wait(5)
        wait_until("made good", lambda: "lag=(db0:0)" in old.info()["slave0"], 3)
        # No ack at all for a while: the replica goes on, the lag grows where an operator looks.
        link.hold(TO_MASTER)
        for n in range(50):
            old.client.set("b", n)
        wait_until("applied all the same", lambda: new.client.get("b") == b"49")
        assert "lag=(db0:50)" in old.info()["slave0"], old.info()["slave0"]
        link.release()
        wait_until("made good", lambda: "lag=(db0:0)" in old.info()["slave0"], 3)
        # For longer than the timeout: cut, and back without a copy.
        link.hold(TO_MASTER)
        wait_until("cut by the master", lambda: "the replica said nothing for 2 s" in old.proc.tail(), 6)
        link.release()
        old.client.set("c", 1)
        wait_in_sync(old, new, timeout=5)
        assert copies(new) == 1
        assert_equal(old, new)


@pytest.mark.parametrize("full", [True, False])
def test_R13_a_lost_frame_is_noticed_and_sent_again(full):
    with Env() as env:
        old, new, link = pair(env)
        if full:
            attach(new, link)
        else:
            new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "all")
        wait_in_sync(old, new)
        for n in range(20):
            lost = link.drop(TO_REPLICA, "frame")
            for m in range(5):
                old.client.incr("n")
                old.client.rpush("l", "%d.%d" % (n, m))
            assert lost.done.wait(5)
        wait_in_sync(old, new)
        assert_equal(old, new)
        assert "the link starts anew" in new.proc.tail(200)
        # The newest one, and nobody writes after it: no later frame shows the hole.
        lost = link.drop(TO_REPLICA, "frame")
        old.client.incr("n")
        assert lost.done.wait(5)
        wait_in_sync(old, new, timeout=5)
        assert_equal(old, new)


def test_R26_a_link_without_progress_does_not_say_up():
    with Env() as env:
        old, new, link = pair(env)
        attach(new, link)
        wait_in_sync(old, new)
        link.drop(TO_REPLICA, "frame", count=10 ** 9)
        old.client.set("k", 1)
        wait_until("said", lambda: not link_up(new) and new.info()["master_link_error"] != "", 5, step=0.002)
        assert new.client.get("k") is None
        link._rules.clear()
        wait_in_sync(old, new, timeout=5)
        wait_until("up", lambda: link_up(new))
        assert new.client.get("k") == b"1"
        # Nothing comes at all, and the connection stands.
        link.hold(TO_REPLICA)
        wait_until("said", lambda: not link_up(new), 6)
        wait_until("why", lambda: "said nothing for 2 s" in new.info()["master_link_error"], 3)
        link.release()
        old.client.set("k", 2)
        wait_in_sync(old, new, timeout=8)


def test_R14_times_to_live_are_absolute_also_over_a_slow_link():
    with Env() as env:
        old, new, link = pair(env, extra=())
        attach(new, link)
        wait_in_sync(old, new)
        link.delay = 1.5
        old.client.set("short", "v", px=1000)
        old.client.set("long", "v", px=60000)
        old.client.set("renewed", "v", px=1000)
        old.client.pexpire("renewed", 50000)
        times = {k: old("PEXPIRETIME", k) for k in ("short", "long", "renewed")}
        wait_in_sync(old, new)
        for key in ("long", "renewed"):
            assert new("PEXPIRETIME", key) == times[key]
        # On the replica the master's time counts, which is 1.5 s late too; but then it is gone, for ever.
        wait_until("expired", lambda: new.client.get("short") is None, 5)
        link.delay = 0
        wait_until("same", lambda: content(old) == content(new), 5)
        assert new.client.get("renewed") == b"v"


# ---- the log while somebody needs it


def churn(node, megabytes, stop, done=None):
    """Overwrites a few keys, so that the log grows and the data does not."""
    rnd, client = random.Random(3), connect(node.port)
    try:
        for n in range(megabytes * 16):
            if stop.is_set():
                return
            client.set("churn%d" % (n % 50), rnd.randbytes(1 << 16))
    finally:
        if done:
            done.set()


def test_R08_the_log_a_running_copy_needs_is_kept():
    with Env() as env:
        extra = (*QUICK, "--write-buffer-size", "2mb", "--backlog-size", "1mb", "--wal-keep-size", "64mb")
        old, new, link = pair(env, extra=extra)
        fill(old, 4000, 4000)
        link.rate = 8 << 20
        attach(new, link)
        wait_until("copying", lambda: new.info()["slotferry_link0"].split(",")[1] == "state=copying")
        stop = threading.Event()
        churn(old, 20, stop)  # ten log files' worth during the copy
        link.rate = None
        wait_in_sync(old, new, timeout=10)
        assert link.connections == 1 and "copied_slots=1024" in new.info()["slotferry_link0"]
        assert_equal(old, new)


# ---- crashes and full disks


def test_R12_what_a_killed_master_holds_is_in_its_log():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new("SLAVEOF", "127.0.0.1", old.port)
        load = Load(lambda: old, range(0, 1024, 5), threads=4)
        wait_until("copied", lambda: link_up(new))
        rnd = random.Random(11)
        for _ in range(5):
            time.sleep(0.1 + rnd.random() / 4)
            old.restart()
        load.stop()
        wait_in_sync(old, new)
        load.check(old)
        assert_equal(old, new)
        assert copies(new) == 1


def test_R12_a_write_the_log_did_not_take_failed():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        old.proc.kill()
        old.proc.argv = ["env", "--ignore-signal=XFSZ", *old.proc.argv]  # a full file is an error, not a signal
        old.proc.start()
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        acked, failed = set(), 0
        limit = 3 << 20
        resource.prlimit(old.proc.pid, resource.RLIMIT_FSIZE, (limit, limit))
        value = random.Random(2).randbytes(10000)
        for n in range(600):
            try:
                old.client.set("k%d" % n, value)
                acked.add(b"k%d" % n)
            except redis.ResponseError:
                failed += 1
        assert failed > 0 and len(acked) > 100
        here = set(old.client.scan_iter(count=1000))
        assert here == acked  # readers see no write that was refused
        old.restart()
        wait_in_sync(old, new)
        assert set(old.client.scan_iter(count=1000)) == acked
        assert_equal(old, new)
        assert old.client.set("after", 1)
        wait_in_sync(old, new)


# ---- roles


def test_R17_roles_swap_under_load_without_a_word_to_the_clients_and_the_link_comes_up_each_time():
    with Env() as env:
        master, replica = Node(env, "a"), Node(env, "b")
        replica("SLAVEOF", "127.0.0.1", master.port)
        wait_in_sync(master, replica)
        owner = {"now": master}
        load = Load(lambda: owner["now"], range(0, 1024, 31), threads=2)
        for _ in range(4):
            time.sleep(0.15)
            assert replica("SLAVEOF", "NO", "ONE")  # the master goes on taking writes meanwhile: a fork, so a copy
            owner["now"] = replica
            master("SLAVEOF", "127.0.0.1", replica.port)
            master, replica = replica, master
            wait_until("link up", lambda: link_up(replica), 20)
        load.stop()
        wait_in_sync(master, replica)
        assert_equal(master, replica)


def test_R17_roles_swap_ten_times_under_load_in_the_safe_order_without_loss_or_copy():
    """First the master follows (so it takes no more writes), then, when it has everything, the replica becomes the master."""
    with Env() as env:
        master, replica = Node(env, "a"), Node(env, "b")
        replica("SLAVEOF", "127.0.0.1", master.port)
        wait_in_sync(master, replica)
        owner = {"now": master}
        load = Load(lambda: owner["now"], range(0, 1024, 31), threads=3, kinds="counted")
        for _ in range(10):
            time.sleep(0.1)
            assert master("SLAVEOF", "127.0.0.1", replica.port)
            end = master.info()["slotferry_seq"]
            wait_until("everything", lambda: replica.info()["slotferry_seq"] == end, 10)
            assert replica("SLAVEOF", "NO", "ONE")
            owner["now"] = replica
            master, replica = replica, master
            wait_until("link up", lambda: link_up(replica), 10)
        load.stop()
        wait_in_sync(master, replica)
        load.check(master)
        assert_equal(master, replica)
        assert copies(master) + copies(replica) == 1  # the very first one


def test_R22_a_replica_that_stops_reading_is_cut_and_nobody_else_notices():
    with Env() as env:
        extra = ("--repl-timeout", "3")
        old, new = Node(env, "old", extra=extra), Node(env, "new", extra=extra)
        fill(old, 200, 1000)
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        stop, counts = threading.Event(), [0, 0]
        slowest = [0.0, 0.0]
        phase = {"now": 0}

        def write(seed):
            client, rnd = connect(old.port), random.Random(seed)
            while not stop.is_set():
                begin = time.perf_counter()
                pipe = client.pipeline(transaction=False)
                for _ in range(8):
                    pipe.set("w%d" % rnd.randrange(500), rnd.randbytes(4000))
                pipe.execute()
                now = phase["now"]
                counts[now] += 8
                slowest[now] = max(slowest[now], time.perf_counter() - begin)

        threads = [threading.Thread(target=write, args=(s,)) for s in range(2)]
        for t in threads:
            t.start()
        time.sleep(2)
        before = rss_mb(old)
        os.kill(new.proc.pid, signal.SIGSTOP)
        try:
            phase["now"] = 1
            begin, most = time.monotonic(), 0
            while time.monotonic() - begin < 2:
                time.sleep(0.1)
                most = max(most, rss_mb(old))
            phase["now"] = 0
            lag = fields(old.info()["slave0"].replace("(db0:", "").replace(")", "")).get("lag")
            assert int(lag) > 100
            wait_until("cut", lambda: old.info()["connected_slaves"] == "0", 10)
            wait_until("said", lambda: "the replica said nothing for 3 s" in old.proc.tail(), 5)
            stop.set()
            for t in threads:
                t.join()
        finally:
            os.kill(new.proc.pid, signal.SIGCONT)
        print("writes in 2 s with the replica reading, and not:", counts, "slowest", slowest, "MB", before, most)
        assert counts[1] > counts[0] / 6  # phase 0 lasts longer than phase 1
        assert slowest[1] < 1
        # The output limit is 4 MiB; memtables, the 32 MiB backlog and one frame may still fill meanwhile.
        assert most - before < 100
        wait_until("back", lambda: link_up(new), 10)
        wait_in_sync(old, new)
        assert any(text in new.proc.tail(100) for text in ("said nothing", "link to "))
        assert copies(new) == 1
        assert_equal(old, new)


def test_R22_a_replica_that_stops_reading_in_the_copy_is_cut_too():
    with Env() as env:
        old, new, link = pair(env)
        fill(old, 8000, 4000)
        before = rss_mb(old)
        link.rate = 4 << 20
        attach(new, link)
        wait_until("copying", lambda: fields(new.info()["slotferry_link0"])["copied_slots"] != "0")
        link.rate = None
        os.kill(new.proc.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            wait_until("cut", lambda: old.info()["connected_slaves"] == "0", 10)
            assert time.monotonic() - begin < 6
            assert rss_mb(old) - before < 60
        finally:
            os.kill(new.proc.pid, signal.SIGCONT)
        wait_in_sync(old, new)
        assert_equal(old, new)


# ---- the words


def test_R02_positions_are_printed_where_tools_look_for_them():
    """slave_repl_offset, master_repl_offset, and Pika's file and offset with a blank between them."""
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new("SLAVEOF", "127.0.0.1", old.port)
        fill(old, 50, 10)
        wait_in_sync(old, new)
        ours, theirs = old.info(), new.info()
        assert ours["master_repl_offset"] == theirs["slave_repl_offset"] == theirs["master_repl_offset"]
        for info in (ours, theirs):
            file, offset = info["db0"].split(",")[0].split("=")[1].split(" ")
            assert int(file) * (1 << 30) + int(offset) == int(ours["master_repl_offset"])




# ---- passwords


def test_R19_a_password_that_changes_while_a_replica_is_attached():
    with Env() as env:
        old, new = Node(env, "old", extra=QUICK), Node(env, "new", extra=QUICK)
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        old("CONFIG", "SET", "requirepass", "one")
        old.password = "one"
        old.client = connect(old.port, password="one")
        old.client.set("a", 1)  # who is attached stays so, as in Redis
        wait_in_sync(old, new)
        assert new.client.get("a") == b"1" and link_up(new)
        old.restart()  # the password was not in a file: given again on the command line
        old.proc.stop()
        old.proc.start(extra=("--requirepass", "one"))
        wait_until("said here", lambda: "NOAUTH" in new.info()["master_link_error"]
                   and "masterauth" in new.info()["master_link_error"])
        assert not link_up(new)
        new("CONFIG", "SET", "masterauth", "two")
        wait_until("said here", lambda: "WRONGPASS" in new.info()["master_link_error"])
        wait_until("said there", lambda: "a wrong password came from" in old.proc.tail())
        assert "masterauth" in new.proc.tail()
        old.client.set("b", 1)
        new("CONFIG", "SET", "masterauth", "one")
        begin = time.monotonic()
        wait_in_sync(old, new)
        assert time.monotonic() - begin < 3  # without a restart, and soon
        assert new.client.get("b") == b"1" and new.info()["master_link_error"] == ""
        assert copies(new) == 1


def test_R19_no_word_of_replication_before_the_password_and_none_in_a_pipeline_behind_a_wrong_one():
    with Env() as env:
        old = Node(env, "old", password="secret")
        old.client.set("k", 1)
        pack = connect(old.port).connection_pool.get_connection("x").pack_command
        history = old.positions("5")[5]["history"]
        verbs = [("REPLICATION", "SYNC", "2", "x" * 40, "1", "full", "0-1023", "-", "0"), ("REPLICATION", "POSITIONS"),
                 ("REPLICATION", "REPLICAS"), ("REPLICATION", "WAITAPPLIED", "5", history, "1", "10"), ("ROLE",),
                 ("SLAVEOF", "NO", "ONE"), ("REPLICAOF", "127.0.0.1", "1"), ("PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "5"),
                 ("PKCLUSTER", "EPOCH", "5", "p", "1"), ("PKCLUSTER", "FENCE", "5", "p", "1", "LEASE", "100"),
                 ("PKCLUSTER", "UNFENCE", "5", "p", "1"), ("PKCLUSTER", "PROMOTE", "5", "p", "1", "FROM", history, "1"),
                 ("PKCLUSTER", "FOLLOW", "5", "p", "1", "127.0.0.1", "1", "FROM", history, "1"),
                 ("PKCLUSTER", "INFO", "SLOT", "5"), ("WAIT", "1", "10"), ("INFO", "replication"), ("PUBLISH", "c", "m"),
                 ("SUBSCRIBE", "c"), ("CONFIG", "SET", "masterauth", "x")]
        for words in verbs:
            with socket.create_connection(("127.0.0.1", old.port), timeout=5) as raw, raw.makefile("rb") as answers:
                for command in (("AUTH", "wrong"), words):
                    raw.sendall(b"".join(pack(*command)))
                assert b"invalid username-password pair" in answers.readline(), words
                assert answers.readline() == b"-NOAUTH Authentication required.\r\n", words
        assert old.info()["connected_slaves"] == "0" and old.info()["slotferry_replicas"] == "0"
        assert old.client.get("k") == b"1"


# ---- waiting for replicas


def test_wait_counts_full_replicas_that_applied_this_clients_last_write():
    with Env() as env:
        old, new, link = pair(env)
        other = Node(env, "other", extra=QUICK)
        attach(new, link)
        other("SLAVEOF", "127.0.0.1", old.port)
        for replica in (new, other):
            wait_in_sync(old, replica)
        client = connect(old.port)
        client.set("a", 1)
        assert client.wait(2, 5000) == 2
        assert (new.client.get("a"), other.client.get("a")) == (b"1", b"1")
        link.hold(TO_REPLICA)
        client.set("a", 2)
        begin = time.monotonic()
        assert client.wait(2, 300) == 1 and time.monotonic() - begin > 0.25
        assert other.client.get("a") == b"2"
        assert client.wait(1, 0) == 1  # at once
        answers = []
        waiter = threading.Thread(target=lambda: (client.set("a", 3), answers.append(client.wait(2, 10000))))
        waiter.start()
        link.release()
        waiter.join(12)
        assert answers == [2] and new.client.get("a") == b"3"
        # Confirmed by WAIT means: still there when the master is killed and the replica takes over.
        for n in range(50):
            client.set("w", n)
            assert client.wait(2, 5000) == 2
        old.proc.kill()
        assert new("SLAVEOF", "NO", "ONE") and new.client.get("w") == b"49"


def test_min_replicas_to_write_as_redis_has_it():
    with Env() as env:
        old, new, link = pair(env)
        old("CONFIG", "SET", "min-replicas-to-write", 1)
        old("CONFIG", "SET", "min-replicas-max-lag", 2)
        with pytest.raises(redis.ResponseError, match="NOREPLICAS Not enough good replicas to write"):
            old.client.set("a", 1)
        assert old.client.get("a") is None
        attach(new, link)
        wait_until("good", lambda: link_up(new))

        def writes():
            try:
                return old.client.set("a", 1)
            except redis.ResponseError:
                return False

        wait_until("taken", writes, 5)
        link.hold(TO_MASTER)
        wait_until("refused", lambda: not writes(), 8)
        link.release()
        wait_until("taken again", writes, 8)
        old("CONFIG", "SET", "min-slaves-to-write", 0)
        new.proc.stop()
        assert old.client.set("a", 2)


def test_positions_say_whom_a_slot_follows_and_how_far_it_is_behind():
    with Env() as env:
        old, new, link = pair(env)
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "900-901")
        wait_in_sync(old, new, "900-901")

        def row(slot):
            return new("REPLICATION", "POSITIONS", str(slot))[0]

        assert row(900)[6] == b"127.0.0.1:%d" % link.port and row(5)[6] == b"-"
        key = "{%s}k" % tag_in_cached(900)
        for n in range(7):
            old.client.set(key, n)
        wait_in_sync(old, new, "900-901")
        wait_until("no lag", lambda: row(900)[7] == 0)
        ends = old.positions("900-901")
        assert row(900)[3] >= ends[900]["seq"] and row(900)[2].decode() == ends[900]["history"]
        replicas = old("REPLICATION", "REPLICAS")
        assert len(replicas) == 1
        flat = {replicas[0][i]: replicas[0][i + 1] for i in range(0, len(replicas[0]), 2)}
        assert flat[b"mode"] == b"slots" and flat[b"slots"] == b"900-901" and int(flat[b"port"]) == new.port
