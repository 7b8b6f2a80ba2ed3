"""Clocks that jump: the wall clock of one node is moved while the test runs (time that only passes is left alone). Expiry is decided by the master's time; nothing is lost and nothing comes back.
"""
import os
import struct
import sys
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, program, wait_until  # noqa: E402
from replica_env import Node, assert_equal, content, tag_in_cached, wait_in_sync  # noqa: E402
from tcp_link import TcpLink  # noqa: E402

LIBRARY = program("jumping_clock.so")
DAY = 86400
JUMPS = (5, -5, DAY, -DAY)


class ClockedNode(Node):
    """A node whose wall clock set_clock() moves, in seconds from the true one."""

    def __init__(self, env, name, **kw):
        super().__init__(env, name, **kw)
        self.proc.stop()
        self.offset_file = env.path(name + ".offset")
        with open(self.offset_file, "wb") as f:
            f.write(bytes(8))
        self.proc.argv = ["env", "LD_PRELOAD=" + LIBRARY, "JUMPING_CLOCK_FILE=" + self.offset_file, *self.proc.argv]
        self.proc.start()

    def set_clock(self, offset):
        with open(self.offset_file, "r+b") as f:
            f.write(struct.pack("<q", offset * 1000))
        assert abs(self("TIME")[0] - time.time() - offset) < 2


def fill(node, count=160, slots=range(1024), prefix="f"):
    """Keys of all types; a third without a time to live, a third with one of an hour, a third with one of two days."""
    slots = list(slots)
    pipe = node.client.pipeline(transaction=False)
    for n in range(count):
        key = "{%s}%s%d" % (tag_in_cached(slots[n % len(slots)]), prefix, n)
        if n % 4 == 0:
            pipe.set(key, n)
        elif n % 4 == 1:
            pipe.hset(key, mapping={"a": n, "b": 1})
        elif n % 4 == 2:
            pipe.rpush(key, 1, 2, n)
        else:
            pipe.zadd(key, {"m": n})
        if n % 3:
            pipe.pexpire(key, (3600 if n % 3 == 1 else 2 * DAY) * 1000)
    pipe.execute()


def hour_keys(node):
    return sum(1 for _, _, expiry in content(node).values() if time.time() + 1800 < expiry / 1000 < time.time() + DAY)


@pytest.mark.parametrize("jump", JUMPS)
def test_the_replicas_clock_jumps_in_the_copy_and_in_the_stream(jump):
    with Env() as env:
        old, new = Node(env, "old"), ClockedNode(env, "new")
        fill(old, 240)
        link = TcpLink(env, old.port)
        link.rate = 200_000
        new("SLAVEOF", "127.0.0.1", link.port)
        wait_until("copying", lambda: "state=copying" in new.info().get("slotferry_link0", ""))
        new.set_clock(jump)
        link.rate = None
        wait_in_sync(old, new)
        assert assert_equal(old, new) == 240
        new.set_clock(-jump)
        fill(old, 90, prefix="g")
        old.client.set("soon", 1, px=900)
        wait_in_sync(old, new)
        new.set_clock(jump)
        assert new.client.get("soon") == old.client.get("soon")
        wait_until("gone there", lambda: old.client.get("soon") is None)
        wait_until("gone here", lambda: new.client.get("soon") is None, 3)
        old.client.incr("{t}last")  # the time of the log's end, which a restart goes on from
        wait_in_sync(old, new)
        assert assert_equal(old, new) == 331
        # Restarted under a wrong clock, with and without a master to tell the time.
        link.refusing = True
        link.cut()
        new.restart()
        assert len(content(new)) == 331
        link.refusing = False
        wait_in_sync(old, new)
        assert assert_equal(old, new) == 331


@pytest.mark.parametrize("jump", JUMPS)
def test_the_masters_clock_jumps_in_the_stream(jump):
    with Env() as env:
        old, new = ClockedNode(env, "old"), Node(env, "new")
        fill(old)
        old.client.set("three", 1, px=3000)
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        before = hour_keys(old)
        assert before > 40
        old.set_clock(jump)
        old.client.set("after", 1)
        wait_in_sync(old, new)
        left = hour_keys(old)
        assert left == (0 if jump > 3600 else before)  # its time decides
        wait_until("the same here", lambda: content(old) == content(new), 4)
        # Set right again: what was gone is gone, on both; what is set now lives as long as it should, on both.
        old.set_clock(0)
        old.client.set("brief", 1, px=700)
        old.client.hset("hash", "a", 1)
        old.client.pexpire("hash", 60_000)
        wait_in_sync(old, new)
        assert (old.client.get("brief"), new.client.get("brief")) == (b"1", b"1")
        begin = time.monotonic()
        wait_until("brief ends", lambda: old.client.get("brief") is None, 3)
        assert time.monotonic() - begin < 2
        wait_until("here too", lambda: new.client.get("brief") is None, 3)
        wait_until("three ends", lambda: old.client.get("three") is None, 4)
        wait_until("here too", lambda: new.client.get("three") is None, 3)
        assert hour_keys(old) == left and old.client.hget("hash", "a") == b"1"
        wait_until("the same", lambda: content(old) == content(new), 4)
        # And after a crash under the right clock: time goes on from the log's end.
        old.client.set("last", 1)
        old.restart()
        assert hour_keys(old) == left
        wait_in_sync(old, new)
        wait_until("the same", lambda: content(old) == content(new), 4)


