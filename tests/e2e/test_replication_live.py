"""Slots that come and go while a link streams, settings, positions, WAIT: real nodes."""
import os
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from replica_env import Load, Node, assert_equal, content, slot_of, tag_in_cached, wait_in_sync  # noqa: E402
from tcp_link import TcpLink  # noqa: E402


def fill_slot(node, slot, count, size=100):
    pipe = connect(node.port, password=node.password).pipeline(transaction=False)
    rnd = os.urandom(size * count)
    for n in range(count):
        pipe.set("{%s}k%d" % (tag_in_cached(slot), n), rnd[n * size:n * size + size])
        if n % 1000 == 999:
            pipe.execute()
    pipe.execute()


def copied(node, slots):
    return lambda: all(p["link"] == "up" for p in node.positions(slots).values())


class LagWatch:
    """Writes a stamp into a slot of the master every few ms and asks the replica for how long it took to be there."""

    def __init__(self, master, replica, slot):
        self.key = "{%s}lag" % tag_in_cached(slot)
        self.worst, self.times = 0.0, 0
        self.stop_event = threading.Event()
        self.args = master, replica
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        master, replica = (connect(n.port) for n in self.args)
        n = 0
        while not self.stop_event.is_set():
            n += 1
            begin = time.perf_counter()
            master.set(self.key, n)
            while int(replica.get(self.key) or 0) < n and not self.stop_event.is_set():
                pass
            self.worst = max(self.worst, time.perf_counter() - begin)
            self.times += 1
            self.stop_event.wait(0.002)

    def stop(self):
        self.stop_event.set()
        self.thread.join()
        return self.worst


def test_R12_slots_added_while_the_link_streams_leave_the_others_moving():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        fill_slot(old, 900, 2000)
        fill_slot(old, 901, 40000, 1000)  # 40 MB: takes a while
        fill_slot(old, 902, 3000)
        new.follow_slots(old, "900")
        wait_in_sync(old, new, "900")
        old("CONFIG", "SET", "slot-copy-rate", "20mb")  # two seconds for slot 901
        watch = LagWatch(old, new, 900)
        load = Load(lambda: old, [900, 901, 902], threads=2)
        time.sleep(0.2)
        new.follow_slots(old, "901-902")
        begin = time.perf_counter()
        states = set()
        while not copied(new, "901-902")():
            states.add(new.positions("900")[900]["link"])
            time.sleep(0.02)
            assert time.perf_counter() - begin < 60
        took = time.perf_counter() - begin
        time.sleep(0.3)
        load.stop()
        worst = watch.stop()
        wait_in_sync(old, new, "900-902")
        assert_equal(old, new, {900, 901, 902})
        print("copied in %.2f s; slot 900 lagged at most %.1f ms over %d writes" % (took, worst * 1000, watch.times))
        assert states <= {"up"}
        assert took > 1.0
        assert worst < took / 2  # it did not wait for the copy
        assert new.info()["slotferry_links"] == "1"


def test_slots_come_and_go_under_load_and_stay_exact():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        slots = list(range(700, 712))
        for slot in slots:
            fill_slot(old, slot, 300)
        load = Load(lambda: old, slots, threads=3)
        new.follow_slots(old, "700-703")
        for turn in range(6):
            new.follow_slots(old, "704-711", "FORCE")
            time.sleep(0.15 * (turn % 3))
            wait_until("dropped", lambda: _no_one(new, "704-711"))
        new.follow_slots(old, "704-711", "FORCE")
        wait_until("copied", copied(new, "700-711"), 60)
        load.stop()
        wait_in_sync(old, new, "700-711")
        assert assert_equal(old, new, set(slots)) > 3000


def _no_one(node, slots):
    try:
        return node("PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", slots) == b"OK"
    except redis.ResponseError as error:
        assert str(error).startswith("TRYAGAIN"), error
        return False


@pytest.mark.parametrize("who", ["old", "new"])
def test_R25_kill_9_while_slots_are_added_to_a_streaming_link(who):
    with Env() as env:
        nodes = {"old": Node(env, "old"), "new": Node(env, "new")}
        old, new = nodes["old"], nodes["new"]
        for slot in range(800, 808):
            fill_slot(old, slot, 3000, 300)
        new.follow_slots(old, "800")
        wait_in_sync(old, new, "800")
        old("CONFIG", "SET", "slot-copy-rate", "4mb")
        load = Load(lambda: old, range(800, 808), threads=2, kinds="counted")
        new.follow_slots(old, "801-807")
        for turn in range(3):
            time.sleep(0.4)
            nodes[who].restart()
            if who == "old":
                old("CONFIG", "SET", "slot-copy-rate", "4mb")
        wait_until("copied", copied(new, "800-807"), 60)
        load.stop()
        wait_in_sync(old, new, "800-807")
        assert load.check(old) > 0
        assert_equal(old, new, set(range(800, 808)))


