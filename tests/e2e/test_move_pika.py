"""slotferry walks a group of Pikas in classic mode (the fake one) to another, while clients write; and what its preflight says of them."""
import os
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
    client = connect(server.port, decode_responses=True)
    try:
        return client.execute_command(*words)
    finally:
        client.connection_pool.disconnect()


def checks(move):
    seen = slotferry("preflight", move.plan, "--json")
    return seen.code, {row["name"]: row for row in seen.json_lines("check")}


def test_I1_I11_from_prepare_to_cleanup_under_writes(env):
    move = Move(env, kind="pika", keys=1500)
    move.edit_plan(accept=["streams"], max_pause_ms=3000)
    move.admin("RELOAD")
    code, said = checks(move)
    assert code == 0, said
    assert {said[name]["level"] for name in ("slotmigrate", "binlog", "apply-workers", "new-replicas", "copy")} == {"ok"}
    moving = Writer(move.cluster.proxy_ports[0], keys_in(901, 1023, 30, "m"), "m")
    staying = Writer(move.cluster.proxy_ports[1], keys_in(801, 900, 30, "s"), "s")
    wait_until("writes", lambda: moving.writes > 30 and staying.writes > 30)
    run = move("run", "--until", "cutover", timeout=90)
    assert run.code == 0, run
    assert move.shim_states() == {"new": 123}
    # Handed back, with the new group's slave attached, and cleaned up.
    run = move("run", "--yes", timeout=90)
    assert run.code == 0, run
    assert {move.group_of(slot) for slot in (901, 1023)} == {4} and move.group_of(801) == 3
    assert ask(move.cluster.g4_slave, "INFO", "replication")["role"] == "slave"
    cleaned = move("cleanup", "--yes")
    assert cleaned.code == 0, cleaned
    counts = moving.writes, staying.writes
    wait_until("writes go on", lambda: moving.writes > counts[0] + 30 and staying.writes > counts[1] + 30)
    for writer in (moving, staying):
        writer.stop()
    moving.check(move.cluster.g4.port)
    staying.check(move.cluster.g3.port)
    for key, slot in move.keys.items():
        at, other = (move.cluster.g4, move.cluster.g3) if slot >= 901 else (move.cluster.g3, move.cluster.g4)
        assert ask(at, "GET", key) == "v" + key[1:], key
        assert ask(other, "GET", key) is None, key
    left = [k for k in ask(move.cluster.g3, "KEYS", "*") if slot_of(k) >= 901]
    assert not left, left[:5]


def test_preflight_names_what_is_wrong_with_the_servers(env):
    move = Move(env, kind="pika", keys=50)
    g3, g4 = move.cluster.g3, move.cluster.g4
    ask(g3, "CONFIG", "SET", "slotmigrate", "yes")
    code, said = checks(move)
    assert code != 0 and said["slotmigrate"]["level"] == "stop" and "CONFIG SET slotmigrate no" in said["slotmigrate"]["way_out"]
    ask(g3, "CONFIG", "SET", "slotmigrate", "no")
    # A slave of the new master, and a copy made by somebody else.
    for slave, master in ((g4, g3), (move.cluster.g4_slave, g4)):
        ask(slave, "SLAVEOF", "127.0.0.1", master.port)
        wait_until("it follows", lambda: ask(slave, "INFO", "replication").get("master_link_status") == "up")
    code, said = checks(move)
    assert code != 0 and said["new-replicas"]["level"] == "stop" and "refuse SLAVEOF" in said["new-replicas"]["evidence"]
    assert said["copy"]["level"] == "warn" and "killed" in said["copy"]["way_out"]
    assert said["replication-faults"]["level"] == "warn" and "3.5.5" in said["replication-faults"]["evidence"]


def test_a_sharding_pika_is_refused_with_what_to_do(env):
    move = Move(env, kind="pika", keys=10)
    port = env.add("sharded", [program("fake-pika"), "--port", "0", "--sharding", "--version", "3.4.0",
                               "--slots", "801-1023"], "ready on").ready_line.rsplit(":", 1)[1]
    move.cluster.api.put("group/create", 5)
    move.cluster.api.put("group/add", 5, "127.0.0.1:" + port)
    made = slotferry("plan", *move.plan_words(to=5, out=env.path("other.json")))
    assert made.code != 0 and "sharding mode" in made.err and "by hand" in made.err, made
