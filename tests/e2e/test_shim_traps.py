"""The 27 traps for a disguised backend (docs/TRAPS.md), T1..T27: bytes recorded from the real Codis and its fork are sent to the
real shim and its replies judged as their sender judges them; and the stand-in Codis moves slots with it."""
import http.server
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

from codis_peer import (Recorded, Wire, fe_keys, fork_replication, info_fields, is_error, keyspace, master_addr,  # noqa: E402
                        transcripts)
from ferry_env import Env, connect, free_port, program, wait_until  # noqa: E402
from move_env import Move, slotferry  # noqa: E402
from shim_env import Shim, follow_node, follow_redis, keys_in, slot_of  # noqa: E402
from test_move import stray_slot  # noqa: E402

AUTH = "pw123"  # as in the transcripts
NEW, FINAL = "512-575", "512-543"
OLD_KEY, NEW_KEY, FINAL_KEY = keys_in(0, 40, 1)[0], keys_in(544, 575, 1)[0], keys_in(512, 543, 1)[0]
BACKEND_TIMEOUT_MS = 1500


class Disguised:
    """A shim between two nodes: slots 512-543 FINAL, 544-575 NEW, all others OLD. Asks for the plan's product_auth."""

    def __init__(self, env):
        self.env = env
        self.old, self.new = env.node("old"), env.node("new")
        follow_node(self.old.port, self.new.port, NEW)
        self.shim = Shim(env, self.old.address, self.new.address, "0-1023", "node",
                         extra=("--backend-timeout", str(BACKEND_TIMEOUT_MS)))
        self.shim.write_plan(product_auth=AUTH)
        self.shim.start(init=True)
        self.shim.cutover(NEW)
        wait_until("cut over", lambda: set(self.shim.states(NEW).values()) == {"NEW"} or
                   set(self.shim.states(NEW).values()) == {"new"})
        self.shim.ask("FINAL", FINAL)
        self.port = self.shim.port
        self.idle, self.idle_since = [self.wire() for _ in range(16)], time.monotonic()
        for db, wire in enumerate(self.idle):
            assert wire.ask("SELECT", str(db)) == ("+", "OK")

    def wire(self):
        return Wire(self.port, AUTH)

    def info(self, *section):
        return self.wire().ask("INFO", *section)[1].decode()

    def target(self, side="new"):
        return getattr(self, side).address.split(":")


@pytest.fixture(scope="module")
def disguised():
    with Env() as env:
        yield Disguised(env)


@pytest.fixture
def env():
    with Env() as made:
        yield made


# ---- replay

def is_pair_of_numbers(reply):
    return reply[0] == "*" and len(reply[1]) == 2 and all(
        item[0] == ":" or (item[0] == "$" and re.fullmatch(rb"-?\d+", item[1] or b"")) for item in reply[1])


def is_config_pair(reply):
    return reply[0] == "*" and len(reply[1]) == 2 and reply[1][1][0] == "$" and reply[1][1][1].isdigit()


def is_array(reply):
    return reply[0] == "*" and reply[1] is not None


def is_bulk(reply):
    return reply[0] == "$"


def is_number(reply):
    return reply[0] == ":"


def is_status(reply):
    return reply[0] == "+"


# What the sender of a command takes for a good answer (contract, sections 1 to 3).
ACCEPTED = {
    "AUTH": is_status, "SELECT": is_status, "PING": is_status, "INFO": lambda r: is_bulk(r) and r[1] is not None,
    "SLOTSINFO": lambda r: is_array(r) and all(is_pair_of_numbers(item) for item in r[1]),
    "CONFIG GET": is_config_pair, "CONFIG SET": is_status, "CONFIG REWRITE": is_status, "CLIENT": is_status,
    "MULTI": is_status, "SLAVEOF": is_status, "EXEC": lambda r: is_array(r) and not any(i[0] == "-" for i in r[1]),
    "GET": is_bulk, "SET": is_status, "MSET": is_status, "MGET": is_array, "DEL": is_number, "EXISTS": is_number,
    "INCR": is_number, "TTL": is_number, "STRLEN": is_number, "TYPE": is_status, "SADD": is_number, "SMEMBERS": is_array,
    "HSCAN": is_array, "SLOTSSCAN": is_array, "LPUSH": is_number, "RPUSH": is_number, "LRANGE": is_array, "HSET": is_number,
    "APPEND": is_number, "LLEN": is_number, "PEXPIRE": is_number, "EXPIRE": is_number, "PTTL": is_number,
}
# Recorded with servers that answered as they should, nobody in the way.
CLEAN = ("01", "10", "11", "15", "16", "17", "19", "21", "24", "32", "50", "51", "52", "54", "55", "56", "57")


def name_of(words):
    name = words[0].decode().upper()
    return name + " " + words[1].decode().upper() if name == "CONFIG" else name


def is_accepted(words, reply):
    if name_of(words).startswith("SLOTSMGRTTAGSLOT"):
        return is_pair_of_numbers(reply)
    if name_of(words) == "SLOTSMGRT-EXEC-WRAPPER":
        return is_array(reply) and len(reply[1]) == 2 and reply[1][0][0] == ":"
    return ACCEPTED[name_of(words)](reply)


