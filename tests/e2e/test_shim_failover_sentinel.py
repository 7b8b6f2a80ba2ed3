"""DESIGN 6.6 with real sentinels (ADR 0024): a redis-sentinel watches the group whose master dies in each state of the unit, promotes its
slave, the dashboard takes that over, and the dead master comes back and is made a replica. The cells are those of
test_shim_failover_states, with its checks; several at a time, for they wait more than they work."""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from failover_env import SLOTS, Failover  # noqa: E402
from ferry_env import Env, connect, wait_until  # noqa: E402
from sentinel import Sentinel  # noqa: E402
from shim_env import keys_in  # noqa: E402
from test_shim_failover_states import CELLS, a_master_dies, check_values, owner_after  # noqa: E402

AT_ONCE = 8


class Watched(Failover):
    """`side`: the group that is watched, or None for none yet."""

    def __init__(self, env, kind, side=None, hidden=True):
        self.hidden = hidden
        super().__init__(env, kind)
        self.sentinel = None
        if side is not None:
            self.watch(side)

    def _attach(self):
        if self.kind == "redis" and self.hidden:  # as the migrator does it
            self.ask(self.new, "CONFIG", "SET", "replica-announce-port", 1)
        super()._attach()

    def watch(self, side):
        self.sentinel = Sentinel(self.env, "sentinel", self.gates[side], 1, down_after_ms=800)
        slave = self.slave_of(side)
        # It selects by what the slave last said of itself: link and priority.
        wait_until("the sentinel knows the slave", lambda: [r for r in self.sentinel.known("REPLICAS")
                                                            if int(r["port"]) == slave.port and r["master-link-status"] == "ok"])

    def stand(self, state):
        super().stand(state)
        if self.sentinel is None:
            self.watch("new")

    def promote(self, side, noticed=True):
        """By the sentinel. Codis's dashboard hears of it and makes that server the group's first."""
        slave = self.slave_of(side)
        wait_until("failover", lambda: self.sentinel.master_port() == slave.port, 40)
        super().promote(side, noticed)

    def come_back(self, side):
        self.gates[side].revive()
        slave = self.slave_of(side)

        def says():
            client = connect(self.gates[side].port)
            client.set_response_callback("INFO", lambda reply, **_: reply.decode())
            try:
                text = client.execute_command("INFO", "replication")
            except (redis.RedisError, OSError):
                text = ""  # the sentinel ends its clients at that moment
            return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

        def follows():
            said = says()
            return (said.get("role"), said.get("master_port"), said.get("master_link_status")) == ("slave", str(slave.port), "up")
        # A node that follows slots of another group is made nobody's replica as a whole before it is told that they do not count.
        if self.kind == "node":
            wait_until("its slots are known", says)
            followed = [row[0] for row in self.ask(side, "REPLICATION", "POSITIONS", SLOTS) if row[1] == "slave"]
            if followed and not says()["role"] == "slave":
                with pytest.raises(redis.ResponseError, match="follow another master here"):
                    self.ask(side, "SLAVEOF", "127.0.0.1", slave.port)
                self.ask(side, "PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", ",".join(map(str, followed)))
        wait_until("the dead master is a replica", follows, 20)


def run_cells(cells):
    """All of `cells`; which failed, and how."""
    def one(cell):
        kind, state, side = cell
        try:
            with Env() as env:
                early = kind == "node" or side == "old"
                a_master_dies(Watched(env, kind, side if early else None), *cell, slack_s=6)
        except BaseException as e:  # noqa: B902, told with its cell
            return "%s-%s-%s: %s: %s" % (*cell, type(e).__name__, str(e)[-1500:])
        return None
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [text for text in pool.map(one, cells) if text]
    assert not failed, "\n".join(failed)


def test_I1_I3_a_sentinel_replaces_a_master_that_dies_in_each_state():
    # A new Redis that still is a replica must not be watched (below).
    run_cells([(kind, state, side) for kind, state, side in CELLS
               if kind == "node" or kind == "redis" and (side == "old" or owner_after(state) == "new")])


def test_I3_the_old_groups_sentinel_that_knows_the_new_redis_would_take_it_back_and_is_refused():
    with Env() as env:
        world = Watched(env, "redis", "old", hidden=False)
        wait_until("it knows the new one too", lambda: str(world.new.port) in [r["port"] for r in world.sentinel.known("REPLICAS")])
        (row,) = world.shim.cutover(world.cut)
        assert row[1] == "OLD" and "watched by sentinels" in row[4] and "docs/RUNBOOK.md" in row[4], row
        # The runbook's way out.
        world.ask(world.new, "CONFIG", "SET", "replica-announce-port", 1)
        world.ask(world.new, "CLIENT", "KILL", "TYPE", "master")
        wait_until("announced", lambda: str(world.new.port) not in str(world.ask("old", "INFO", "replication")))
        world.sentinel("SENTINEL", "RESET", "m")
        writer = world.writer("w")
        wait_until("cut over", lambda: {r[1] for r in world.shim.cutover(world.cut)} == {"NEW"}, 30, 0.2)
        # Four publish periods after a replica became a master, a sentinel that knows it makes it one again: here 2 s.
        told = len(open(env.path("sentinel.log")).read())
        count = writer.writes
        wait_until("writes go on", lambda: writer.writes > count + 500, 30)
        log = open(env.path("sentinel.log")).read()
        assert "convert-to-slave" not in log, log[told:]
        assert world.ask("new", "INFO", "replication")["role"] == "master"
        writer.stop()
        assert not writer.errors
        check_values(world, writer, world.new.port)


def test_I3_the_new_groups_sentinel_is_refused_before_the_switch():
    with Env() as env:
        world = Watched(env, "redis")
        Sentinel(env, "early", world.gates["new"], 1, down_after_ms=60000)
        (row,) = world.shim.cutover(world.cut)
        assert row[1] == "OLD" and "watched by sentinels" in row[4], row
        with pytest.raises(redis.RedisError):
            connect(world.new.port).set(keys_in(world.first, world.last, 1)[0], "a replica takes no writes")
