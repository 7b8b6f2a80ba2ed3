"""A group's master is replaced while slots move (DESIGN 6.6), with real nodes and the stand-in's dashboard: the shim notices by
itself, stops that side's writes, says what to do, and goes on with the successor after SHIM RELOAD. Nothing acknowledged and passed
on to the successor is lost, and a replaced master that comes back gets nothing. (Reloading itself: test_shim_reload.)"""
import json
import os
import signal
import socket
import sys
import time

import pytest
import redis

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

from ferry_env import Env, connect, wait_until  # noqa: E402
from move_env import Move  # noqa: E402
from shim_env import Permit, Shim, Writer, follow_redis, keys_in, slot_of  # noqa: E402

SLOTS = "901-1023"
STOPPED = "writes to slot"


@pytest.fixture
def env():
    with Env() as made:
        yield made


def attached(env, cut=None):
    move = Move(env, keys=300)
    run = move("run", "--until", "attach")
    assert run.code == 0, run
    if cut:
        move.admin("PERMIT", SLOTS)
        move.admin("CUTOVER", cut)
        assert set(states(move, cut).values()) == {"NEW"}
    return move


def states(move, slots=SLOTS):
    return {row[0]: row[1].decode() for row in move.admin("SLOTS", slots)}


def status(move):
    flat = move.admin("STATUS")
    return {k.decode(): v.decode() if isinstance(v, bytes) else v for k, v in zip(flat[::2], flat[1::2])}


def refusal(move, key, value="probe"):
    """The error text of a write through the shim, or "" if it is taken."""
    try:
        connect(move.shim_port).set(key, value)
        return ""
    except redis.RedisError as e:
        return str(e) or "error"


def in_sync(slave, master):
    """Everything the master acknowledged is at its slave: what is lost otherwise is the group's own affair."""
    def rows(node):
        found = connect(node.port, decode_responses=True).execute_command("REPLICATION", "POSITIONS", "801-1023")
        return {row[0]: row for row in found}

    def look():
        theirs = rows(slave)
        return all(theirs[slot][3] >= row[3] for slot, row in rows(master).items() if row[1] == "master")
    wait_until("the slave has everything", look)


def audit(move):
    with open(move.env.path("shim", "audit.jsonl")) as f:
        return [json.loads(line) for line in f]


def told(move):
    return [e["text"] for e in audit(move) if e["what"] == "first server changed"]


def fail_over(move, group, dead, successor, key, revive=False):
    """The master dies; the dashboard promotes its slave. `key` is of that side. With `revive` the dead one comes back while the key
    is being written, and takes itself for the master it was."""
    in_sync(successor, dead)
    dead.kill()
    move.cluster.api.put("group/promote", group, successor.address)
    if revive:
        dead.start()
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert refusal(move, key, "stray")
        assert connect(dead.port).get(key) != b"stray"
    wait_until("noticed and stopped", lambda: STOPPED in refusal(move, key))
    assert successor.address in told(move)[-1] and "SHIM RELOAD" in told(move)[-1]


def reload(move, side, successor):
    with open(move.plan) as f:
        part = json.load(f)[side]
    part["master"] = successor.address
    move.edit_plan(**{side: part})
    return move.admin("RELOAD")


def test_I1_old_master_replaced_in_OLD_gets_nothing_more(env):
    move = attached(env)
    key = keys_in(950, 950, 1)[0]
    writer = Writer(move.shim_port, keys_in(901, 1023, 10, "f"), "f")
    wait_until("writes", lambda: writer.writes > 50)
    writer.stop()
    old, successor = move.cluster.g3, move.cluster.g3_slave
    fail_over(move, 3, old, successor, key, revive=True)
    move.admin("PERMIT", SLOTS)
    assert {(row[1], b"a master is not what it was" in row[4]) for row in move.admin("CUTOVER", "950")} == {(b"OLD", True)}
    reload(move, "old", successor)
    assert not refusal(move, key)
    assert connect(successor.port).get(key) == b"probe" and status(move)["old"] == successor.address
    writer.check(successor.port)
    # The copy is the dead master's: nothing is cut over before the new group follows the successor.
    move.admin("PERMIT", SLOTS)
    for row in move.admin("CUTOVER", "950"):
        assert row[1] == b"OLD" and b"not in sync" in row[4], row
    connect(move.cluster.g4.port).execute_command("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", successor.port, SLOTS)

    def cut():
        move.admin("PERMIT", SLOTS)
        return move.admin("CUTOVER", "950")[0][1] == b"NEW"
    wait_until("cut over from the successor", cut, 30)
    assert connect(move.cluster.g4.port).get(key) == b"probe"


def test_I1_new_master_replaced_in_NEW_gets_nothing_more(env):
    move = attached(env, cut="950-960")
    writer = Writer(move.shim_port, keys_in(950, 960, 10, "n"), "n")
    wait_until("writes", lambda: writer.writes > 50)
    writer.stop()
    new, successor = move.cluster.g4, move.cluster.g4_slave
    key = keys_in(950, 950, 1)[0]
    fail_over(move, 4, new, successor, key, revive=True)
    assert not refusal(move, keys_in(901, 949, 1)[0])  # the other side's slots do not care
    reload(move, "new", successor)
    assert not refusal(move, key)
    assert connect(successor.port).get(key) == b"probe"
    writer.check(successor.port)
    after = states(move)
    assert {after[s] for s in range(950, 961)} == {"NEW"} and {after[s] for s in range(901, 950)} == {"OLD"}


