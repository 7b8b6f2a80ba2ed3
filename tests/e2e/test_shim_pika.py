"""The shim in front of two Pika servers, as the fake Pika plays them: cutover under writes, late writes of connections that
are gone, restarts, kill -9. Names carry the invariant."""
import os
import sys

import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from shim_env import Permit, Shim, keys_in, link_up, pika, writers  # noqa: E402

SLOTS = "901-1023"
STAY = "801-900"


def close(client):
    client.connection_pool.disconnect()


def role_of(proc):
    return proc.ask("INFO", "replication")["role"]


def attach(old, new):
    for key in keys_in(801, 1023, 500, "fill"):
        old.ask("SET", key, key)
    new.ask("SLAVEOF", "127.0.0.1", str(old.port))
    new.ask("CONFIG", "REWRITE")
    wait_until("link up", lambda: link_up(new))


def classic(env, stay=STAY, host="127.0.0.1", dashboard="127.0.0.1:18080", **kw):
    old, new = pika(env, "old"), pika(env, "new")
    attach(old, new)
    shim = Shim(env, "%s:%d" % (host, old.port), "%s:%d" % (host, new.port), SLOTS, "pika", stay=stay, max_pause_ms=5000, **kw)
    shim.write_plan(dashboard=dashboard, accept=["streams"])
    return old, new, shim.start(init=True)


def automatic(shim):
    try:
        shim.ask("PERMIT", SLOTS)
        return shim.ask("AUTO", "ON", SLOTS)
    except redis.ResponseError:
        return False


def ended(shim):
    return [line["text"] for line in shim.audit() if line["what"] == "cutover ended"]


def finish(load, ports):
    for w in load:
        w.stop()
    for w in load:
        w.check(ports[w])


def test_I1_I2_classic_under_writes_loses_nothing_and_stays_writable():
    with Env() as env:
        old, new, shim = classic(env)
        new.ask("FAKE", "SET", "apply_delay_ms", "20")
        moving, staying = writers(shim.port, 901, 1023, 4), writers(shim.port, 801, 900, 2, prefix="s")
        wait_until("writes", lambda: all(w.writes > 30 for w in moving + staying))
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, ended(shim))
        before = sum(w.writes for w in moving), sum(w.writes for w in staying)
        wait_until("writes after", lambda: sum(w.writes for w in moving) > before[0] + 100
                   and sum(w.writes for w in staying) > before[1] + 50)
        finish(moving + staying, {**{w: new.port for w in moving}, **{w: old.port for w in staying}})
        assert set(shim.states().values()) == {"NEW"} and set(shim.states(STAY).values()) == {"STAY"}
        assert new.ask("CONFIG", "GET", "slaveof") == ["slaveof", ""]
        assert not [k for k in new.ask("KEYS", "*__slotferry*") if "owner" not in k]
        print("pause us", shim.status()["pause_max_us"], "client max ms", max(w.max_ms for w in moving))


def test_I3_the_slow_first_leaving_after_a_copy_is_done_before_the_pause():
    """Measured on 3.5.5: it takes up to 4 s, the next one milliseconds."""
    with Env() as env:
        old, new = pika(env, "old"), pika(env, "new")
        new.ask("FAKE", "SET", "leave_ms", "2500")
        attach(old, new)
        shim = Shim(env, "127.0.0.1:%d" % old.port, "127.0.0.1:%d" % new.port, SLOTS, "pika", max_pause_ms=2000)
        shim.write_plan(dashboard="127.0.0.1:18080", accept=["streams"])
        shim.start(init=True)
        load = writers(shim.port, 901, 1023, 3)
        wait_until("writes", lambda: all(w.writes > 30 for w in load))
        permit = Permit(shim.admin_port, SLOTS)
        result = shim.cutover()
        wait_until("new", lambda: set(shim.states().values()) == {"NEW"})
        permit.stop()
        assert not [text for text in ended(shim) if "taken back" in text], (result, ended(shim))
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 50)
        finish(load, {w: new.port for w in load})
        print("pause us", shim.status()["pause_max_us"])


def test_I3_kill9_of_the_shim_while_the_new_side_has_left_before_the_pause():
    with Env() as env:
        old, new, shim = classic(env, stay="")
        new.ask("FAKE", "SET", "attach_ms", "60000")  # it stays without a link, and the shim waits for that
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("permit and automatic", lambda: automatic(shim))
        wait_until("left and follows again", lambda: any(
            line["what"].startswith("setting noted") and line["name"].startswith("pika.end") for line in shim.audit()))
        shim.proc.kill()
        new.ask("FAKE", "SET", "attach_ms", "0")
        new.ask("SLAVEOF", "NO", "ONE")  # as if it had been killed before it said SLAVEOF
        shim.start()
        wait_until("follows", lambda: link_up(new))
        load = writers(shim.port, 901, 1023, 2)
        result = shim.cutover()
        wait_until("new", lambda: set(shim.states().values()) == {"NEW"})
        permit.stop()
        assert [row[1] for row in result] == ["NEW"], (result, ended(shim))
        finish(load, {w: new.port for w in load})


def test_I2_a_late_write_of_a_gone_connection_takes_the_attempt_back():
    """It falls after the end was proved; the next attempt goes through."""
    with Env() as env:
        old, new, shim = classic(env, stay="")
        key = keys_in(901, 1023, 1, "late")[0]
        load = writers(shim.port, 901, 1023, 3)
        wait_until("writes", lambda: all(w.writes > 30 for w in load))
        # An attempt asks CLIENT LIST before it holds, and between the proof and the promote; the look of each second may fall
        # anywhere between. Whichever of the first ones stands after a proof, a late write falls there.
        for count in range(2, 7):
            old.ask("FAKE", "ON", "CLIENT", str(count), "SET", key, "executed")
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, ended(shim))
        assert any("(c)" in text for text in ended(shim)), ended(shim)
        assert new.ask("GET", key) == "executed"
        finish(load, {w: new.port for w in load})