def check_reply(d, words, reply, queued):
    """The shim's reply to one recorded request: what the sender accepts, but for what must never be done (I7, I8, T17)."""
    name = name_of(words)
    if queued and name != "EXEC":
        return reply == ("+", "QUEUED") or name == "MULTI" and is_status(reply)
    if name.startswith(("SLOTSMGRTTAGSLOT", "SLOTSMGRTTAGONE")):
        asked = b":".join(words[1:3]).decode()
        return is_error(reply) and "its owner is " + d.old.address in reply[1] and asked in reply[1]
    if name == "SLOTSMGRT-EXEC-WRAPPER":
        return (is_array(reply) and len(reply[1]) == 2 and reply[1][0] == (":", 2)
                and (reply[1][1][0] == "-" or is_accepted(words[2:], reply[1][1])))
    if name == "SLAVEOF" and words[1].upper() != b"NO" or name.startswith("SLOTSRESTORE") or name == "SHUTDOWN":
        return is_error(reply)
    if name == "EXEC":
        return is_array(reply)
    if name == "HSCAN" and is_error(reply, "WRONGTYPE"):
        return True
    return is_accepted(words, reply)


@pytest.mark.parametrize("name", transcripts(), ids=[name[:2] for name in transcripts()])
def test_T7_T17_T19_recorded_requests_get_replies_their_sender_accepts(disguised, name):
    recorded = Recorded(name)
    wires, counts, bad = {}, {}, []
    keys = {words[1] for _, requests, _ in recorded.steps for words in requests if name_of(words) in ("SET", "INCR", "MSET", "SADD")}
    for key in keys:
        disguised.wire().ask("DEL", key)
    for conn, requests, replies in recorded.steps:
        if conn not in wires:
            first_is_auth = name_of(requests[0]) == "AUTH"
            wires[conn] = Wire(disguised.port, None if first_is_auth else AUTH)
        wires[conn].send(*requests)
        in_multi = False
        for i, words in enumerate(requests):
            in_multi = in_multi or name_of(words) == "MULTI"
            reply = wires[conn].read()
            counts[conn] = counts.get(conn, 0) + 1
            if not check_reply(disguised, words, reply, in_multi):
                bad.append((conn, words, reply))
            if name[:2] in CLEAN and i < len(replies) and not in_multi and not is_accepted(words, replies[i]):
                bad.append(("the judge is wrong", words, replies[i]))
    for conn, wire in wires.items():
        assert wire.is_silent(), "%s: more replies than requests (T7)" % conn
        wire.send(["AUTH", AUTH], ["ECHO", conn])
        assert wire.read() == ("+", "OK") and wire.read() == ("$", conn.encode())
        wire.close()
    assert not bad, bad[:5]
    assert counts


def test_T7_every_request_gets_exactly_one_reply_in_its_place(disguised):
    """Forwarded, answered here, refused, unknown, inline, wrapped, too short: none is skipped, none comes twice."""
    wire = disguised.wire()
    kinds = [
        ["SET", OLD_KEY, "v"], ["GET", NEW_KEY], ["GET"], ["NOSUCH"], ["NOSUCH", OLD_KEY, "x"], ["FLUSHALL"], ["BLPOP", OLD_KEY, "0"],
        ["MGET", OLD_KEY, NEW_KEY, FINAL_KEY], ["SUNIONSTORE", OLD_KEY, NEW_KEY], ["SUBSCRIBE", "c"], ["CONFIG", "GET", "maxmemory"],
        ["SLOTSMGRT-EXEC-WRAPPER", OLD_KEY, "GET", OLD_KEY], ["SLOTSMGRT-EXEC-WRAPPER", FINAL_KEY, "GET", FINAL_KEY],
        ["SLOTSMGRT-EXEC-WRAPPER", OLD_KEY], ["SLOTSMGRTTAGONE", "127.0.0.1", "1", "3000", OLD_KEY],
        ["SLOTSMGRTTAGSLOT-ASYNC", "127.0.0.1", "1", "5000", "200", "1000", "5", "500"], ["SLOTSRESTORE", OLD_KEY, "0", "x"],
        ["SELECT", "99"], ["CLIENT", "REPLY", "OFF"], ["MULTI"], ["GET", OLD_KEY], ["EXEC"], ["INFO", "nosuch"], ["MSET", OLD_KEY],
        ["EVAL", "return 1", "0"], ["PING"], ["HELLO", "3"], ["MONITOR"], ["CLIENT", "KILL", "TYPE", "normal"], ["DEBUG", "SLEEP", "9"],
    ]
    rounds = 40
    for r in range(rounds):
        out = []
        for i, words in enumerate(kinds):
            out += [words, ["ECHO", "%d.%d" % (r, i)]]
        # The ECHO inside MULTI is refused and spoils it: one reply each all the same.
        wire.send(*out)
    for r in range(rounds):
        for i, words in enumerate(kinds):
            wire.read()
            echo = wire.read()
            in_multi = kinds[i][0] in ("MULTI",) or kinds[i - 1][0] == "MULTI"
            assert echo == ("$", b"%d.%d" % (r, i)) or in_multi and echo[0] == "-", (words, echo)
    wire.send_bytes(b"PING\r\nget " + OLD_KEY.encode() + b"\r\n\r\nECHO last\r\n")
    assert [wire.read() for _ in range(3)] == [("+", "PONG"), ("$", b"v"), ("$", b"last")]
    assert wire.is_silent(0.1)
    assert wire.ask("QUIT") == ("+", "OK")
    with pytest.raises(ConnectionError):
        wire.read()