@pytest.mark.parametrize("jump", (DAY, -DAY))
def test_the_masters_clock_jumps_in_the_copy(jump):
    with Env() as env:
        old, new = ClockedNode(env, "old"), Node(env, "new")
        fill(old, 240)
        link = TcpLink(env, old.port)
        link.rate = 200_000
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", link.port, "all")
        wait_until("copying", lambda: "state=copying" in new.info().get("slotferry_link0", ""))
        old.set_clock(jump)
        link.rate = None
        wait_in_sync(old, new)
        old.client.set("one", 1)
        wait_in_sync(old, new)
        wait_until("the same", lambda: content(old) == content(new), 4)
        assert len(content(old)) == (161 if jump > 0 else 241)


@pytest.mark.parametrize("jump", JUMPS)
def test_I2_a_slot_is_not_promoted_where_the_clock_differs_from_the_masters(jump):
    with Env() as env:
        old, new = Node(env, "old"), ClockedNode(env, "new")
        slots, text = range(900, 910), "900-909"
        fill(old, 120, slots)
        new("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", old.port, text)
        wait_in_sync(old, new, text)
        new.set_clock(jump)
        if jump < 0:
            new.restart()  # what runs goes on in its own pace; only a start takes the clock's word
            wait_until("up", lambda: new.positions(text)[900]["link"] == "up")
            wait_in_sync(old, new, text)
        end = old.fence(text, "p", 1)
        assert new.wait_applied(text, end) == 1
        with pytest.raises(redis.ResponseError, match="clock is [0-9.]+ s %s" % ("ahead" if jump > 0 else "behind")):
            new.promote(text, "p", 1, end)
        old.unfence(text, "p", 1)
        new.set_clock(0)
        end = old.fence(text, "p", 2)
        assert new.wait_applied(text, end) == 1
        applied, history, seq = new.promote(text, "p", 2, end)
        old.permanent(text, "p", 2, new)
        assert_equal(old, new, slots)
        # From here the new node's time counts; the old one follows, and its clock jumps.
        old.follow(text, "p", 2, new, (history, seq))
        key = "{%s}k" % tag_in_cached(900)
        new.client.set(key, 1, px=600)
        wait_in_sync(new, old, text)
        new.set_clock(jump if abs(jump) < 10 else -DAY)
        wait_until("ends in time", lambda: new.client.get(key) is None, 3)
        wait_until("here too", lambda: content(old, slots) == content(new, slots), 4)
        assert len(content(new, slots)) == 120


@pytest.mark.parametrize("jump", JUMPS)
def test_the_promoted_nodes_clock_goes_on_where_the_masters_was(jump):
    """SLAVEOF NO ONE, which a sentinel sends and nobody can refuse: time never goes back, and does not stand still."""
    with Env() as env:
        old, new = Node(env, "old"), ClockedNode(env, "new")
        fill(old)
        old.client.set("gone", 1, px=300)
        new("SLAVEOF", "127.0.0.1", old.port)
        wait_in_sync(old, new)
        new.set_clock(jump)
        wait_until("gone", lambda: old.client.get("gone") is None)
        wait_until("gone here", lambda: new.client.get("gone") is None, 3)
        before = hour_keys(new)
        new("SLAVEOF", "NO", "ONE")
        assert new.client.get("gone") is None
        assert hour_keys(new) == (0 if jump > 3600 else before)
        new.client.set("brief", 1, px=700)
        old("SLAVEOF", "127.0.0.1", new.port)
        wait_in_sync(new, old)
        wait_until("brief ends", lambda: new.client.get("brief") is None, 3)
        wait_until("here too", lambda: old.client.get("brief") is None, 3)
        wait_until("the same", lambda: content(new) == content(old), 4)
        left = hour_keys(new)
        new.client.set("last", 1)
        new.set_clock(0)
        new.restart()
        wait_in_sync(new, old)
        assert new.client.get("gone") is None and hour_keys(new) == left
        wait_until("the same", lambda: content(new) == content(old), 4)
        if jump > 0:
            assert "s ahead of the master's" in new.proc.tail(200)
