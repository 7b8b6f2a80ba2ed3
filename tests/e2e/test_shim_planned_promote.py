"""A promote in the dashboard while the former master lives (ADR 0022): Codis tells the new one and the proxies, not the former one, which
goes on acknowledging what the shim sends until the shim has noticed. Nothing of that is lost without the operator's word."""
import os
import sys

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from failover_env import Failover  # noqa: E402
from ferry_env import Env, connect, wait_until  # noqa: E402
from old_redis_env import REAL  # noqa: E402
from shim_env import keys_in  # noqa: E402

KINDS = ["node", "redis", "pika"]


def check_values(writer, port):
    client = connect(port, decode_responses=True)
    lost = [(key, client.get(key), writer.acked[key]) for key in writer.keys
            if int(client.get(key) or 0) != writer.acked[key] and int(client.get(key) or 0) not in writer.maybe[key]]
    assert not lost and not writer.stale, (lost[:5], writer.stale[:5])


def promoted_under_writes(world, side="old"):
    """The writer of a shim whose group has got another first server, with writes that only the former master has."""
    writer = world.writer("w")
    wait_until("writes", lambda: writer.writes > 30)
    world.promote(side)
    wait_until("the shim stops writes", lambda: "writes to slot" in (writer.errors or [""])[-1])
    return writer


def reload_refused(world, side="old"):
    with pytest.raises(redis.ResponseError) as e:
        world.reload(side)
    return str(e.value)


@pytest.mark.parametrize("kind", KINDS)
def test_I2_what_only_the_former_master_has_is_not_given_up(kind):
    with Env() as env:
        world = Failover(env, kind)
        writer = promoted_under_writes(world)
        text = reload_refused(world)
        assert "the former master" in text and "has not" in text and "SHIM RELOAD LOSE" in text, text
        assert world.shim.status()["old"] == world.gates["old"].address
        # The way out that loses nothing: the former master is the first again, and writes go on.
        world.shim.write_plan(old=world.side("old", world.gates["old"].address))
        world.api.put("group/promote", 3, world.gates["old"].address)
        count = writer.writes
        wait_until("writes go on", lambda: writer.writes > count + 20)
        # And the promote as it should be done: nothing is written to the one that goes, and its slave has everything.
        world._follow(world.old_slave, world.gates["old"].port)
        world.shim.ask("FREEZE", "OLD")
        with pytest.raises(redis.ResponseError, match="writes to slot"):
            connect(world.shim.port).set(writer.keys[0], "x")
        world.replicated("old")
        world.promote("old")
        assert "has not" not in world.reload("old")
        count = writer.writes
        wait_until("writes go on", lambda: writer.writes > count + 20)
        writer.stop()
        check_values(writer, world.old_slave.port)
        check_values(writer, world.shim.port)


@pytest.mark.parametrize("kind", KINDS)
def test_the_operator_may_give_it_up(kind):
    with Env() as env:
        world = Failover(env, kind)
        writer = promoted_under_writes(world)
        writer.stop()
        assert "has not" in reload_refused(world)
        assert "has not" in world.reload("old", "LOSE")
        assert not world.refusal(writer.keys[0])
        assert [line["text"] for line in world.shim.audit() if line["what"] == "successor compared"]


@pytest.mark.parametrize("kind", KINDS)
def test_I2_a_start_with_adopt_compares_too(kind):
    with Env() as env:
        world = Failover(env, kind)
        writer = promoted_under_writes(world)
        writer.stop()
        world.stop_shim()
        former, successor = (world.side("old", s.address) for s in (world.gates["old"], world.old_slave))
        world.shim.write_plan(old=successor)
        with pytest.raises(AssertionError) as e:
            world.start_shim("--adopt")
        for part in ("the former master " + world.gates["old"].address, "has not", "first server again", "--adopt-lose"):
            assert part in str(e.value), str(e.value)[-600:]
        # The record is as it was: with the former master as the first again, a plain start serves, and nothing is lost.
        world.shim.write_plan(old=former)
        world.api.put("group/promote", 3, world.gates["old"].address)
        world.start_shim()
        assert not world.refusal(writer.keys[0], writer.acked[writer.keys[0]])
        check_values(writer, world.shim.port)
        # Or the operator gives it up.
        world.stop_shim()
        world.promote("old", noticed=False)
        world.shim.write_plan(old=successor)
        world.start_shim("--adopt-lose")
        assert world.shim.status()["old"] == world.old_slave.address
        assert "has not" in [line["text"] for line in world.shim.audit() if line["what"] == "successor compared"][-1]
        assert not world.refusal(writer.keys[0])
        world.stop_shim()
        world.start_shim()  # and is not asked again