def test_a_reload_on_the_master_does_not_stop_the_other_slots():
    """G2 gets slot 600 copied from G1 while G3 follows 600 and 601 of G2: G3 fetches 600 again, 601 goes on."""
    with Env() as env:
        first, middle, last = Node(env, "first"), Node(env, "middle"), Node(env, "last")
        fill_slot(first, 600, 20000, 1000)
        fill_slot(middle, 601, 500)
        last.follow_slots(middle, "600-601")
        wait_until("copied", copied(last, "600-601"), 60)
        middle("CONFIG", "SET", "slot-copy-rate", "10mb")
        watch = LagWatch(middle, last, 601)
        middle.follow_slots(first, "600")
        wait_in_sync(first, middle, "600")
        wait_until("fetched again", lambda: content(last, {600}) == content(first, {600}), 60)
        worst = watch.stop()
        print("slot 601 lagged at most %.1f ms" % (worst * 1000))
        assert worst < 1.0
        assert_equal(middle, last, {600, 601})


def test_positions_and_replicas_tell_machines_everything():
    with Env() as env:
        old, slots, full = Node(env, "old"), Node(env, "slots"), Node(env, "full")
        fill_slot(old, 50, 2000)
        slots.follow_slots(old, "50-51")
        full("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, slots, "50-51")
        wait_in_sync(old, full)
        end = old.positions("50")[50]
        row = slots("REPLICATION", "POSITIONS", "50")[0]
        assert row[1:3] == [b"slave", end["history"].encode()] and row[3] >= end["seq"]
        assert row[6:] == [old.address.encode(), 0]
        assert old("REPLICATION", "POSITIONS", "50")[0][6:] == [b"-", 0]
        wait_until("acknowledged", lambda: all(_flat(r)["applied"] >= end["seq"] for r in old("REPLICATION", "REPLICAS")), 10)
        rows = [_flat(r) for r in old("REPLICATION", "REPLICAS")]
        by_mode = {r["mode"]: r for r in rows}
        assert by_mode["slots"]["slots"] == "50-51" and by_mode["slots"]["copying"] == "-"
        assert by_mode["full"]["slots"] == "0-1023" and by_mode["full"]["state"] == "online"
        assert by_mode["full"]["port"] == full.port and 0 <= by_mode["full"]["ack_age_ms"] < 5000
        wait_until("synced", lambda: all(_flat(r)["synced"] >= end["seq"] for r in old("REPLICATION", "REPLICAS")), 10)
        assert "copy: slots=2/2,bytes=" in slots("PKCLUSTER", "INFO", "SLOT", "50").decode()


def _flat(row):
    out = {row[i].decode(): row[i + 1] for i in range(0, len(row), 2)}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in out.items()}


def test_WAIT_counts_replicas_that_applied_this_clients_write():
    with Env() as env:
        master, one, two = Node(env, "master"), Node(env, "one"), Node(env, "two")
        client = connect(master.port)
        assert client.execute_command("WAIT", 1, 50) == 0  # nobody there
        for replica in (one, two):
            replica("SLAVEOF", "127.0.0.1", master.port)
        for replica in (one, two):
            wait_in_sync(master, replica)
        for n in range(50):
            client.set("w%d" % n, n)
            begin = time.perf_counter()
            assert client.execute_command("WAIT", 2, 5000) == 2
            assert time.perf_counter() - begin < 4
            assert one.client.get("w%d" % n) == b"%d" % n == two.client.get("w%d" % n)
        two.proc.kill()
        client.set("x", 1)
        begin = time.perf_counter()
        assert client.execute_command("WAIT", 2, 300) == 1
        assert 0.25 < time.perf_counter() - begin < 3
        with pytest.raises(redis.ResponseError, match="timeout is negative"):
            client.execute_command("WAIT", 1, -1)
        with pytest.raises(redis.ResponseError, match="cannot be used with replica"):
            one("WAIT", 1, 1)
        pipe = client.pipeline(transaction=True)  # inside MULTI it does not wait
        pipe.set("y", 1)
        pipe.execute_command("WAIT", 5, 0)
        assert pipe.execute()[1] <= 2
        # A client that waits does not hold up another.
        waiting = connect(master.port)
        waiting.set("z", 1)
        thread = threading.Thread(target=lambda: waiting.execute_command("WAIT", 2, 1000))
        thread.start()
        begin = time.perf_counter()
        client.ping()
        assert time.perf_counter() - begin < 0.9
        thread.join()


