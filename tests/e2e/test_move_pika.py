"""slotferry walks a group of Pikas (the fake one, in classic and in sharding mode) to another, while clients write; and what its preflight
says of them."""
import os
import subprocess
import sys

import pytest
import redis

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
    assert ask(move.cluster.g4, "KEYS", "*__slotferry*") == []


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


def slot_info(server, slots):
    return ask(server, "PKCLUSTER", "INFO", "SLOT", slots)


def killed_when(move, what, happened, *words, command="run"):
    """The command, killed -9 as soon as `happened`."""
    run = subprocess.Popen([program("slotferry"), command, move.plan, "--dir", move.state, *words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(what, happened, 60, 0.001)
    finally:
        run.kill()
        run.wait()


def test_I1_I10_I11_sharding_from_prepare_to_cleanup_under_writes_and_kills(env):
    slots, stay = "978-1023", "801-977"
    move = Move(env, kind="pika-sharding", keys=1500, slots=slots)
    cluster = move.cluster
    g3, g4 = cluster.g3, cluster.g4
    code, said = checks(move)
    assert code == 0, said
    assert {said[name]["level"] for name in ("slotmigrate", "binlog", "apply-workers", "old-slots", "new-slots")} == {"ok"}
    assert "46 are not there yet, the run adds them" in said["new-slots"]["evidence"]
    ask(g4, "FAKE", "SET", "apply_delay_ms", "3")
    moving = Writer(cluster.proxy_ports[0], keys_in(978, 1023, 30, "m"), "m")
    staying = Writer(cluster.proxy_ports[1], keys_in(801, 977, 30, "s"), "s")
    wait_until("writes", lambda: moving.writes > 30 and staying.writes > 30)
    killed_when(move, "the first slots follow", lambda: "Slave" in slot_info(g4, slots))
    killed_when(move, "some slots are switched", lambda: move.shim_states(slots).get("new", 0) > 5)
    run = move("run", "--until", "cutover", timeout=90)
    assert run.code == 0, run
    assert move.shim_states(slots) == {"new": 46}
    # Compared (each old slot follows its new one), handed back with the new group's slave attached, and cleaned up.
    run = move("run", "--yes", timeout=90)
    assert run.code == 0, run
    assert " 0 differ" in run.out
    assert {move.group_of(slot) for slot in (978, 1023)} == {4} and move.group_of(977) == 3
    assert slot_info(cluster.g4_slave, slots).count("kConnected") == 46
    killed_when(move, "some old slots are gone", lambda: slot_info(g3, slots).count("(db0:") < 46, "--yes", command="cleanup")
    cleaned = move("cleanup", "--yes", timeout=90)
    assert cleaned.code == 0, cleaned
    for server in (g3, cluster.g3_slave):
        assert not slot_info(server, slots).strip() and slot_info(server, stay).count("(db0:") == 177
    assert slot_info(cluster.g3_slave, stay).count("kConnected") == 177
    assert slot_info(g4, slots).count("Master") == 46 and slot_info(cluster.g4_slave, slots).count("kConnected") == 46
    counts = moving.writes, staying.writes
    wait_until("writes go on", lambda: moving.writes > counts[0] + 30 and staying.writes > counts[1] + 30)
    for writer in (moving, staying):
        writer.stop()
    moving.check(g4.port)
    staying.check(g3.port)
    for key, slot in move.keys.items():
        assert ask(g4 if slot >= 978 else g3, "GET", key) == "v" + key[1:], key
    for slot in range(978, 1024):
        assert not any("__slotferry" in key for key in ask(g4, "SLOTSSCAN", slot, 0, "COUNT", 1000)[1]), slot
    with pytest.raises(redis.ResponseError, match="Partition not found"):
        ask(g3, "SET", keys_in(978, 978, 1)[0], "by a stranger")


def test_I11_sharding_deletes_nothing_that_may_be_an_owner(env):
    move = Move(env, kind="pika-sharding", keys=300, slots="1014-1023")
    move.edit_plan(soak_seconds=0)
    g3, slots = move.cluster.g3, "1014-1023"
    run = move("run", "--yes", timeout=90)
    assert run.code == 0, run
    # An old slot that is open, as after a restart of the old master, may have been written to.
    ask(g3, "PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "1017")
    cleaned = move("cleanup", "--yes")
    assert cleaned.code != 0 and "slot 1017" in cleaned.err and "follows nobody" in cleaned.err, cleaned
    assert "SLOTSSLAVEOF 127.0.0.1 %d 1017, without force" % move.cluster.g4.port in cleaned.err
    assert slot_info(g3, slots).count("(db0:") == 10
    ask(g3, "PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", move.cluster.g4.port, "1017")
    wait_until("it follows", lambda: slot_info(g3, slots).count("kConnected") == 10)
    # What shall own it follows another server.
    ask(move.cluster.g4, "PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", move.cluster.g4_slave.port, "1020")
    cleaned = move("cleanup", "--yes")
    assert cleaned.code != 0 and "slot 1020" in cleaned.err and "not its owner" in cleaned.err, cleaned
    assert slot_info(g3, slots).count("(db0:") == 10
    ask(move.cluster.g4, "PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "1020")
    cleaned = move("cleanup", "--yes")
    assert cleaned.code == 0, cleaned
    assert not slot_info(g3, slots).strip()


def test_sharding_preflight_names_what_is_wrong_with_slots_and_mode(env):
    move = Move(env, kind="pika-sharding", keys=50)
    g3, g4 = move.cluster.g3, move.cluster.g4
    # Keys in a slot of the new master that follows nobody: the copy would wipe them.
    ask(g4, "PKCLUSTER", "ADDSLOTS", "905")
    ask(g4, "SET", keys_in(905, 905, 1)[0], "x")
    code, said = checks(move)
    assert code != 0 and said["new-slots"]["level"] == "stop" and "slots 905" in said["new-slots"]["evidence"]
    assert "DELSLOTS 905" in said["new-slots"]["way_out"]
    run = move("run")
    assert run.code != 0 and "nothing was changed" in run.err, run
    assert slot_info(g4, "901-1023").count("Role:") == 1
    ask(g4, "PKCLUSTER", "DELSLOTS", "905")
    # A slot the old master lacks, and one that follows another server.
    ask(move.cluster.g3_slave, "PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "1001")
    wait_until("it has left", lambda: "connected_slaves: 0" in slot_info(g3, "1001"))
    ask(g3, "PKCLUSTER", "DELSLOTS", "1001")
    code, said = checks(move)
    assert code != 0 and said["old-slots"]["level"] == "stop" and "does not hold slots 1001" in said["old-slots"]["evidence"]
    ask(g3, "PKCLUSTER", "ADDSLOTS", "1001")
    ask(g3, "PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", move.cluster.g3_slave.port, "1001")
    code, said = checks(move)
    assert code != 0 and "slot 1001" in said["old-slots"]["evidence"] and "NO ONE 1001" in said["old-slots"]["way_out"]
    # Wrong number of slots, and a group in the other mode.
    others = {"few": ("--sharding", "--slot-num", "512", "--version", "3.4.0"), "classic": ("--version", "3.4.0")}
    for group, (name, flags) in enumerate(others.items(), 5):
        server = env.add(name, [program("fake-pika"), "--port", "0", *flags], "ready on")
        address = server.ready_line.rsplit(" ", 1)[1]
        move.cluster.api.put("group/create", group)
        move.cluster.api.put("group/add", group, address)
        made = slotferry("plan", *move.plan_words(to=group, out=env.path(name + ".json")))
        if name == "classic":
            assert made.code != 0 and "new.kind" in made.err and "pika-sharding" in made.err, made
            continue
        assert made.code == 0, made
        seen = slotferry("preflight", env.path(name + ".json"), "--json")
        said = {row["name"]: row for row in seen.json_lines("check")}
        assert seen.code != 0 and "'512', Codis has 1024" in said["slot-number"]["evidence"], said