# ---- readers of INFO, CONFIG, SLOTSINFO

def test_T17_T18_dashboard_and_page_see_a_healthy_master(disguised):
    connect(disguised.new.port).set(NEW_KEY, "v")
    disguised.wire().ask("SET", OLD_KEY, "v")

    def keys_seen():
        return dict((s[1][0][1], s[1][1][1]) for s in disguised.wire().ask("SLOTSINFO")[1])
    wait_until("facts", lambda: slot_of(NEW_KEY) in keys_seen() and slot_of(OLD_KEY) in keys_seen())
    info = disguised.info()
    assert master_addr(info) is None
    assert "master_link_status" not in info and info_fields(info)["role"] == "master"
    fields = info_fields(info)
    shown, total = fe_keys(fields)
    assert list(shown) == ["db0"] and total == sum(keys_seen().values()) and total >= 2
    assert int(fields["used_memory"]) > 0 and fields["maxmemory"].isdigit()
    assert is_config_pair(disguised.wire().ask("CONFIG", "GET", "maxmemory"))


def test_T9_run_id_is_the_shims_own(disguised):
    ids = {info_fields(disguised.info("server"))["run_id"], info_fields(disguised.info())["run_id"]}
    assert len(ids) == 1
    run_id = ids.pop()
    assert re.fullmatch("[0-9a-f]{40}", run_id)
    assert run_id not in [connect(node.port).info("server").get("run_id") for node in (disguised.old, disguised.new)]


def test_T20_the_forks_dashboard_reads_two_numbers_and_no_candidate(disguised):
    """Its three loops, each a fresh connection: AUTH, INFO replication, close."""
    for _ in range(30):
        wire = disguised.wire()
        found = fork_replication(wire.ask("INFO", "replication")[1].decode())
        wire.close()
        assert found["binlog"] == (0, 0) and found["is_eligible_for_master_election"] == "false"
        assert found["role"] == "master" and found["connected_slaves"] == "0" and found["slaves"] == []
        assert "master_host" not in found and "master_port" not in found
    assert fe_keys(info_fields(disguised.info("replication")))[1] == 0
    # Elected it would be by the highest binlog of those that may; it never may, whatever the others have.


def test_T19_T20_promote_return_and_sync_of_the_fork(disguised):
    wire = disguised.wire()
    for words, good in ((["CONFIG", "set", "masterauth", AUTH], True), (["CONFIG", "set", "masterauth", ""], True),
                        (["SLAVEOF", "NO", "ONE"], True), (["CONFIG", "REWRITE"], True),
                        (["SLAVEOF", "127.0.0.1", "7101"], False), (["SLAVEOF", "127.0.0.1", "7101", "-f"], False),
                        (["SLAVEOF", "127.0.0.1", "7101", "force"], False)):
        reply = wire.ask(*words)
        assert reply == ("+", "OK") if good else is_error(reply), (words, reply)
    assert fork_replication(disguised.info("replication"))["role"] == "master"
    assert wire.ask("GET", OLD_KEY)[0] == "$"


def test_T8_T19_promote_in_one_write_changes_nothing(disguised):
    """A refusal would not stop Codis; so NO ONE is agreed to, the clients stay, and the slots have the owners they had."""
    other = disguised.wire()
    before = disguised.shim.states()
    wire = disguised.wire()
    wire.send(["MULTI"], ["CONFIG", "SET", "masterauth", ""], ["SLAVEOF", "NO", "ONE"], ["CONFIG", "REWRITE"],
              ["CLIENT", "KILL", "TYPE", "normal"], ["EXEC"])
    assert [wire.read() for _ in range(5)] == [("+", "OK")] + [("+", "QUEUED")] * 4
    assert wire.read() == ("*", [("+", "OK")] * 4)
    assert other.ask("PING") == ("+", "PONG")
    assert disguised.shim.states() == before
    # A sync action towards another master: accepted into the queue, refused by EXEC, so `synced_failed`.
    wire.send(["MULTI"], ["CONFIG", "SET", "masterauth", ""], ["SLAVEOF", "127.0.0.1", "7101"], ["CONFIG", "REWRITE"],
              ["CLIENT", "KILL", "TYPE", "normal"], ["EXEC"])
    assert [wire.read() for _ in range(5)] == [("+", "OK")] + [("+", "QUEUED")] * 4
    assert [item[0] for item in wire.read()[1]] == ["+", "-", "+", "+"]
    for server in (disguised.old, disguised.new):
        assert connect(server.port).ping()