def test_WAITAOF_waits_for_disks_here_and_there_and_asks_rather_than_polls():
    with Env() as env:
        master, one = Node(env, "master"), Node(env, "one")
        client = connect(master.port)
        client.set("a", 1)
        assert client.execute_command("WAITAOF", 1, 0, 5000) == [1, 0]
        one("SLAVEOF", "127.0.0.1", master.port)
        wait_in_sync(master, one)
        times = []
        for n in range(20):
            client.set("a", n)
            begin = time.perf_counter()
            assert client.execute_command("WAITAOF", 1, 1, 5000) == [1, 1]
            times.append(time.perf_counter() - begin)
        print("WAITAOF 1 1: median %.1f ms" % (sorted(times)[10] * 1000))
        assert sorted(times)[10] < 0.4  # the replica's own sync is once a second
        one.proc.kill()
        client.set("a", "b")
        assert client.execute_command("WAITAOF", 0, 1, 200)[1] == 0
        with pytest.raises(redis.ResponseError):
            client.execute_command("WAITAOF", 2, 0, 0)


def test_min_replicas_to_write():
    with Env() as env:
        master, one = Node(env, "master", extra=("--min-replicas-to-write", "1")), Node(env, "one")
        client = connect(master.port)
        with pytest.raises(redis.ResponseError, match="^NOREPLICAS Not enough good replicas to write.|Not enough good replicas"):
            client.set("a", 1)
        assert client.get("a") is None
        one("SLAVEOF", "127.0.0.1", master.port)
        wait_until("taken", lambda: _can_write(client), 20)
        assert master.info()["min_slaves_good_slaves"] == "1"
        one.proc.kill()
        wait_until("refused", lambda: not _can_write(client), 20)
        master("CONFIG", "SET", "min-slaves-to-write", "0")
        client.set("a", 3)
        assert master.client.config_get("min-replicas-*") == {"min-replicas-to-write": "0", "min-replicas-max-lag": "10"}


def _can_write(client):
    try:
        return client.set("a", 2)
    except redis.ResponseError as error:
        assert "Not enough good replicas" in str(error)
        return False


# ---- what full replicas know of slots (ADR 0013)