def test_I1_old_master_replaced_after_the_switch_loses_only_the_way_back(env):
    """Slots 950-960 are NEW: the successor of the old group has a copy of them, and is closed for it."""
    move = attached(env, cut="950-960")
    new_key, old_key = keys_in(950, 960, 1)[0], keys_in(901, 949, 1)[0]
    assert not refusal(move, new_key)
    fail_over(move, 3, move.cluster.g3, move.cluster.g3_slave, old_key)
    assert not refusal(move, new_key)  # not of that side
    reload(move, "old", move.cluster.g3_slave)
    assert not refusal(move, old_key) and not refusal(move, new_key)
    with pytest.raises(redis.RedisError):
        connect(move.cluster.g3_slave.port).set(new_key, "late")
    assert set(states(move, "950-960").values()) == {"NEW"}


def test_a_first_server_that_is_ours_again_and_a_dashboard_that_is_gone(env):
    move = attached(env)
    key = keys_in(950, 950, 1)[0]
    in_sync(move.cluster.g3_slave, move.cluster.g3)
    move.cluster.api.put("group/promote", 3, move.cluster.g3_slave.address)
    wait_until("noticed and stopped", lambda: STOPPED in refusal(move, key))
    connect(move.shim_port).get(key)  # reads go on
    move.cluster.dashboard.kill()
    time.sleep(2.2)  # two periods of the watch: what cannot be asked changes nothing, either way
    assert STOPPED in refusal(move, key)
    move.cluster.dashboard.start()
    connect(move.cluster.g3.port).execute_command("SLAVEOF", "NO", "ONE")
    move.cluster.api.put("group/promote", 3, move.cluster.g3.address)
    wait_until("writes go on", lambda: not refusal(move, key))
    assert "again: writes go on" in told(move)[-1]


@pytest.mark.parametrize("side", ["old", "new"])
def test_I3_a_master_replaced_while_slots_are_being_cut_over(env, side):
    """Whatever state the slots are in when it dies (OLD, HOLD to PROMOTE, NEW): each ends with one owner, or in doubt."""
    move = attached(env)
    writer = Writer(move.shim_port, keys_in(901, 1023, 30, "h"), "h", tolerate_errors=True)
    permit = Permit(move.admin_port, SLOTS)
    wait_until("writes", lambda: writer.writes > 50)
    group, dead, successor = ((3, move.cluster.g3, move.cluster.g3_slave) if side == "old"
                              else (4, move.cluster.g4, move.cluster.g4_slave))
    trigger = connect(move.admin_port)
    move.admin("PERMIT", SLOTS)
    trigger.connection_pool.get_connection("x").send_command("SHIM", "CUTOVER", SLOTS)
    wait_until("some are switched", lambda: "NEW" in states(move).values())
    dead.kill()
    wait_until("nothing is held for ever", lambda: set(states(move).values()) <= {"OLD", "NEW"}, 20)
    writer.stop()
    move.admin("ABORT", SLOTS)
    move.cluster.api.put("group/promote", group, successor.address)
    wait_until("noticed", lambda: told(move))
    before = states(move)
    reload(move, side, successor)
    permit.stop()
    after = states(move)
    # A slot whose new master died before its slave had the promote record cannot be vouched for.
    changed = {s: after[s] for s in after if after[s] != before[s]}
    assert set(changed.values()) <= ({"DOUBT"} if side == "new" else set()), changed
    owners = {"OLD": successor if side == "old" else move.cluster.g3, "NEW": move.cluster.g4 if side == "old" else successor}
    for slot, state in after.items():
        key = keys_in(slot, slot, 1, "one")[0]
        text = refusal(move, key, slot)
        if state == "DOUBT":
            assert "doubt" in text, text
            continue
        assert not text, (slot, state, text)
        assert connect(owners[state].port).get(key) == b"%d" % slot
        other = [node for node in (owners["OLD"], owners["NEW"]) if node is not owners[state]][0]
        try:
            connect(other.port).set(key, "at the wrong side")
        except redis.RedisError:
            continue
        # The new group's successor may stand alone after its promote: it then is no one's owner, and takes no part.
        assert side == "new" and state == "OLD", (slot, state)
    # What the dead master had acknowledged and not passed to its slave is gone with it; all else is there.
    survivor = "NEW" if side == "old" else "OLD"
    for key in [k for k in writer.keys if after[slot_of(k)] == survivor]:
        got = int(connect(move.shim_port).get(key) or 0)
        assert got == writer.acked[key] or got in writer.maybe[key], (key, got, writer.acked[key])


def test_I1_a_former_master_that_stood_still_acknowledges_nothing_after_reload(env):
    """It has the write in its socket and executes it when it goes on; its client was told that nobody knows."""
    old, new, slave = env.redis("old"), env.redis("new"), env.redis("slave")
    follow_redis(old.port, new.port)
    follow_redis(old.port, slave.port)
    shim = Shim(env, old.address, new.address, "0-1023", "redis").start(init=True)
    connect(shim.port).set("k", "before")
    wait_until("the slave has it", lambda: connect(slave.port).get("k") == b"before")
    os.kill(old.pid, signal.SIGSTOP)
    try:
        client = socket.create_connection(("127.0.0.1", shim.port), timeout=15)
        client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\nlost\r\n")
        connect(slave.port).execute_command("REPLICAOF", "NO", "ONE")
        connect(new.port).execute_command("REPLICAOF", "127.0.0.1", slave.port)
        shim.write_plan(old={"master": slave.address, "servers": [slave.address], "password": "", "kind": "redis"})
        assert "does not answer" in shim.ask("RELOAD")
        reply = client.recv(300)
    finally:
        os.kill(old.pid, signal.SIGCONT)
    assert reply.startswith(b"-ERR") and b"may or may not have been executed" in reply, reply
    assert connect(shim.port).get("k") == b"before"
    assert connect(shim.port).set("k", "after")
    assert connect(slave.port).get("k") == b"after"
