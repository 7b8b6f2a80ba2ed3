"""Replication between real nodes: copies, streams, restarts, fences and promotes. Names carry the case or invariant."""
import os
import random
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from replica_env import (Load, Node, assert_equal, content, slot_of, tag_in_cached, wait_in_sync)  # noqa: E402

SLOTS = "901-1023"
RANGE = range(901, 1024)


def fill(node, count, slots=None, seed=5):
    rnd = random.Random(seed)
    pipe = connect(node.port, password=node.password).pipeline(transaction=False)
    for n in range(count):
        key = "{%s}f%d" % (tag_in_cached(rnd.choice(list(slots))), n) if slots else "f%d" % n
        kind = n % 5
        if kind == 0:
            pipe.set(key, "v%d" % n, px=rnd.randrange(10 ** 6, 10 ** 8) if n % 2 else None)
        elif kind == 1:
            pipe.hset(key, mapping={"a": n, "b": "x" * (n % 50)})
        elif kind == 2:
            pipe.rpush(key, *range(n % 7 + 1))
        elif kind == 3:
            pipe.sadd(key, *range(n % 5 + 1))
        else:
            pipe.zadd(key, {str(i): i * 1.5 for i in range(n % 4 + 1)})
        if n % 500 == 499:
            pipe.execute()
    pipe.execute()


# ---- copies and streams


def test_R05_copy_under_load_is_exact_and_other_slots_stay_ours():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        fill(old, 4000)
        fill(old, 2000, RANGE, seed=6)
        fill(new, 500, range(0, 100), seed=7)
        before = content(new)
        load = Load(lambda: old, range(880, 1024), threads=6)
        time.sleep(0.3)  # load is running when the copy begins
        assert new.follow_slots(old, SLOTS) == b"OK"
        wait_until("copied", lambda: all(p["link"] == "up" for p in new.positions(SLOTS).values()), 60)
        time.sleep(0.5)
        load.stop()
        wait_in_sync(old, new, SLOTS)
        assert assert_equal(old, new, RANGE) > 1000
        mine = {k: v for k, v in content(new).items() if slot_of(k[1]) not in RANGE}
        assert mine == before
        # Followed slots are read-only for clients, the others are ordinary.
        with pytest.raises(redis.ReadOnlyError):
            new.client.set("{%s}w" % tag_in_cached(950), 1)
        assert new.client.set("{%s}w" % tag_in_cached(5), 1)
        info = new.info()
        assert info["slotferry_followed_slots"] == SLOTS and "state=up" in info["slotferry_link0"]
        assert info["role"] == "master" and "master_host" not in info
        assert "state=online" in old.info()["slotferry_replica0"] and old.info()["connected_slaves"] == "0"