@pytest.mark.parametrize("attached", ["before", "after"])
def test_I1_I3_a_failover_of_the_old_group_keeps_fences_and_epochs(attached):
    """G3 = old + its replica; slots 950-951 go to G4 for good; old dies; the replica takes over."""
    with Env() as env:
        old, new, standby = Node(env, "old"), Node(env, "new"), Node(env, "standby")
        fill_slot(old, 950, 100)
        fill_slot(old, 960, 100)
        if attached == "before":
            standby("SLAVEOF", "127.0.0.1", old.port)
            wait_in_sync(old, standby)
        new.follow_slots(old, "950-951")
        wait_in_sync(old, new, "950-951")
        for epoch in (3, 4):
            for node in (old, new):
                node("PKCLUSTER", "EPOCH", "950-951", "p", epoch)
        end = old.fence("950-951", "p", 4)
        assert new.wait_applied("950-951", end) == 1
        new.promote("950-951", "p", 4, end)
        assert old.permanent("950-951", "p", 4, new) == end
        assert old.positions("950")[950]["seq"] <= end[1]  # its own record is no write of the slot
        fill_slot(old, 960, 120)
        if attached == "after":
            standby("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, standby)
        key = "{%s}k1" % tag_in_cached(950)
        wait_until("fenced there", lambda: standby.positions("950")[950]["fence"] == "permanent", 10)
        with pytest.raises(redis.ResponseError, match="now lives on %s" % new.address):
            standby.client.get(key)
        if attached == "after":  # what it learnt with the copy it keeps
            standby.restart()
        old.proc.kill()
        assert standby("SLAVEOF", "NO", "ONE")
        standby.restart()
        for words in (("GET", key), ("SET", key, "x")):
            with pytest.raises(redis.ResponseError, match="lives on %s" % new.address):
                standby(*words)
        with pytest.raises(redis.ResponseError, match="plan p is at epoch 4"):
            standby("PKCLUSTER", "EPOCH", "950", "p", 3)
        assert standby.client.set("{%s}mine" % tag_in_cached(960), 1)
        assert standby.unfence("950-951", "p", 5) == b"OK"
        assert standby.client.get(key) is not None


def test_I3_a_promoted_slot_keeps_its_mark_over_a_failover():
    """G4 = new + its replica; after the promote and G4's failover the slot can still follow from where it was."""
    with Env() as env:
        old, new, standby = Node(env, "old"), Node(env, "new"), Node(env, "standby")
        fill_slot(old, 955, 100)
        standby("SLAVEOF", "127.0.0.1", new.port)
        wait_in_sync(new, standby)
        new.follow_slots(old, "955")
        wait_in_sync(old, new, "955")
        end = old.fence("955", "p", 1)
        assert new.wait_applied("955", end) == 1
        applied, history, seq = new.promote("955", "p", 1, end)
        assert new("WAIT", 1, 5000) == 1
        new.proc.kill()
        standby("SLAVEOF", "NO", "ONE")
        assert standby.promote("955", "p", 1, end) == (applied, history, seq)  # repeated: done already
        assert_equal(old, standby, {955})
        assert standby.follow("955", "p", 1, old, end) == b"OK"  # taken back, without a copy
        old.unfence("955", "p", 1)
        old.client.set("{%s}later" % tag_in_cached(955), 1)
        wait_in_sync(old, standby, "955")
        assert_equal(old, standby, {955})
        assert "copied_slots=0," in standby.info()["slotferry_link0"]


def test_a_node_that_becomes_a_replica_forgets_its_own_fences():
    with Env() as env:
        one, two = Node(env, "one"), Node(env, "two")
        one.fence("10", "p", 1)
        one.permanent("10", "p", 1, two)
        one("SLAVEOF", "127.0.0.1", two.port)
        wait_in_sync(two, one)
        assert one.positions("10")[10]["fence"] == "no"
        one.restart()
        wait_in_sync(two, one)
        one("SLAVEOF", "NO", "ONE")
        assert one.client.set("{%s}a" % tag_in_cached(10), 1)
        with pytest.raises(redis.ResponseError, match="epoch"):  # what it was told it remembers
            one("PKCLUSTER", "EPOCH", "10", "p", 0)


# ---- the same with breaks


def test_chained_reloads_survive_breaks_between_middle_and_its_replicas():
    """G2 gets slots copied again and again while a full replica and a slot replica of it lose their links at any moment."""
    with Env() as env:
        first, middle, full, some = (Node(env, name) for name in ("first", "middle", "full", "some"))
        for slot in (600, 601, 602):
            fill_slot(first, slot, 3000, 400)
        fill_slot(middle, 603, 500)
        link = TcpLink(env, middle.port)
        full("SLAVEOF", "127.0.0.1", link.port)
        some("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "600-603")
        wait_in_sync(middle, full)
        load = Load(lambda: middle, [603], threads=2, kinds="counted")
        for turn in range(8):
            middle.follow_slots(first, "600-602", "FORCE")
            for _ in range(3):
                time.sleep(0.03 * (turn % 4 + 1))
                link.cut()
            wait_in_sync(first, middle, "600-602")
            wait_until("left", lambda: _no_one(middle, "600-602"))
            middle.client.set("{%s}turn" % tag_in_cached(601), turn)
        load.stop()
        for replica in (full, some):
            wait_in_sync(middle, replica, "600-603")
            assert_equal(middle, replica, {600, 601, 602, 603})
        assert load.check(middle) > 0


def test_R12_slots_come_and_go_over_a_link_that_breaks():
    with Env() as env:
        old, new = Node(env, "old"), Node(env, "new")
        for slot in range(700, 708):
            fill_slot(old, slot, 1500, 300)
        link = TcpLink(env, old.port)
        load = Load(lambda: old, range(700, 708), threads=2, kinds="counted")
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "700")
        for turn in range(10):
            new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "70%d" % (turn % 7 + 1), "FORCE")
            time.sleep(0.02 * (turn % 5))
            link.cut()
            if turn % 3 == 2:
                wait_until("left", lambda: _no_one(new, "70%d" % (turn % 7 + 1)))
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "700-707", "FORCE")
        wait_until("copied", copied(new, "700-707"), 60)
        load.stop()
        wait_in_sync(old, new, "700-707")
        assert load.check(old) > 0
        assert_equal(old, new, set(range(700, 708)))
