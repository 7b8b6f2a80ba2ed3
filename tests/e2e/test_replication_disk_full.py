"""The replica's disk fills up in the middle of replication: the link says so, the master's clients do not notice, and it goes
on by itself when there is space, without a difference."""
import os
import sys

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, wait_until  # noqa: E402
from replica_env import Node, assert_equal, wait_in_sync  # noqa: E402
from small_disk import fill_disk, free_disk, small_disk  # noqa: E402


@pytest.fixture(name="small_disk")
def disk_of_128_mb():
    with small_disk(128) as path:
        yield path


def write(node, megabytes, prefix):
    pipe = node.client.pipeline(transaction=False)
    for n in range(megabytes * 100):
        pipe.set("%s%d" % (prefix, n % 1500), os.urandom(5000).hex())
        if n % 100 == 99:
            assert all(pipe.execute())


def replica_on(env, disk, reserve):
    return Node(env, "replica", extra=("--dir", os.path.join(disk, "d"), "--write-buffer-size", "4mb", "--reserve-size",
                                       reserve, "--wal-spare-size", "0"))


def says_full(replica):
    return "space" in replica.info().get("master_link_error", "").lower()


def link_is_up(replica):
    try:
        return replica.info()["master_link_status"] == "up"
    except redis.ConnectionError:  # it opens its database anew
        return False


@pytest.mark.parametrize("reserve", ["32mb", "0"], ids=["reserve", "rocksdb-hits-the-end"])
def test_R12_the_disk_fills_up_in_the_stream(small_disk, reserve):
    with Env() as env:
        master, replica = Node(env, "master"), replica_on(env, small_disk, reserve)
        replica("SLAVEOF", "127.0.0.1", master.port)
        write(master, 3, "a")
        wait_in_sync(master, replica)
        copied = replica.info()["slotferry_link0"].split("copied_slots=")[1].split(",")[0]
        fill_disk(small_disk, 2 << 20 if reserve == "0" else 24 << 20)
        write(master, 15, "b")  # the master's clients go on
        wait_until("the link says so", lambda: says_full(replica))
        assert replica.client.get("a1") == master.client.get("a1")
        write(master, 2, "c")
        free_disk(small_disk)
        wait_until("the link goes on by itself", lambda: link_is_up(replica))
        wait_in_sync(master, replica)
        assert_equal(master, replica)
        # Resumed where it was; opened anew (ADR 0015) it counts from 0.
        assert "copied_slots=%s," % (0 if reserve == "0" else copied) in replica.info()["slotferry_link0"]
        replica.restart()
        wait_in_sync(master, replica)
        assert_equal(master, replica)


def test_the_disk_fills_up_in_the_copy(small_disk):
    with Env() as env:
        master, replica = Node(env, "master"), replica_on(env, small_disk, "32mb")
        write(master, 15, "a")
        fill_disk(small_disk, 20 << 20)
        replica("SLAVEOF", "127.0.0.1", master.port)
        wait_until("the link says so", lambda: says_full(replica))
        free_disk(small_disk)
        wait_in_sync(master, replica)
        assert_equal(master, replica)