def test_I2_a_foreign_connection_to_the_old_master_is_a_reason_not_to_begin():
    with Env() as env:
        old, new, shim = classic(env, stay="", host="localhost", dashboard="192.0.2.1:18080")
        stranger = connect(old.port)
        stranger.ping()
        result = shim.cutover()
        assert [row[1] for row in result] == ["OLD"], result
        assert "foreign connection" in result[0][4] or any("foreign connection" in t for t in ended(shim)), result
        close(stranger)


def test_I2b_a_slave_that_was_killed_is_not_trusted_and_is_copied_anew():
    with Env() as env:
        old, new, shim = classic(env, stay="")
        new.ask("FAKE", "SET", "apply_delay_ms", "60000")
        key = keys_in(901, 1023, 1, "queued")[0]
        connect(shim.port).set(key, 1)
        new.ask("FAKE", "CRASH")
        new.ask("FAKE", "SET", "apply_delay_ms", "0")
        wait_until("link up", lambda: link_up(new))
        assert new.ask("GET", key) is None  # lost for ever, and everything looks well
        # The shim asks for the copy itself, and sees it.
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, ended(shim))
        assert new.ask("GET", key) == "1"


def test_I2b_faults_of_replication_are_named_and_only_what_cannot_be_healed_stops_the_cutover():
    with Env() as env:
        old, new, shim = classic(env)
        shim.write_plan(accept=[])
        shim.ask("RELOAD")
        old.ask("FAKE", "SET", "ttl_lost", "1")
        old.ask("FAKE", "SET", "append_empty", "1")
        wait_until("refused", lambda: "streams out" in str(shim.cutover()))
        assert set(shim.states().values()) == {"OLD"}
        shim.write_plan(accept=["streams"])
        shim.ask("RELOAD")
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, ended(shim))
        faults = shim.status()["replication_faults"]
        assert "lose the TTL" in faults and "leaves it empty" in faults, faults


def test_I10_kill9_of_the_shim_in_each_step_one_owner():
    with Env() as env:
        old, new, shim = classic(env)
        new.ask("FAKE", "SET", "apply_delay_ms", "30")
        load = writers(shim.port, 901, 1023, 3, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        ends = []
        # "promoted": the new side has left replication and does not answer any more.
        for step in ("announce", "fence", "fence-permanent", "promote", "promoted", "promoted", "mark"):
            wait_until("in sync", lambda: link_up(new))
            wait_until("permit and automatic", lambda: automatic(shim))
            count = len(shim.audit())
            begun = "fence" if step == "promoted" else step
            wait_until(step, lambda: any(line["what"] == "step begins" and line["step"] == begun
                                         for line in shim.audit()[count:]), timeout=20, step=0.0005)
            if step == "promoted":
                new.ask("FAKE", "SILENT", "CONFIG")
                wait_until(step, lambda: role_of(new) == "master")
            shim.proc.kill()
            role = role_of(new)
            new.ask("FAKE", "SILENT", "no")
            shim.start()
            ends.append("%s %s %s" % (step, role, "/".join(set(shim.states().values()))))
            if set(shim.states().values()) == {"NEW"}:
                break
        permit.stop()
        print(ends)
        assert ends[4:6] == ["promoted master OLD"] * 2, ends
        if set(shim.states().values()) != {"NEW"}:
            wait_until("in sync", lambda: link_up(new))
            result = shim.cutover()
            assert [row[1] for row in result] == ["NEW"], (result, ended(shim), ends)
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 50)
        finish(load, {w: new.port for w in load})


def test_I1_I2_sharding_slot_by_slot_under_writes_and_the_way_back():
    with Env() as env:
        args = ("--sharding", "--version", "3.4.0", "--slots", "801-1023")
        old, new = pika(env, "old", *args), pika(env, "new", *args)
        for key in keys_in(801, 1023, 500, "fill"):
            old.ask("SET", key, key)
        slots = "1004-1023"
        new.ask("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", str(old.port), slots, "force")
        wait_until("slots connected", lambda: new.ask("PKCLUSTER", "INFO", "SLOT", slots).count("kConnected") == 20)
        shim = Shim(env, old.address, new.address, slots, "pika-sharding", max_pause_ms=3000)
        shim.write_plan(unit="slot")
        shim.start(init=True)
        new.ask("FAKE", "SET", "apply_delay_ms", "5")
        load = writers(shim.port, 1004, 1023, 4)
        wait_until("writes", lambda: all(w.writes > 30 for w in load))
        permit = Permit(shim.admin_port, slots)
        result = shim.cutover(slots)
        permit.stop()
        assert [row[1] for row in result] == ["NEW"] * 20, ([row for row in result if row[1] != "NEW"], ended(shim)[:3])
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 100)
        wait_until("old slots follow", lambda: old.ask("PKCLUSTER", "INFO", "SLOT", slots).count("kConnected") == 20)
        finish(load, {w: new.port for w in load})
        for w in load:
            for key in w.keys:
                wait_until("way back", lambda: old.ask("GET", key) == new.ask("GET", key))
        # A restart judges each slot by its own marker.
        shim.proc.kill()
        shim.start()
        assert set(shim.states(slots).values()) == {"NEW"}
        print("pause us p50 %d max %d" % (shim.status()["pause_p50_us"], shim.status()["pause_max_us"]))