def test_T17_what_ends_or_empties_a_server_is_refused(disguised):
    """codis-ha sends SHUTDOWN without AUTH (t35)."""
    assert is_error(Wire(disguised.port).ask("SHUTDOWN"), "NOAUTH")
    wire = disguised.wire()
    for words in (["SHUTDOWN"], ["SHUTDOWN", "NOSAVE"], ["FLUSHALL"], ["FLUSHDB"], ["DEBUG", "SEGFAULT"], ["CONFIG", "SET", "port", "1"],
                  ["SLOTSDEL", "5"], ["SLOTSCLEANUP", "5"], ["BGREWRITEAOF"], ["SWAPDB", "0", "1"], ["MIGRATE", "h", "1", "k", "0", "9"],
                  ["PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "5"], ["SCRIPT", "FLUSH"], ["REPLICAOF", "127.0.0.1", "1"]):
        assert is_error(wire.ask(*words)), words
    assert wire.ask("GET", OLD_KEY)[0] == "$" and disguised.shim.proc.alive()


def test_T23_select_answers_a_simple_string_for_each_of_16_databases(disguised):
    for db, wire in enumerate(disguised.idle):
        assert wire.ask("SELECT", str(db)) == ("+", "OK")
        assert wire.ask("SET", OLD_KEY, "in %d" % db) == ("+", "OK")
    for db, wire in enumerate(disguised.idle):
        assert wire.ask("GET", OLD_KEY) == ("$", b"in %d" % db)
        assert wire.ask("SLOTSMGRT-EXEC-WRAPPER", OLD_KEY, "GET", OLD_KEY) == ("*", [(":", 2), ("$", b"in %d" % db)])
    for bad in ("16", "-1", "x"):
        assert is_error(disguised.wire().ask("SELECT", bad))


def test_T23_a_server_without_the_other_databases_breaks_those_alone():
    """Pika has one database by default: SELECT 1 is refused there, and db 0 must not notice."""
    with Env() as env:
        old, new = env.redis("old", extra=("--databases", "1")), env.redis("new", extra=("--databases", "1"))
        follow_redis(old.port, new.port)
        shim = Shim(env, old.address, new.address, "0-1023", "redis").start(init=True)
        zero, three = Wire(shim.port), Wire(shim.port)
        assert three.ask("SELECT", "3") == ("+", "OK")
        taken = connect(old.port).info("stats")["total_connections_received"]
        end, answers = time.monotonic() + 1.0, 0
        while time.monotonic() < end:
            assert is_error(three.ask("SET", "k", "v"))
            assert zero.ask("SET", "k", "%d" % answers) == ("+", "OK")
            answers += 1
        dialled = connect(old.port).info("stats")["total_connections_received"] - taken
        assert dialled < 100, "%d connections in a second" % dialled
        assert zero.ask("GET", "k") == ("$", b"%d" % (answers - 1))


# ---- migration commands, as the shim answers them

def migrate(target, slot, sync=False):
    if sync:
        return ["SLOTSMGRTTAGSLOT", *target, "30000", str(slot)]
    return ["SLOTSMGRTTAGSLOT-ASYNC", *target, "5000", "200", "33554432", str(slot), "500"]


@pytest.mark.parametrize("sync", [False, True])
def test_T1_I7_remaining_0_only_for_a_final_slot_and_only_towards_its_owner(disguised, sync):
    old, new = disguised.target("old"), disguised.target("new")
    dashboard = disguised.wire()
    assert dashboard.ask(*migrate(new, 512, sync)) == ("*", [(":", 0), (":", 0)])
    for target, slot in ((old, 512), (["127.0.0.1", "1"], 512), (["127.0.0.1", str(disguised.port)], 512), (new, 544), (old, 544),
                         (new, 5), (old, 5)):
        reply = dashboard.ask(*migrate(target, slot, sync))
        owner = disguised.new.address if slot >= 512 else disguised.old.address
        assert is_error(reply) and owner in reply[1] and ":".join(target) in reply[1], reply
    for words in (migrate(new, 1024, sync), migrate(new, -1, sync), migrate(new, "x", sync)):
        assert is_error(dashboard.ask(*words))


def test_T2_every_database_is_asked_for_and_gets_the_same_answer():
    """The dashboard goes on with each db<N> that INFO keyspace lists, and no line may begin with db and be no number."""
    with Env() as env:
        old, new = env.redis("old"), env.redis("new")
        follow_redis(old.port, new.port)
        for db in (0, 1, 3, 15):
            connect(old.port, db=db).set("k", "v")
        shim = Shim(env, old.address, new.address, "0-1023", "redis").start(init=True)
        dashboard = Wire(shim.port)
        wait_until("facts", lambda: len(keyspace(dashboard.ask("INFO", "keyspace")[1].decode())) == 4)

        def round_of(slot):
            """The dashboard's walk over the databases (topom_slots); what it was told in each."""
            told, db = [], 0
            while True:
                told.append((db, dashboard.ask(*migrate(["127.0.0.1", str(new.port)], slot))))
                if told[-1][1][0] == "-":
                    return told
                listed = keyspace(dashboard.ask("INFO", "keyspace")[1].decode())
                more = sorted(n for n in listed if n > db)
                if not more:
                    return told
                db = more[0]
                assert dashboard.ask("SELECT", str(db)) == ("+", "OK")

        assert len(round_of(5)) == 1
        shim.cutover("0-1023")
        wait_until("cut over", lambda: {s.lower() for s in shim.states().values()} == {"new"})
        shim.ask("FINAL", "0-1023")
        assert dashboard.ask("SELECT", "0") == ("+", "OK")
        assert round_of(5) == [(db, ("*", [(":", 0), (":", 0)])) for db in (0, 1, 3, 15)]


def test_T3_sync_method_an_integer_only_where_the_target_is_right(disguised):
    """The proxy takes any integer of SLOTSMGRTTAGONE for "go to the target", -1 too; so failure is an error, never a number."""
    proxy = disguised.wire()
    assert proxy.ask("SLOTSMGRTTAGONE", *disguised.target(), "3000", FINAL_KEY) == (":", 0)
    assert proxy.ask("SLOTSMGRTONE", *disguised.target(), "3000", FINAL_KEY) == (":", 0)
    for target, key in ((disguised.target(), OLD_KEY), (disguised.target(), NEW_KEY), (disguised.target("old"), FINAL_KEY)):
        for command in ("SLOTSMGRTTAGONE", "SLOTSMGRTONE"):
            assert is_error(proxy.ask(command, *target, "3000", key))


def test_T4_wrapper_executes_once_until_final_and_never_again_after(disguised):
    proxy = disguised.wire()
    for key, server in ((OLD_KEY, disguised.old), (NEW_KEY, disguised.new)):
        count = "{%s}count" % key
        for n in range(1, 51):
            assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", count, "incr", count) == ("*", [(":", 2), (":", n)])
        assert connect(server.port).get(count) == b"50"
        assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", count, "LPUSH", count, "x")[1][1][1].startswith("WRONGTYPE")
    count = "{%s}count" % FINAL_KEY
    reply = proxy.ask("SLOTSMGRT-EXEC-WRAPPER", count, "INCR", count)
    assert reply[1][0] == (":", 0) and len(reply[1]) == 2
    assert connect(disguised.new.port).get(count) is None


def test_T10_keys_of_two_owners_are_split_or_refused_before_anything_is_sent(disguised):
    """Codis routes and wraps by the first key alone."""
    wire = disguised.wire()
    a, b = "{%s}s" % OLD_KEY, "{%s}s" % NEW_KEY
    wire.ask("SADD", a, "1", "2")
    wire.ask("SADD", b, "2", "3")
    for words in (["SINTER", a, b], ["SUNIONSTORE", a, a, b], ["SMOVE", a, b, "1"], ["RPOPLPUSH", a, b],
                  ["EVAL", "return redis.call('SADD',KEYS[1],'9')", "2", a, b]):
        plain, wrapped = wire.ask(*words), wire.ask("SLOTSMGRT-EXEC-WRAPPER", a, *words)
        assert plain[0] == "-" and wrapped[1][0] == (":", 2) and wrapped[1][1][0] == "-", (words, plain, wrapped)
    assert sorted(wire.ask("SMEMBERS", a)[1]) == [("$", b"1"), ("$", b"2")]
    assert wire.ask("SINTER", a, a)[0] == "*"
    assert wire.ask("MSET", OLD_KEY, "o", NEW_KEY, "n") == ("+", "OK")
    assert wire.ask("MGET", NEW_KEY, OLD_KEY, "absent:x")[1] == [("$", b"n"), ("$", b"o"), ("$", None)]
    assert wire.ask("EXISTS", NEW_KEY, OLD_KEY) == (":", 2)


def test_T11_two_connections_of_the_fork_each_keep_their_own_order(disguised):
    """SET and GET come on one connection, all else on another (t56): nothing may be inferred across, all must hold within."""
    quick, rest = disguised.wire(), disguised.wire()
    key, count = "{%s}quick" % OLD_KEY, "{%s}rest" % OLD_KEY
    n = 500
    quick.send(*[words for i in range(n) for words in (["SET", key, "%d" % i], ["GET", key])])
    rest.send(*[["INCR", count] for _ in range(n)])
    for i in range(n):
        assert quick.read() == ("+", "OK") and quick.read() == ("$", b"%d" % i)
        assert rest.read() == (":", i + 1)


def test_T14_the_migration_command_does_not_spin_the_dashboard(disguised):
    """The dashboard asks again at once while something remains, and dials anew after an error (t14): few rounds a second."""
    calls, end = 0, time.monotonic() + 1.0
    while time.monotonic() < end:
        dashboard = disguised.wire()
        reply = dashboard.ask(*migrate(disguised.target(), 5))
        assert is_error(reply, "ERR slot 5 is not handed back yet")
        dashboard.close()
        calls += 1
    assert calls <= 12


def test_T24_a_clients_migration_commands_do_nothing_and_delay_nobody(disguised):
    """Any client reaches the commands with a dash in their name through the proxy, on the connection all share."""
    connect(disguised.old.port).set(OLD_KEY, "kept")
    proxy = disguised.wire()
    slot = slot_of(OLD_KEY)
    tricks = [migrate(disguised.target(), slot), ["SLOTSMGRTSLOT-ASYNC", *disguised.target(), "5000", "200", "1000", str(slot), "500"],
              ["SLOTSMGRTTAGONE-ASYNC", *disguised.target(), "5000", "200", "1000", OLD_KEY],
              ["SLOTSMGRTONE-ASYNC", *disguised.target(), "5000", "200", "1000", OLD_KEY, OLD_KEY], ["SLOTSMGRT-ASYNC-FENCE"],
              ["SLOTSRESTORE", OLD_KEY, "0", "x"], ["SLOTSRESTORE-ASYNC", "delete", OLD_KEY], ["SLOTSRESTORE-ASYNC-AUTH", "x"],
              ["SLOTSRESTORE-ASYNC-SELECT", "0"], ["SLOTSRESTORE-ASYNC-ACK", "0", "x"],
              ["SLOTSRESTORE-ASYNC", "string", OLD_KEY, "0", "x"]]
    assert proxy.ask("PING") == ("+", "PONG")
    start = time.monotonic()
    proxy.send(*[words for trick in tricks for words in (trick, ["GET", OLD_KEY])])
    for trick in tricks:
        assert is_error(proxy.read()), trick
        assert proxy.read() == ("$", b"kept"), trick
    assert time.monotonic() - start < 0.1, "one pace of the dashboard is 0.1 s"
    assert is_array(proxy.ask("SLOTSMGRT-ASYNC-STATUS")) and proxy.ask("SLOTSMGRT-ASYNC-CANCEL") == ("+", "OK")
    for inner in (["FLUSHALL"], ["SHUTDOWN"], ["CONFIG", "GET", "*"], ["SUBSCRIBE", "c"], ["BLPOP", OLD_KEY, "0"], ["SLAVEOF", "NO", "ONE"],
                  ["SLOTSMGRT-EXEC-WRAPPER", OLD_KEY, "GET", OLD_KEY]):
        assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", OLD_KEY, *inner)[1][1][0] == "-", inner
    assert proxy.ask("GET", OLD_KEY) == ("$", b"kept")


def test_T27_wrapped_keys_are_not_lower_cased(disguised):
    proxy = disguised.wire()
    tag = OLD_KEY
    upper, lower = "{%s}KeY" % tag, "{%s}key" % tag
    assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", upper, "SET", upper, "UP") == ("*", [(":", 2), ("+", "OK")])
    assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", upper, "GET", upper) == ("*", [(":", 2), ("$", b"UP")])
    assert proxy.ask("SLOTSMGRT-EXEC-WRAPPER", lower, "GET", lower) == ("*", [(":", 2), ("$", None)])
    assert connect(disguised.old.port).get(upper) == b"UP"


# ---- connections, servers that hang

def test_T22_many_connections_at_once_and_dialled_anew_without_delay(disguised):
    """32 proxies with 16 connections each, all at once, as after an outage; ten times."""
    for _ in range(10):
        sockets = []
        for _ in range(512):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", disguised.port))
            sockets.append(s)
        for i, s in enumerate(sockets):
            select.select([], [s], [], 5)
            s.setblocking(True)
            s.settimeout(5)
            s.sendall(b"*2\r\n$4\r\nAUTH\r\n$5\r\npw123\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n%d\r\n*1\r\n$4\r\nPING\r\n" % (i % 10))
        for s in sockets:
            got = b""
            while len(got) < 17:
                more = s.recv(64)
                assert more
                got += more
            assert got == b"+OK\r\n+OK\r\n+PONG\r\n"
            s.close()
    wait_until("all gone", lambda: int(info_fields(disguised.info("clients"))["connected_clients"]) < 40)


def test_T12_a_server_that_does_not_answer_ends_in_an_error_before_the_proxys_patience(disguised):
    """Within the shim's own time limit; meanwhile dashboard and the other group's slots are served as ever (X18)."""
    disguised.old.popen.send_signal(signal.SIGSTOP)
    try:
        stuck, proxy, dashboard = disguised.wire(), disguised.wire(), disguised.wire()
        start = time.monotonic()
        stuck.send(["GET", OLD_KEY], ["SLOTSMGRT-EXEC-WRAPPER", OLD_KEY, "GET", OLD_KEY], ["PING"])
        for words in (["INFO"], ["CONFIG", "GET", "maxmemory"], ["SLOTSINFO"], ["INFO", "replication"], ["PING"]):
            begun = time.monotonic()
            assert is_accepted([w.encode() for w in words], dashboard.ask(*words))
            assert time.monotonic() - begun < 0.5, words
        assert proxy.ask("SET", NEW_KEY, "served") == ("+", "OK")
        assert is_error(stuck.read())
        wrapped = stuck.read()
        assert wrapped[1][0] == (":", 2) and wrapped[1][1][0] == "-"
        assert stuck.read() == ("+", "PONG")
        assert time.monotonic() - start < BACKEND_TIMEOUT_MS / 1000 + 2
    finally:
        disguised.old.popen.send_signal(signal.SIGCONT)
    wait_until("served again", lambda: disguised.wire().ask("GET", OLD_KEY)[0] == "$")


def test_T21_idle_connections_stay_open(disguised):
    """Closed by us they would cost the clients two failed requests each. PING comes every 5 s; here none does for 11."""
    left = disguised.idle_since + 11 - time.monotonic()
    readable = select.select([w.socket for w in disguised.idle], [], [], max(0.0, left))[0]
    assert not readable
    since = time.monotonic()
    while time.monotonic() - since < 2:  # 16 connections pinged as by a proxy with a period of 1 s, twice
        for wire in disguised.idle:
            assert wire.ask("PING") == ("+", "PONG")
        select.select([w.socket for w in disguised.idle], [], [], 1)


# ---- with the stand-in Codis

def progress(move):
    return move.cluster.api.stats()["slot_action"]["progress"]["status"]


class Counting(threading.Thread):
    """A client of a proxy: counts one key up and sets another one, and remembers what was acknowledged."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.key = key
        self.client, self.end = connect(port), threading.Event()
        self.acked, self.bad = 0, []
        self.start()

    def run(self):
        while not self.end.is_set():
            try:
                got = self.client.incr(self.key)
                if got != self.acked + 1:
                    self.bad.append("%d after %d" % (got, self.acked))
                self.acked = got
                if self.client.get(self.key) != b"%d" % got:
                    self.bad.append("stale read")
            except Exception as e:  # noqa: BLE001 any error of a client is a finding
                self.bad.append(repr(e))

    def stop(self):
        self.end.set()
        self.join()
        return self.acked


def test_T1_T4_T13_T15_T27_a_slot_action_begun_too_early_waits_and_loses_nothing(env):
    """The operator queues the hand-back of slot 950 while it is still OLD: clients go on through the wrapper, the dashboard is
    told why, and it ends by itself once the slot is FINAL. Then every write is at the owner, once."""
    move = Move(env, keys=500)
    assert move("run", "--until", "attach").code == 0
    key = keys_in(950, 950, 1, "Count")[0]
    writers = [Counting(port, "{%s}%s" % (key, name)) for port, name in zip(move.cluster.proxy_ports, "AB")]
    move.cluster.api.put("slots/action/create", 950, 4)
    wait_until("the dashboard is told", lambda: "not handed back yet" in progress(move), 20)
    assert move.cluster.g3.address in progress(move)
    before = [w.acked for w in writers]
    wait_until("clients go on", lambda: all(w.acked > b + 20 for w, b in zip(writers, before)))
    move.admin("PERMIT", "901-1023")
    move.admin("CUTOVER", "950")
    wait_until("cut over", lambda: move.shim_states() == {"new": 1, "old": 122})
    before = [w.acked for w in writers]
    wait_until("clients go on", lambda: all(w.acked > b + 20 for w, b in zip(writers, before)))
    assert move.group_of(950) == 9  # not its owner's word yet
    move.admin("FINAL", "950")
    wait_until("handed back", lambda: move.group_of(950) == 4, 20)
    before = [w.acked for w in writers]
    wait_until("clients go on", lambda: all(w.acked > b + 20 for w, b in zip(writers, before)))
    for w in writers:
        acked = w.stop()
        assert not w.bad, w.bad[:5]
        assert int(connect(move.cluster.g4.port).get(w.key)) == acked
    # Refused for good: another group than the owner's (I7), and the message names both addresses.
    move.cluster.api.put("slots/action/create", 951, 1)
    wait_until("refused", lambda: "slot 951" in progress(move) and move.cluster.g1.address in progress(move), 20)
    assert move.proxy.set(keys_in(951, 951, 1)[0], "v")


def test_T8_T20_the_dashboard_promotes_the_shim_whatever_it_answers(env):
    """A group of a real server and the shim: the sync action fails, the promote goes through, and no slot changes hands."""
    move = Move(env, keys=100)
    api, address = move.cluster.api, "127.0.0.1:%d" % move.shim_port
    spare = env.node("spare")
    api.put("group/create", 7)
    api.put("group/add", 7, spare.address)
    api.put("group/add", 7, address)

    def action():
        group = [g for g in api.stats()["group"]["models"] if g["id"] == 7][0]
        return [s for s in group["servers"] if s["server"] == address][0]["action"].get("state")
    api.put("group/action/create", address)
    wait_until("the sync action has failed", lambda: action() == "synced_failed")
    before = move.shim_states()
    api.put("group/promote", 7, address)
    servers = [g for g in api.stats()["group"]["models"] if g["id"] == 7][0]["servers"]
    assert servers[0]["server"] == address
    stats = wait_until("seen as a master", lambda: api.stats()["group"]["stats"].get(address, {}).get("stats"))
    assert "master_addr" not in stats and not api.stats()["group"]["stats"][address].get("error")
    assert move.shim_states() == before == {"old": 123}


class Relay:
    """Stands before the dashboard: what goes to slots/assign is seen first by `on_assign(body, pass_on)`, whose answer goes back."""

    def __init__(self, env, dashboard, on_assign):
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))

                def pass_on():
                    request = urllib.request.Request("http://%s%s" % (dashboard, self.path), data=body or None,
                                                     method=self.command, headers={"Content-Type": "application/json"})
                    try:
                        with urllib.request.urlopen(request, timeout=30) as answer:
                            return answer.status, answer.read()
                    except urllib.error.HTTPError as error:
                        return error.code, error.read()
                is_assign = "/slots/assign/" in self.path
                if is_assign:
                    relay.assigns += 1
                status, answer = on_assign(body, pass_on) if is_assign else pass_on()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            do_GET = do_PUT = do

            def log_message(self, *args):
                pass

        self.assigns = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        env.cleanups.append(self.server.shutdown)


def test_T25_an_assign_that_says_ok_and_does_nothing_is_not_believed(env):
    move = Move(env, keys=100)
    api = move.cluster.api
    # The dashboard itself: broken and ill-typed JSON is 200 "OK", and nothing is done.
    request = urllib.request.Request("http://%s/api/topom/slots/assign/%s" % (move.cluster.dashboard_address, api.xauth),
                                     data=b'[{"id":950,"group_id":"four"', method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200 and json.loads(answer.read()) == "OK"
    assert move.group_of(950) == 3

    def swallow_two(body, pass_on):
        return (200, b'"OK"') if relay.assigns <= 2 else pass_on()
    relay = Relay(env, move.cluster.dashboard_address, swallow_two)
    move.edit_plan(dashboard=relay.address)
    run = move("run", "--until", "attach")
    assert run.code == 0, run
    assert relay.assigns >= 3 and move.group_of(950) == 9 and move.group_of(1023) == 9


def test_T6_no_assign_over_a_slot_that_is_in_migration(env):
    """It would drop the migration silently, and the keys still at its source with it."""
    move = Move(env, keys=100)
    api = move.cluster.api
    api.put("slots/action/disabled", 1)
    api.put("slots/action/create", 950, 1)
    found = slotferry("preflight", move.plan)
    assert found.code == 1 and "slot 950 is in a migration of the dashboard" in found.out, found
    run = move("run", "--yes")
    assert run.code == 1 and move.group_of(901) == 3, run
    api.put("slots/action/remove", 950)

    # Begun between our assign and its read back, while one proxy still maps the slot elsewhere: not "once more" then.
    def then_somebody_migrates(body, pass_on):
        answer = pass_on()
        if relay.assigns == 1:
            stray_slot(move, 950, move.cluster.g3.address)
            api.put("slots/action/create", 950, 1)
        return answer
    relay = Relay(env, move.cluster.dashboard_address, then_somebody_migrates)
    move.edit_plan(dashboard=relay.address)
    run = move("run", "--yes")
    assert run.code == 1 and "slot 950 is in a migration of the dashboard" in run.err, run
    assert relay.assigns == 1
    assert api.stats()["slots"][950]["action"]["state"] == "pending"


def test_T5_assign_that_reached_half_the_proxies_is_read_back_from_each(env):
    """200 or 800 does not tell which proxies have switched: one that missed it is found, and sent the mapping once more."""
    move = Move(env, keys=100)

    def one_is_left_behind(body, pass_on):
        answer = pass_on()
        if relay.assigns == 1:
            stray_slot(move, 950, move.cluster.g3.address)
            return 800, b'{"Cause": "proxy-[x] resync slots failed", "Stack": null}'
        return answer
    relay = Relay(env, move.cluster.dashboard_address, one_is_left_behind)
    move.edit_plan(dashboard=relay.address)
    run = move("run", "--until", "attach")
    assert run.code == 0, run
    assert relay.assigns >= 2
    key = keys_in(950, 950, 1, "half")[0]
    for port in move.cluster.proxy_ports:
        connect(port).incr(key)
    move.admin("PERMIT", "901-1023")
    move.admin("CUTOVER", "950")
    wait_until("cut over", lambda: move.shim_states() == {"new": 1, "old": 122})
    for port in move.cluster.proxy_ports:
        connect(port).incr(key)
    assert connect(move.cluster.g4.port).get(key) == b"4"


def test_T16_a_dead_proxy_is_found_before_anything_starts(env):
    """It would stop all migrations, and leave slots locked between lock and unlock."""
    move = Move(env, keys=100)
    models = move.cluster.api.stats()["proxy"]["models"]
    move.cluster.proxies[1].kill()
    found = slotferry("preflight", move.plan)
    assert found.code == 1 and "remove it from the dashboard if it is dead" in found.out, found
    run = move("run", "--yes")
    assert run.code == 1 and "nothing was changed" in run.err and move.group_of(901) == 3, run
    dead = re.search(r"proxy (127\.0\.0\.1:\d+) cannot be reached", found.out).group(1)
    move.cluster.api.put("proxy/remove", *[m["token"] for m in models if m["admin_addr"] == dead], 1)
    found = slotferry("preflight", move.plan)
    assert found.code == 0, [row for row in found.out.splitlines() if not row.strip().startswith("ok")]


def test_T26_nobody_of_ours_touches_the_coordinators_store(env):
    """codis-fe and dashboard on one filesystem coordinator make each other fail at random; a third one would too. The migrator
    speaks HTTP with the dashboard alone, and the shim not even that."""
    move = Move(env, keys=100)
    store = env.path("dashboard-state.json")
    seen = set()
    run = subprocess.Popen([program("slotferry"), "run", move.plan, "--until", "attach", "--dir", move.state],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    while run.poll() is None:
        for pid in (run.pid, move.shim.pid):
            try:
                seen |= {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}
            except OSError:
                pass  # ended, or the descriptor was closed meanwhile
        select.select([run.stdout], [], [], 0.002)
    assert run.returncode == 0, run.stdout.read()
    assert seen and not [path for path in seen if path.startswith(store)]
    with open(move.plan) as f:
        assert store not in f.read()


# ---- the table

def named_tests():
    """Every test's name: functions of Python, cases of doctest."""
    root = os.path.dirname(HERE)
    names = []
    for folder, _, files in os.walk(root):
        for name in files:
            if not name.endswith(("_test.cc", ".py")):
                continue
            with open(os.path.join(folder, name), errors="replace") as f:
                text = f.read()
            names += re.findall(r"def (test_\w+)", text)
            names += [re.sub(r'"\s*"', "", case) for case in re.findall(r'TEST_CASE\(\s*("(?:[^"\\]|\\.|"\s*")*")', text)]
    return names


def test_each_of_the_27_traps_has_a_test_of_its_number():
    here = [name for name in globals() if name.startswith("test_T")]
    missing = [n for n in range(1, 28) if not any(re.search(r"(?<![A-Za-z0-9])T0*%d(?![0-9])" % n, name.replace("_", " "))
                                                  for name in here)]
    assert not missing, missing


def test_the_table_of_traps_names_tests_that_exist():
    with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "TRAPS.md")) as f:
        rows = [line for line in f if re.match(r"\| *\d+ *\|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 28))
    known = set(named_tests())
    cases = [name.strip('"') for name in known if name.startswith('"')]
    for row in rows:
        tests = re.findall(r"`(test_\w+)`", row)
        assert tests, row
        for name in tests:
            assert name in known, "%s of trap %s does not exist" % (name, row.split("|")[1])
        for case in re.findall(r'"(T[0-9][^"]*)"', row):
            assert any(c.startswith(case.rstrip(".")) for c in cases), case