def test_a_slot_with_keys_is_not_wiped_without_force():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        key = "{%s}k" % tag_in_cached(905)
        old.client.set(key, "old")
        new.client.set(key, "new")
        with pytest.raises(redis.ResponseError, match="slot 905 holds 1 keys"):
            new.follow_slots(old, SLOTS)
        assert new.client.get(key) == b"new"
        new.follow_slots(old, SLOTS, "FORCE")
        wait_in_sync(old, new, SLOTS)
        assert new.client.get(key) == b"old"
        assert new("PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "905") == b"OK"
        assert new.client.set(key, "mine")
        old.client.set(key, "theirs")
        wait_in_sync(old, new, "906-1023")
        assert new.client.get(key) == b"mine"


@pytest.mark.parametrize("who", ["master", "replica", "both"])
def test_R25_kill_9_under_load_resumes_without_a_difference(who):
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        fill(old, 3000, RANGE)
        load = Load(lambda: old, RANGE, threads=4)
        new.follow_slots(old, SLOTS)
        for round_number in range(4):
            time.sleep(0.15 + 0.2 * round_number)  # the first ones fall into the copy
            if who in ("replica", "both"):
                new.restart()
            if who in ("master", "both"):
                old.restart()
        time.sleep(0.3)
        load.stop()
        wait_in_sync(old, new, SLOTS)
        load.check(old)
        assert_equal(old, new, RANGE)
        new.restart(kill=False)
        wait_until("link", lambda: all(p["link"] == "up" for p in new.positions(SLOTS).values()))
        assert "copied_slots=0" in new.info()["slotferry_link0"]  # resumed, nothing copied again
        assert_equal(old, new, RANGE)


def test_R25_updates_made_while_the_replica_was_down_arrive():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        a, b = ("{%s}%s" % (tag_in_cached(950), n) for n in "ab")
        old.client.set(a, 1)
        new.follow_slots(old, SLOTS)
        wait_in_sync(old, new, SLOTS)
        new.proc.kill()
        old.client.set(a, 2)
        old.client.set(b, 1)
        new.proc.start()
        wait_in_sync(old, new, SLOTS)
        assert (new.client.get(a), new.client.get(b)) == (b"2", b"1")


def test_R10_flush_and_writes_keep_their_order_and_do_not_reach_other_slots():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        mine = "{%s}mine" % tag_in_cached(10)
        new.client.set(mine, 1)
        new.follow_slots(old, SLOTS)
        key = "{%s}k" % tag_in_cached(1000)
        for n in range(60):
            old.client.set(key, n)
            old.client.flushdb()
            old.client.set(key, "after%d" % n)
        wait_in_sync(old, new, SLOTS)
        assert new.client.get(key) == b"after59"
        assert new.client.get(mine) == b"1"
        old("SLOTSDEL", 1000)
        wait_in_sync(old, new, SLOTS)
        assert new.client.get(key) is None and new.client.get(mine) == b"1"


def test_R14_R15_R16_R24_times_to_live_and_edits_are_the_same_on_both():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        c = old.client
        c.set("px", "v", px=150000)
        c.setex("ex", 4000, "v")
        c.psetex("psetex", 123457, "v")
        c.execute_command("SET", "pxat", "v", "PXAT", 4102444800123)
        c.execute_command("SET", "far", "v", "EXAT", 9999999999)
        c.append("append", "x")
        c.append("append", "y")
        c.incrbyfloat("float", 1.25)
        c.setrange("range", 4, "z")
        c.set("keep", 5, px=90000)
        c.incr("keep")
        c.append("px", "more")
        c.set("gone", 1, px=1)
        c.set("persist", 1, px=100000)
        c.persist("persist")
        wait_in_sync(old, new)
        time.sleep(0.01)
        wait_until("expired on both", lambda: new.client.get("gone") is None and old.client.get("gone") is None)
        assert assert_equal(old, new) == 10
        for key in ("px", "ex", "psetex", "pxat", "far", "keep"):
            ours, theirs = (n("PEXPIRETIME", key) for n in (old, new))
            assert ours == theirs > 0, key


def test_R09_R11_multi_key_and_random_commands_are_the_same_on_both():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new("SLAVEOF", "127.0.0.1", old.port)

        def work(seed):
            rnd, client = random.Random(seed), connect(old.port)
            for _ in range(300):
                a, b = rnd.sample("abcdef", 2)
                client.lpush("l" + a, rnd.randrange(100))
                client.rpoplpush("l" + a, "l" + b)
                client.sadd("s" + a, *[rnd.randrange(50) for _ in range(4)])
                client.spop("s" + b)
                client.sunionstore("s" + a, ["s" + a, "s" + b])
                if rnd.random() < 0.1:
                    client.delete("l" + a, "s" + b)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wait_in_sync(old, new)
        assert_equal(old, new)


# ---- full replicas


def test_full_replica_copies_follows_survives_kills_and_reattaches_after_failover_without_a_copy():
    with Env() as env:
        a, b, c = Node(env, "a"), Node(env, "b"), Node(env, "c")
        fill(a, 3000)
        load = Load(lambda: a, range(0, 1024, 7), threads=4)
        for replica in (b, c):
            assert replica("SLAVEOF", "127.0.0.1", a.port)
        wait_until("up", lambda: all(n.info()["master_link_status"] == "up" for n in (b, c)), 90)
        b.restart()
        time.sleep(0.3)
        load.stop()
        wait_in_sync(a, b)
        wait_in_sync(a, c)
        load.check(b)
        assert_equal(a, b)
        assert_equal(a, c)
        assert b.info()["role"] == "slave" and b.info()["master_port"] == str(a.port)
        shown = [v for k, v in a.info().items() if k.startswith("slave")]
        assert any("port=%d," % b.port in v for v in shown), shown  # also after b's restart
        assert b("ROLE")[0] == b"slave" and a("ROLE")[0] == b"master" and len(a("ROLE")[2]) == 2
        assert b.info()["db0"].startswith("binlog_offset=0 ") and "lag=(db0:" in a.info()["slave0"]
        with pytest.raises(redis.ReadOnlyError):
            b.client.set("x", 1)
        # Failover: b becomes the master; c and the old master follow it where they stand.
        assert b("SLAVEOF", "NO", "ONE")
        b.client.set("new", 1)
        for replica in (c, a):
            replica("SLAVEOF", "127.0.0.1", b.port)
        for replica in (c, a):
            wait_in_sync(b, replica)
            assert "copied_slots=0" in replica.info()["slotferry_link0"], replica.name
            assert_equal(b, replica)
        a.restart()
        b.client.set("new", 2)
        wait_in_sync(b, a)
        assert a.client.get("new") == b"2" and a.info()["role"] == "slave"


def test_R21_forked_histories_copy_and_do_not_merge():
    with Env() as env:
        a, b = Node(env, "a"), Node(env, "b")
        b("SLAVEOF", "127.0.0.1", a.port)
        a.client.set("s", 1)
        wait_in_sync(a, b)
        b("SLAVEOF", "NO", "ONE")
        a.client.set("t", 111)
        b.client.set("t", 222)
        b.client.set("u", 222)
        b("SLAVEOF", "127.0.0.1", a.port)
        wait_until("copied", lambda: b.info()["master_link_status"] == "up", 60)
        wait_in_sync(a, b)
        assert b.client.get("t") == b"111" and b.client.get("u") is None
        assert_equal(a, b)
        # Numbers go on as the master's, also after a restart of the replica right behind the copy.
        b.restart()
        a.client.set("v", 1)
        wait_in_sync(a, b)
        assert b.info()["slotferry_seq"] == a.info()["slotferry_seq"] and b.client.get("v") == b"1"


def test_R18_a_master_that_is_a_stranger_is_copied_not_believed():
    with Env() as env:
        a, b, x = Node(env, "a"), Node(env, "b"), Node(env, "x")
        for n in range(5):
            a.client.set("a%d" % n, 1)
            x.client.set("x%d" % n, 1)
        b("SLAVEOF", "127.0.0.1", a.port)
        wait_in_sync(a, b)
        # x stands at the same number, with other data.
        b("SLAVEOF", "127.0.0.1", x.port)
        wait_until("copied", lambda: b.info()["master_link_status"] == "up", 60)
        wait_in_sync(x, b)
        assert_equal(x, b)


def test_chained_a_full_replica_of_a_slot_replica_gets_the_copied_slots():
    with Env() as env:
        old, new, third = Node(env, "old"), Node(env, "new"), Node(env, "third")
        fill(old, 2000, RANGE)
        third("SLAVEOF", "127.0.0.1", new.port)
        wait_in_sync(new, third)
        new.client.set("{%s}own" % tag_in_cached(3), 1)
        new.follow_slots(old, SLOTS)
        wait_in_sync(old, new, SLOTS)
        old.client.set("{%s}late" % tag_in_cached(960), 1)
        wait_in_sync(old, new, SLOTS)
        wait_until("third", lambda: third.info()["slotferry_seq"] == new.info()["slotferry_seq"], 60)
        assert_equal(new, third)
        assert_equal(old, third, RANGE)


def test_R19_without_the_password_nothing_of_replication_answers():
    with Env() as env:
        old = Node(env, "old", password="secret")
        bare = connect(old.port)
        for words in (("REPLICATION", "SYNC", 2, "x", 1, "full", "0-1023", "-", 0), ("REPLICATION", "POSITIONS"),
                      ("PKCLUSTER", "FENCE", "1", "p", 1, "LEASE", 100), ("SLAVEOF", "NO", "ONE"),
                      ("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", 1, "5")):
            with pytest.raises((redis.AuthenticationError, redis.ResponseError), match="Authentication required"):
                bare.execute_command(*words)
        old.client.set("k", 1)
        new = Node(env, "new", extra=("--masterauth", "wrong"))
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_until("said", lambda: "password" in new.info().get("master_link_error", ""))
        assert new.info()["master_link_status"] == "down" and new.client.get("k") is None
        wait_until("the master says it too", lambda: "a wrong password came from" in old.proc.tail())
        new("CONFIG", "SET", "masterauth", "secret")
        wait_in_sync(old, new)
        assert new.client.get("k") == b"1" and new.info()["master_link_error"] == ""


# ---- fence, promote, take back, reverse


def cut(old, new, slots, plan, epoch, lease=5000):
    """The node part of a cutover, in the shim's order. Returns the milliseconds from fence to sealed."""
    old("PKCLUSTER", "EPOCH", slots, plan, epoch)
    new("PKCLUSTER", "EPOCH", slots, plan, epoch)
    begin = time.perf_counter()
    end = old.fence(slots, plan, epoch, lease)
    assert new.wait_applied(slots, end) == 1
    applied, history, seq = new.promote(slots, plan, epoch, end)
    assert old.permanent(slots, plan, epoch, new) == end
    new.unfence(slots, plan, epoch)  # where it was left before, it is closed until it is the owner
    ms = (time.perf_counter() - begin) * 1000
    assert applied >= end[1]
    return ms, (history, seq)


def test_I1_I2_I3_slots_go_over_and_back_under_load_and_no_write_is_lost():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        slots, text = range(950, 954), "950-953"
        new.follow_slots(old, text)
        wait_in_sync(old, new, text)
        owner = {"now": old}
        # Writers do not know of the cut: they meet the fence, and try elsewhere.
        load = Load(lambda: owner["now"], slots, threads=4, kinds="counted")
        here, there, times = old, new, []
        for epoch in range(1, 13):
            time.sleep(0.1)
            ms, position = cut(here, there, text, "p", epoch)
            times.append(ms)
            owner["now"] = there
            here.follow(text, "p", epoch, there, position)  # the way back, without a copy
            here, there = there, here
        load.stop()
        print("fence to sealed, ms:", ["%.1f" % t for t in times])
        wait_in_sync(here, there, text)
        assert load.check(here) > 100
        assert_equal(here, there, set(slots))
        assert here is old and "copied_slots=0," in new.info()["slotferry_link0"]  # never copied again


def test_I3_a_promote_is_taken_back_without_a_copy_and_nothing_is_lost():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        slots, text = range(905, 909), "905-908"
        fill(old, 300, slots)
        new.follow_slots(old, SLOTS)
        wait_in_sync(old, new, SLOTS)
        load = Load(lambda: old, range(901, 1024), threads=4, kinds="counted")
        for epoch in range(1, 9):
            end = old.fence(text, "p", epoch)
            assert new.wait_applied(text, end) == 1
            applied, _, _ = new.promote(text, "p", epoch, end)
            assert new.promote(text, "p", epoch, end)[0] == applied  # asked twice: the same answer
            if epoch % 2:
                old.permanent(text, "p", epoch, new)
            # I2 e failed, say: back.
            new.follow(text, "p", epoch, old, (end[0], applied))
            old.unfence(text, "p", epoch)
            old.unfence(text, "p", epoch)
            time.sleep(0.1)
        load.stop()
        wait_in_sync(old, new, SLOTS)
        assert load.check(old) > 50
        assert_equal(old, new, RANGE)
        assert "copied_slots=123" in new.info()["slotferry_link0"]


def test_I10_kill_9_after_promote_keeps_owner_fence_and_links():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        text, key = "905-908", "{%s}k" % tag_in_cached(905)
        fill(old, 300, range(905, 909))
        new.follow_slots(old, SLOTS)
        wait_in_sync(old, new, SLOTS)
        _, position = cut(old, new, text, "p", 3)
        for node in (old, new):
            node.restart()
        assert new.positions(text)[905]["role"] == "master"
        assert old.positions(text)[905]["fence"] == "permanent"
        with pytest.raises(redis.ResponseError, match="TRYAGAIN slot 905 is fenced by plan p"):
            old.client.set(key, 1)
        with pytest.raises(redis.ResponseError, match="MOVEDSLOT slot 905 now lives on " + new.address):
            old.client.get(key)
        old("PKCLUSTER", "VERIFYREAD", "ON")
        assert old.client.get(key) is None
        # The reverse link from the exact position, after both were killed, without a copy.
        old.follow(text, "p", 3, new, position)
        new.client.set(key, "new")
        wait_in_sync(new, old, text)
        assert old.client.get(key) == b"new"
        assert "copied_slots=0" in old.info()["slotferry_link0"]
        old.restart()
        new.client.set(key, "newer")
        wait_in_sync(new, old, text)
        assert_equal(new, old, range(905, 909))
        # The other slots still follow.
        other = "{%s}k" % tag_in_cached(1000)
        old.client.set(other, 1)
        wait_in_sync(old, new, "909-1023")
        assert new.client.get(other) == b"1"


def test_I2_a_slot_taken_out_by_hand_is_not_given_again_what_it_has():
    """A shim that died before it noted the reverse link names the position of the switch."""
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        text, tag = "905-906", "{%s}" % tag_in_cached(905)
        new.follow_slots(old, text)
        wait_in_sync(old, new, text)
        _, switch = cut(old, new, text, "p", 3)
        old.follow(text, "p", 3, new, switch)

        def write(n):
            new.client.rpush(tag + "list", n)
            new.client.lpop(tag + "gone")
            new.client.rpush(tag + "gone", n)
            new.client.incr(tag + "count")
            new.client.append(tag + "text", n)
        for n in range(50):
            write(n)
        wait_in_sync(new, old, text)
        stood = old.positions(text)[905]
        assert stood["seq"] > switch[1]
        old("PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", text)
        write(50)
        new.proc.kill()  # nothing is sent: the position is the one it begins with
        old.follow(text, "p", 4, new, switch)
        again = old.positions(text)[905]
        assert (again["history"], again["seq"]) == (stood["history"], stood["seq"])
        old.restart()
        new.proc.start()
        write(51)
        wait_in_sync(new, old, text)
        assert_equal(new, old, [905, 906])
        assert "copied_slots=0" in old.info()["slotferry_link0"]


def test_I3_take_back_also_after_both_were_killed_but_not_after_a_write():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        fill(old, 100, range(905, 907))
        new.follow_slots(old, SLOTS)
        wait_in_sync(old, new, SLOTS)
        end = old.fence("905-906", "p", 1)
        new.wait_applied("905-906", end)
        applied, _, _ = new.promote("905-906", "p", 1, end)
        new.client.set("{%s}touched" % tag_in_cached(906), 1)
        old.restart()
        new.restart()
        new.follow("905", "p", 1, old, (end[0], applied))
        with pytest.raises(redis.ResponseError, match="slot 906 took writes of its own"):
            new.follow("906", "p", 1, old, (end[0], applied))
        old.client.set("{%s}more" % tag_in_cached(905), 1)
        wait_in_sync(old, new, "905")
        assert_equal(old, new, [905])


def test_lease_runs_out_and_a_late_permanent_fence_is_refused():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        key = "{%s}k" % tag_in_cached(905)
        new.follow_slots(old, "905")
        wait_in_sync(old, new, "905")
        end = old.fence("905", "p", 1, 150)
        with pytest.raises(redis.ResponseError, match="TRYAGAIN slot 905 is fenced by plan p"):
            old.client.set(key, 1)
        assert old.positions("905")[905]["fence"] == "leased"
        assert old.client.get(key) is None  # reads go on
        wait_until("lifted", lambda: old.positions("905")[905]["fence"] == "no", 5)
        assert old.client.set(key, 2)
        with pytest.raises(redis.ResponseError, match="LEASEEXPIRED"):
            old.permanent("905", "p", 1, new)
        assert new.wait_applied("905", end) == 1
        # A lease does not survive its node.
        old.fence("905", "p", 2, 60000)
        old.restart()
        assert old.client.set(key, 3)
        with pytest.raises(redis.ResponseError, match="LEASEEXPIRED"):
            old.permanent("905", "p", 2, new)


def test_stale_epochs_are_refused_also_after_a_restart():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new.follow_slots(old, "905-906")
        wait_in_sync(old, new, "905-906")
        old("PKCLUSTER", "EPOCH", "905", "p", 7)
        new("PKCLUSTER", "EPOCH", "905", "p", 7)
        old.restart()
        new.restart()
        history = old.positions("905")[905]["history"]
        for call in (lambda: old.fence("905-906", "p", 5), lambda: old.unfence("905", "p", 6),
                     lambda: new.promote("905", "p", 5, (history, 0)),
                     lambda: new.follow("905", "p", 5, old, (history, 0)),
                     lambda: old("PKCLUSTER", "EPOCH", "905", "p", 6)):
            with pytest.raises(redis.ResponseError, match="STALEEPOCH plan p is at epoch 7 for slot 905, not"):
                call()
        assert old.positions("906")[906]["fence"] == "no"  # nothing was done by half
        old.fence("905", "q", 1)  # another plan counts for itself
        with pytest.raises(redis.ResponseError, match="fenced by plan q"):
            old.fence("905", "p", 8)


def test_I2_promote_needs_the_position_and_waitapplied_is_an_event():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new.follow_slots(old, "905")
        wait_in_sync(old, new, "905")
        history, seq = old.fence("905", "p", 1)
        with pytest.raises(redis.ResponseError, match="NOTAPPLIED slot 905"):
            new.promote("905", "p", 1, (history, seq + 5))
        with pytest.raises(redis.ResponseError, match="NOTAPPLIED slot 905"):
            new.promote("905", "p", 1, ("0" * 40, 0))
        with pytest.raises(redis.ResponseError, match="slot 906 follows nobody"):
            new.promote("906", "p", 1, (history, seq))
        begin = time.monotonic()
        assert new.wait_applied("905", (history, seq + 5), 200) == 0
        assert 0.15 < time.monotonic() - begin < 2
        old.unfence("905", "p", 1)
        # A waiter that goes away, and one that is woken.
        lost = connect(new.port)
        lost.connection_pool.get_connection("x").send_command("REPLICATION", "WAITAPPLIED", "905", history, seq + 99, 60000)
        lost.connection_pool.disconnect()
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(connect(new.port).execute_command(
            "REPLICATION", "WAITAPPLIED", "905", history, seq + 3, 20000)))
        waiter.start()
        for n in range(3):
            old.client.set("{%s}k" % tag_in_cached(905), n)
        waiter.join(20)
        assert answers == [1]


def test_the_tail_is_judged_quickly_though_other_slots_write():
    """WAITAPPLIED must not wait for anything but the stream: idle slot, busy neighbours."""
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        new.follow_slots(old, "900-910")
        wait_in_sync(old, new, "900-910")
        load = Load(lambda: old, range(0, 100), threads=2)
        times = []
        for n in range(50):
            old.client.set("{%s}k" % tag_in_cached(905), n)
            end = old.fence("905", "p", n + 1)
            begin = time.perf_counter()
            assert new.wait_applied("905", end) == 1
            times.append((time.perf_counter() - begin) * 1000)
            old.unfence("905", "p", n + 1)
        load.stop()
        times.sort()
        print("waitapplied ms: p50 %.2f max %.2f" % (times[25], times[-1]))
