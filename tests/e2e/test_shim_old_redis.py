"""Redis without CLIENT PAUSE WRITE, such as codis-server: the end is accounted for, not fenced (ADR 0026).

SF_OLD_REDIS names the binary of a real one to be used in place of the filter in front of a redis-server 7.
"""
import os
import random
import sys
import time

import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from gate import Gate  # noqa: E402
from old_redis_env import REAL, old_redis  # noqa: E402
from shim_env import Permit, Shim, keys_in, writers  # noqa: E402

SLOTS = "901-1023"
STAY = "801-900"


def ask(server, *words):
    """Over a connection that is gone afterwards: a foreign one stops a cutover."""
    client = connect(server.port, decode_responses=True)
    try:
        return client.execute_command(*words)
    finally:
        client.connection_pool.disconnect()


def link_up(new):
    info = ask(new, "INFO", "replication")
    return info.get("master_link_status") == "up" and info.get("master_sync_in_progress") == 0


def follow(old, new):
    ask(new, "SLAVEOF", "127.0.0.1", old.port)
    wait_until("in sync", lambda: link_up(new))


def pair(env, fill=1000, gated=False, **kw):
    """`gated`: the shim reaches the new server by a relay, `shim.gate`, that can stop commands."""
    old, new = old_redis(env, "old"), old_redis(env, "new")
    client = connect(old.port)
    pipe = client.pipeline(transaction=False)
    for key in keys_in(801, 1023, fill, "fill"):
        pipe.set(key, key)
    pipe.execute()
    client.connection_pool.disconnect()
    follow(old, new)
    gate = Gate(env, new) if gated else None
    shim = Shim(env, old.address, gate.address if gated else new.address, SLOTS, "redis", **kw)
    shim.gate = gate
    return old, new, shim.start(init=True)


def end(load, port):
    for w in load:
        w.stop()
    for w in load:
        w.check(port)


def test_I1_I2_cutover_under_writes_loses_nothing():
    with Env() as env:
        old, new, shim = pair(env, stay=STAY)
        moving, staying = writers(shim.port, 901, 1023, 4), writers(shim.port, 801, 900, 2, prefix="s")
        wait_until("writes", lambda: all(w.writes > 50 for w in moving + staying))
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, shim.audit()[-5:])
        before = [w.writes for w in moving + staying]
        wait_until("writes after", lambda: all(w.writes > n + 50 for w, n in zip(moving + staying, before)))
        print("pause us", shim.status()["pause_max_us"])
        end(moving, new.port)
        end(staying, old.port)
        assert ask(new, "INFO", "replication")["role"] == "master"
        assert ask(old, "CONFIG", "GET", "repl-ping-slave-period")[1] == "10"
        assert ask(new, "EXISTS", "{__slotferry}__slotferry:fence:p1") == 0
        if not REAL:
            on, off = ask(old, "FILTER", "EXPIRE").split(",")
            assert (on, off) == ("1", "1")


def test_I2c_without_slots_that_stay_the_old_master_is_closed_as_well():
    with Env() as env:
        old, new, shim = pair(env)
        load = writers(shim.port, 901, 1023, 3)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        assert shim.cutover()[0][1] == "NEW", shim.rows()
        end(load, new.port)
        try:
            ask(old, "SET", "k", "v")
            raise AssertionError("the old master takes writes")
        except redis.ResponseError as e:
            assert "NOREPLICAS" in str(e)


def test_I2_a_foreign_connection_refuses_the_cutover_and_is_named():
    with Env() as env:
        old, _, shim = pair(env)
        stranger = connect(old.port).connection_pool.get_connection("x")
        stranger.send_command("SET", "k", 1)
        stranger.read_response()
        name = "%s:%d" % stranger._sock.getsockname()[:2]
        result = shim.cutover()
        assert result[0][1] == "OLD" and "foreign" in result[0][4] and name in result[0][4], result
        stranger.disconnect()
        wait_until("switched", lambda: shim.cutover()[0][1] == "NEW", 10)


def test_I2b_a_write_whose_connection_broke_is_waited_for_and_not_lost():
    with Env() as env:
        old, new, shim = pair(env)
        (key,) = keys_in(901, 1023, 1, "orphan")
        client = connect(shim.port, timeout=5)
        if REAL:
            os.kill(old.server_pid, 19)
        try:
            client.set(key, "late")
            raise AssertionError("answered")
        except redis.RedisError:
            pass
        result = shim.cutover()
        assert result[0][1] == "OLD", result
        if REAL:
            os.kill(old.server_pid, 18)
        else:
            assert "never answered" in result[0][4] or "foreign" in result[0][4], result
            assert "127.0.0.1:" in result[0][4], result
            assert ask(old, "EXISTS", key) == 0
            ask(old, "FILTER", "RELEASE")
        wait_until("switched", lambda: shim.cutover()[0][1] == "NEW", 20)
        assert ask(new, "GET", key) == "late" == ask(old, "GET", key)


def test_I3_a_new_side_that_left_is_taken_back_by_a_full_copy_and_the_old_one_serves():
    with Env() as env:
        old, new, shim = pair(env, gated=True, max_pause_ms=5000)
        load = writers(shim.port, 901, 1023, 3, tolerate_errors=True)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        # It leaves by somebody's hand: no replica is no candidate, and it is not made one in silence.
        ask(new, "SLAVEOF", "NO", "ONE")
        result = shim.cutover()
        assert result[0][1] == "OLD" and "follows nobody" in result[0][4], result
        follow(old, new)
        permit = Permit(shim.admin_port, SLOTS)
        copies = ask(old, "INFO", "stats")["sync_full"]
        stopped = shim.gate.stop("SLAVEOF", "NO", answer=True)
        shim.ask("PERMIT", SLOTS)
        trigger = connect(shim.admin_port, timeout=5).connection_pool.get_connection("x")
        trigger.send_command("SHIM", "CUTOVER", SLOTS)
        stopped.wait()
        wait_until("left", lambda: ask(new, "INFO", "replication")["role"] == "master")
        shim.proc.kill()
        stopped.release()
        shim.start()
        assert set(shim.states().values()) == {"OLD"}, shim.rows()
        count = sum(w.writes for w in load)
        wait_until("writes at the old side", lambda: sum(w.writes for w in load) > count + 50)
        wait_until("follows again", lambda: link_up(new))
        assert ask(old, "INFO", "stats")["sync_full"] == copies + 1
        wait_until("switched", lambda: shim.cutover()[0][1] == "NEW", 20)
        permit.stop()
        end(load, new.port)


def test_I10_kill9_at_random_moments_one_owner():
    rng = random.Random(int(os.environ.get("SF_SEED", "7")))
    with Env() as env:
        old, new, shim = pair(env)
        load = writers(shim.port, 901, 1023, 3, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        for _ in range(int(os.environ.get("SF_KILLS", "6"))):
            shim.ask("PERMIT", SLOTS)
            shim.admin.connection_pool.disconnect()
            trigger = connect(shim.admin_port, timeout=5)
            trigger.connection_pool.get_connection("x").send_command("SHIM", "CUTOVER", SLOTS)
            time.sleep(rng.uniform(0, 0.03))
            shim.proc.kill()
            shim.start()
            states = set(shim.states().values())
            assert states in ({"OLD"}, {"NEW"}), shim.rows()
            if states == {"NEW"}:
                break
            wait_until("in sync", lambda: link_up(new))
        else:
            wait_until("switched", lambda: shim.cutover()[0][1] == "NEW")
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 100)
        permit.stop()
        end(load, new.port)
