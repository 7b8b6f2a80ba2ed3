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