@pytest.mark.parametrize("kind", ["node", "redis"])
def test_I2_a_start_with_adopt_compares_the_new_group_after_the_switch(kind):
    with Env() as env:
        world = Failover(env, kind)
        world.stand("NEW")
        promoted_under_writes(world, "new").stop()
        world.stop_shim()
        world.shim.write_plan(new=world.side("new", world.new_slave.address))
        with pytest.raises(AssertionError, match="has not"):
            world.start_shim("--adopt")
        world.start_shim("--adopt-lose")
        assert set(world.shim.states(world.cut).values()) == {"NEW"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_planned_promote_with_the_shim_stopped_is_adopted_without_a_word(kind):
    with Env() as env:
        world = Failover(env, kind)
        world.refusal(keys_in(world.first, world.last, 1)[0])
        world.stop_shim()
        world.replicated("old")
        world.promote("old", noticed=False)
        world.shim.write_plan(old=world.side("old", world.old_slave.address))
        world.start_shim("--adopt")
        assert not world.refusal(keys_in(world.first, world.last, 1)[0])
        assert not [line for line in world.shim.audit() if line["what"] == "successor compared"]


@pytest.mark.parametrize("kind", ["node", "redis"])
def test_I2_the_same_for_the_new_group_after_the_switch(kind):
    with Env() as env:
        world = Failover(env, kind)
        world.stand("NEW")
        writer = promoted_under_writes(world, "new")
        assert "has not" in reload_refused(world, "new")
        world.shim.write_plan(new=world.side("new", world.gates["new"].address))
        world.api.put("group/promote", 4, world.gates["new"].address)
        count = writer.writes
        wait_until("writes go on", lambda: writer.writes > count + 20)
        writer.stop()
        check_values(writer, world.new.port)


@pytest.mark.parametrize("kind", KINDS)
def test_a_former_master_that_is_gone_is_said_to_be(kind):
    with Env() as env:
        world = Failover(env, kind)
        world.refusal(keys_in(world.first, world.last, 1)[0])
        world.replicated("old")
        world.gates["old"].kill()
        world.promote("old")
        assert "does not answer" in world.reload("old")


@pytest.mark.skipif(REAL is not None, reason="a real one knows no relay")
def test_before_replication_ids_a_planned_promote_takes_the_operators_word():
    with Env() as env:
        world = Failover(env, "old-redis")
        writer = world.writer("w")
        wait_until("writes", lambda: writer.writes > 30)
        world.shim.ask("FREEZE", "OLD")
        writer.stop()
        world.replicated("old")
        world.promote("old")
        text = reload_refused(world)
        assert "no replication ids" in text and "SHIM RELOAD LOSE" in text, text
        assert world.refusal(writer.keys[0])
        world.reload("old", "LOSE")
        assert not world.refusal("other:1{%s}" % writer.keys[0]), world.shim.rows()[:1]
        check_values(writer, world.old_slave.port)


def test_a_frozen_side_starts_no_cutover_and_is_let_go(kind="node"):
    with Env() as env:
        world = Failover(env, kind)
        key = keys_in(world.first, world.last, 1)[0]
        world.shim.ask("FREEZE", "old")
        assert "writes to slot" in world.refusal(key)
        assert {row[1] for row in world.shim.cutover(world.cut)} == {"OLD"}
        world.shim.ask("FREEZE", "old", "OFF")
        assert not world.refusal(key)
        for words in (("FREEZE",), ("FREEZE", "both"), ("FREEZE", "old", "ON")):
            with pytest.raises(redis.ResponseError, match="usage"):
                world.shim.ask(*words)
