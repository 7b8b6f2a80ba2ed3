"""DESIGN 6.6, state by state: the old or the new group's master dies while the unit stands exactly in OLD, HOLD, BARRIER, PROMOTE (before
the owner record), NEW or FINAL; Codis promotes its slave. Each cell of the table in docs/RUNBOOK.md is one test: what the shim does by
itself, where the unit is after SHIM RELOAD, and that every write acknowledged and replicated is there. (What counts: failover_env.)"""
import os
import signal
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from failover_env import BOUND_MS, STOPS, Failover  # noqa: E402
from ferry_env import Env, connect, wait_until  # noqa: E402
from old_redis_env import REAL  # noqa: E402
from shim_env import keys_in  # noqa: E402

KINDS = {kind: stops for kind, stops in STOPS.items() if kind != "old-redis" or not REAL}  # a real one knows no relay
CELLS = [(kind, state, side) for kind, stops in KINDS.items() for state in ["OLD", *stops, "NEW", "FINAL"]
         for side in ("old", "new")]
# The old side's end is final and proved by then: the attempt may go on without it, if the monitor does not take it back first.
SEALED = ("PROMOTE, not promoted", "PROMOTE, promoted")


def owner_after(state):
    return "new" if state.startswith(("NEW", "FINAL")) else "old"


def decided(world):
    states = set(world.shim.states(world.cut).values())
    return not states & {"HOLD", "BARRIER", "PROMOTE"} and states


def check_values(world, writer, port):
    """After the end: the owner has what was acknowledged. A write answered with an error may have happened."""
    client = connect(port, decode_responses=True)
    lost = []
    for key in writer.keys:
        got = int(client.get(key) or 0)
        if got != writer.acked[key] and got not in writer.maybe[key]:
            lost.append((key, got, writer.acked[key], sorted(writer.maybe[key])))
    assert not lost, lost[:5]
    assert not writer.stale, writer.stale[:5]


@pytest.mark.parametrize("state", ["HOLD", "BARRIER, not applied", "PROMOTE, not promoted"])
def test_I3_SIGTERM_inside_a_hold_takes_the_attempt_back_and_loses_no_request(state):
    with Env() as env:
        world = Failover(env, "node")
        before = world.writer("before")
        wait_until("writes", lambda: before.writes > 30)
        world.stand(state)
        key, client, answers = keys_in(950, 950, 1, "late")[0], connect(world.shim.port, timeout=20), []
        late = threading.Thread(target=lambda: answers.append(client.set(key, "late")))
        late.start()
        wait_until("the late write is held", lambda: world.shim.status()["held"] >= 2)
        world.shim.proc.popen.send_signal(signal.SIGTERM)
        if state == "HOLD":  # its write is answered while the shim waits for what is in flight
            wait_until("taken back", lambda: world.shim.audit()[-1]["what"] == "cutover ended")
            world.release()
        late.join(20)
        assert answers == [True]
        assert world.shim.proc.popen.wait(20) == 0
        world.release()
        ended = [line for line in world.shim.audit() if line["what"] == "cutover ended"]
        assert [line["state"] for line in ended] == ["OLD"] and "the shim stops" in ended[0]["text"], ended
        before.stop()
        world.shim.admin.connection_pool.disconnect()
        world.start_shim()
        assert set(world.shim.states().values()) == {"OLD"}
        assert world.ask("old", "GET", key) == "late" and world.refusal(key) == ""
        check_values(world, before, world.shim.port)


@pytest.mark.parametrize("kind,state,side", CELLS, ids=["%s-%s-%s" % cell for cell in CELLS])
def test_I1_I3_a_master_dies_in(kind, state, side):
    with Env() as env:
        a_master_dies(Failover(env, kind), kind, state, side)


def a_master_dies(world, kind, state, side, slack_s=1.5):
    """`world` promotes the slave in its way."""
    owner = owner_after(state)
    before = world.writer("before")
    wait_until("writes", lambda: before.writes > 30)
    if state in ("OLD", "NEW", "FINAL"):
        before.stop()
    world.stand(state)
    # Nothing more is acknowledged now, but where the unit is open for writes already.
    if state == "NEW, not linked":
        before.stop()
    if side == owner and not (world.is_pika and state == "NEW, not marked"):
        world.replicated(side)
    start = time.monotonic()
    world.gates[side].kill()
    world.release()
    wait_until("decided", lambda: decided(world), BOUND_MS / 1000 + 5)
    assert time.monotonic() - start < BOUND_MS / 1000 + slack_s
    states = set(world.shim.states(world.cut).values())
    if (kind, side) == ("node", "old") and state in SEALED and states == {"NEW"}:
        owner = "new"
    assert states == {"OLD" if owner == "old" else "FINAL" if state == "FINAL" else "NEW"}, (states, world.shim.rows(world.cut))
    key = keys_in(world.first, world.last, 1, "probe")[0]
    if owner != side and state != "NEW, not marked":
        assert not world.refusal(key)  # serving, before anybody does anything
    if not before.end.is_set():
        before.stop()
    if world.is_pika and side == "new" and owner == "old":
        return  # its group has no slave before the switch; a new server is a new copy
    if state == "NEW, not marked" and world.is_pika and side == "new":
        return
    world.promote(side)
    said = world.reload(side)
    assert world.masters[side].address in said
    after = set(world.shim.states(world.cut).values())
    if state == "NEW, not marked" and side == "new":
        assert after == {"DOUBT"}, after  # it is not known to have everything: the old side has
        assert "marker" in world.shim.rows(world.cut)[0][7]
        assert "doubt" in world.refusal(key)
        return
    assert after == states, (after, world.shim.rows(world.cut)[:2])
    if world.is_pika and (state, side) == ("PROMOTE, promoted", "old"):
        # A Pika sees no fork: what left one master is not sent after another, which may lack what that one had.
        assert world.is_master("new")
    assert not world.refusal(key, "after"), world.shim.rows(world.cut)[:2]
    if world.by_slot:  # a slot that is still the old side's
        assert not world.refusal(keys_in(960, 960, 1, "other")[0]), world.shim.rows("960")
    check_values(world, before, world.masters[owner].port)
    other = "old" if owner == "new" else "new"
    # Nobody closes what stands alone: a promoted server of the new group before it follows again, and a server of the old one
    # that became its master after FINAL (no proxy is mapped there any more).
    # Pika has nothing to close it with (ADR 0016).
    alone = world.is_pika or owner == "old" and (side == "new" or state in SEALED) or state == "FINAL" and kind != "node"
    if not alone:
        with pytest.raises(redis.RedisError):
            world.ask(world.masters[other], "SET", key, "at the wrong side")
    after = world.writer("after")
    wait_until("writes go on", lambda: after.writes > 30)
    if owner == "old" and not (kind == "pika-sharding" and state.startswith(("HOLD", "BARRIER"))):  # (as after OLD)
        world.follow_successor(side)
        cut = lambda: {row[1] for row in world.shim.cutover(world.cut)} == {"NEW"}  # noqa: E731
        wait_until("cut over from there", cut, 30, 0.2)
        owner = "new"
    after.stop()
    assert not after.errors, after.errors[:3]
    world.come_back(side)
    for writer in (before, after):
        check_values(world, writer, world.masters[owner].port)
        check_values(world, writer, world.shim.port)
