"""slotferry walks a group of Redis before 6.2 (such as codis-server: ADR 0026) to another, while clients write, over kills of
the run and of the shim; and a whole group of Redis, which is closed for writes at the switch.

SF_OLD_REDIS names the binary of a real one to be used in place of the filter in front of a redis-server 7.
"""
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, program, wait_until  # noqa: E402
from move_env import Move, slotferry  # noqa: E402
from shim_env import Writer, keys_in, slot_of  # noqa: E402


@pytest.fixture
def env():
    with Env() as made:
        yield made


def ask(server, *words):
    """Over a connection that is gone afterwards: a foreign one stops a cutover."""
    client = connect(server.port, decode_responses=True)
    try:
        return client.execute_command(*words)
    finally:
        client.connection_pool.disconnect()


def start(move, *words):
    return subprocess.Popen([program("slotferry"), "run", move.plan, "--dir", move.state, *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_when(move, what, happened, victim=None):
    """The run, killed -9 as soon as `happened`; or `victim` killed and started again, and the run waited for."""
    run = start(move, "--until", "cutover")
    try:
        wait_until(what, happened, 60, 0.001)
        if victim is not None:
            victim.kill()
            victim.start()
            run.wait(60)
    finally:
        if run.poll() is None:
            run.kill()
        run.wait()


def copies(server):
    return ask(server, "INFO", "replication")["connected_slaves"]


def finish(move, moving, staying):
    """The last phases, and what must hold then."""
    run = move("run", "--yes", "--json", timeout=120)
    assert run.code == 0, run
    assert run.json_lines("report")[-1]["verify"] == "passed"
    assert {move.group_of(slot) for slot in (901, 1023)} == {4} and move.group_of(801) == 3
    cleaned = move("cleanup", "--yes")
    assert cleaned.code == 0, cleaned
    counts = moving.writes, staying.writes
    wait_until("writes go on", lambda: moving.writes > counts[0] + 30 and staying.writes > counts[1] + 30)
    for writer in (moving, staying):
        writer.stop()
    moving.check(move.cluster.g4.port)
    staying.check(move.cluster.g3.port)
    assert not [k for k in ask(move.cluster.g3, "KEYS", "*") if slot_of(k) >= 901]
    assert not [k for k in ask(move.cluster.g4, "KEYS", "*") if slot_of(k) < 901]
    assert not [k for at in (move.cluster.g3, move.cluster.g4) for k in ask(at, "KEYS", "*__slotferry*")]


def test_I1_I11_from_prepare_to_cleanup_under_writes(env):
    move = Move(env, kind="old-redis", keys=1500)
    seen = slotferry("preflight", move.plan, "--json")
    said = {row["name"]: row for row in seen.json_lines("check")}
    assert seen.code == 0, said
    assert said["end"]["level"] == "warn" and "no CLIENT PAUSE WRITE" in said["end"]["evidence"]
    moving = Writer(move.cluster.proxy_ports[0], keys_in(901, 1023, 30, "m"), "m")
    staying = Writer(move.cluster.proxy_ports[1], keys_in(801, 900, 30, "s"), "s")
    wait_until("writes", lambda: moving.writes > 30 and staying.writes > 30)
    run = move("run", "--until", "cutover", timeout=120)
    assert run.code == 0, run
    assert move.shim_states() == {"new": 123}
    finish(move, moving, staying)
    assert not moving.errors and not staying.errors, (moving.errors[:3], staying.errors[:3])
    there = connect(move.cluster.g4.port)
    assert {k for k, slot in move.keys.items() if slot >= 901 and not there.exists(k)} == set()


def test_I10_kill_9_of_the_run_and_of_the_shim_on_the_way(env):
    move = Move(env, kind="old-redis", keys=1500)
    g3 = move.cluster.g3
    moving = Writer(move.cluster.proxy_ports[0], keys_in(901, 1023, 30, "m"), "m", tolerate_errors=True)
    staying = Writer(move.cluster.proxy_ports[1], keys_in(801, 900, 30, "s"), "s", tolerate_errors=True)
    wait_until("writes", lambda: moving.writes > 30 and staying.writes > 30)
    killed_when(move, "the new side follows", lambda: copies(g3) > 1)
    killed_when(move, "the first slots pass the shim", lambda: move.group_of(901) == 9)

    def audited(step):
        with open(move.env.path("shim", "audit.jsonl")) as f:
            return any('"step":"%s"' % step in line for line in f)

    # Its SLAVEOF NO ONE may be on the way: taken back by a whole copy, or switched.
    killed_when(move, "the new side is about to leave", lambda: audited("promote"), move.shim)
    assert set(move.shim_states()) in ({"old"}, {"new"})
    run = move("run", "--until", "cutover", timeout=120)
    assert run.code == 0, run
    assert move.shim_states() == {"new": 123}
    finish(move, moving, staying)


@pytest.mark.parametrize("kind", ["redis", "old-redis"])
def test_M25_a_group_that_moves_whole_is_cleaned_up_and_stays_closed(env, kind):
    move = Move(env, kind=kind, keys=400, slots="801-1023")
    run = move("run", "--yes", timeout=120)
    assert run.code == 0, run
    cleaned = move("cleanup", "--yes")
    assert cleaned.code == 0, cleaned
    assert ask(move.cluster.g3, "DBSIZE") == 0
    with pytest.raises(Exception, match="NOREPLICAS"):
        ask(move.cluster.g3, "SET", "k", "late")
