"""The shim's control half against real servers: cutover under writes, kill -9, refusals. Names carry the invariant."""
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, free_port, program, wait_until  # noqa: E402
from shim_env import Permit, Shim, follow_node, follow_redis, keys_in, writers  # noqa: E402

SLOTS = "901-1023"
STAY = "801-900"


def load_keys(port, count):
    client = connect(port)
    pipe = client.pipeline(transaction=False)
    for key in keys_in(801, 1023, count, "fill"):
        pipe.set(key, key)
    pipe.execute()
    # close() alone leaves the connection in its pool, and a foreign connection stops a cutover.
    client.connection_pool.disconnect()


def redis_pair(env, fill=2000):
    old, new = env.redis("old"), env.redis("new")
    load_keys(old.port, fill)
    follow_redis(old.port, new.port)
    return old, new


def redis_shim(env, stay="", **kw):
    old, new = redis_pair(env)
    return old, new, Shim(env, old.address, new.address, SLOTS, "redis", stay=stay, **kw).start(init=True)


def test_I1_I2_redis_cutover_under_writes_loses_nothing():
    with Env() as env:
        old, new, shim = redis_shim(env)
        load = writers(shim.port, 901, 1023)
        wait_until("writes", lambda: all(w.writes > 50 for w in load))
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], result
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 300)
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)
        assert set(shim.states().values()) == {"NEW"}
        status = shim.status()
        print("pause us", status["pause_max_us"], "sync us", status["sync_p99_us"], "client max ms",
              max(w.max_ms for w in load))
        # The old side refuses writes from now on: every slot of it moved.
        with pytest.raises(redis.RedisError):
            connect(old.port).set("{x}y", 1)
        assert connect(old.port).config_get("repl-ping-replica-period")["repl-ping-replica-period"] == "10"
        assert connect(new.port).info("replication")["role"] == "master"
        whats = [line["what"] for line in shim.audit()]
        assert whats.index("cutover begins") < whats.index("owner record") < whats.index("cutover done")


def test_I2_redis_with_slots_that_stay():
    with Env() as env:
        old, new, shim = redis_shim(env, stay=STAY)
        moving, staying = writers(shim.port, 901, 1023, 3), writers(shim.port, 801, 900, 3, prefix="s")
        wait_until("writes", lambda: all(w.writes > 50 for w in moving + staying))
        result = shim.cutover()
        assert [row[1] for row in result] == ["NEW"], (result, shim.audit())
        before = sum(w.writes for w in staying)
        wait_until("writes after", lambda: sum(w.writes for w in staying) > before + 200)
        for w in moving + staying:
            w.stop()
        for w in moving:
            w.check(new.port)
        for w in staying:
            w.check(old.port)
        assert set(shim.states(STAY).values()) == {"STAY"}


def node_pair(env, fill=2000):
    old, new = env.node("old"), env.node("new")
    load_keys(old.port, fill)
    follow_node(old.port, new.port, SLOTS)
    return old, new


def node_shim(env, **kw):
    old, new = node_pair(env)
    return old, new, Shim(env, old.address, new.address, SLOTS, "node", **kw).start(init=True)


def positions(proc, slots=SLOTS):
    return connect(proc.port, decode_responses=True).execute_command("REPLICATION", "POSITIONS", slots)


def test_I1_I2_M04_node_123_slots_cut_over_under_writes():
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 1023)
        wait_until("writes", lambda: all(w.writes > 50 for w in load))
        permit = Permit(shim.admin_port, SLOTS)
        start = time.monotonic()
        result = shim.cutover()
        took = time.monotonic() - start
        permit.stop()
        assert [row[1] for row in result] == ["NEW"] * 123, [row for row in result if row[1] != "NEW"][:3]
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 300)
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)
        status = shim.status()
        print("123 slots in %.1f s; pause us p50 %d p99 %d max %d, sync p99 %d, client max ms %.1f" % (
            took, status["pause_p50_us"], status["pause_p99_us"], status["pause_max_us"], status["sync_p99_us"],
            max(w.max_ms for w in load)))
        gaps = sorted(line["gap_us"] for line in shim.audit() if line["what"] == "cutover done" and line["gap_us"] >= 0)
        print("idle gap between units us p50 %d p99 %d max %d of %d; bar 50,000 on a quiet machine" % (
            gaps[len(gaps) // 2], gaps[len(gaps) * 99 // 100], gaps[-1], len(gaps)))
        assert len(gaps) > 100 and status["gap_max_us"] == gaps[-1]
        assert gaps[len(gaps) // 2] < 200_000, "half of the gaps are long: %s" % gaps[-5:]
        # The old side refuses writes and reads of these slots, and follows the new side.
        with pytest.raises(redis.RedisError):
            connect(old.port).set(load[0].keys[0], 1)
        assert {row[1] for row in positions(new)} == {"master"}
        wait_until("reverse link", lambda: {(row[1], row[4]) for row in positions(old)} == {("slave", "up")})
        # A slot that stays is served by the old side as ever.
        assert connect(old.port).set(keys_in(801, 900, 1)[0], 1)


def test_I1_I2_node_four_units_held_at_once_lose_nothing():
    with Env() as env:
        old, new = node_pair(env)
        shim = Shim(env, old.address, new.address, SLOTS, "node")
        shim.write_plan(units_in_flight=4, hold_share_percent=50)
        shim.start(init=True)
        load = writers(shim.port, 901, 1023)
        wait_until("writes", lambda: all(w.writes > 50 for w in load))
        permit = Permit(shim.admin_port, SLOTS)
        start = time.monotonic()
        all_in(shim, "NEW", "CUTOVER", "901-960")
        took = time.monotonic() - start
        all_in(shim, "OLD", "ROLLBACK", "901-960")
        all_in(shim, "NEW", "CUTOVER", SLOTS)
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)
        one_owner(old, new, shim.states())
        epochs = [line["epoch"] for line in shim.audit() if line["what"] in ("cutover begins", "rollback begins")]
        assert len(epochs) == len(set(epochs)), "an epoch was used twice"
        print("60 slots in %.2f s, four at once; client max ms %.1f" % (took, max(w.max_ms for w in load)))


def test_I10_node_kill9_at_random_moments_one_owner():
    seed = int(os.environ.get("SF_SEED", "11"))
    rng = random.Random(seed)
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 1023, 4, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        for _ in range(15):
            shim.ask("PERMIT", SLOTS)
            shim.admin.connection_pool.disconnect()
            trigger = connect(shim.admin_port, timeout=5)
            trigger.connection_pool.get_connection("x").send_command("SHIM", "CUTOVER", SLOTS)
            time.sleep(rng.uniform(0, 0.6))
            shim.proc.kill()
            shim.start()
            states = shim.states()
            assert set(states.values()) <= {"OLD", "NEW"}, shim.rows()
            one_owner(old, new, states)
        wait_until("switched", lambda: {row[1] for row in shim.cutover()} == {"NEW"}, timeout=60)
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 100)
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)


def one_owner(old, new, states):
    """I1: of each slot at most one side takes writes, and it is the one the shim names."""
    old_rows = {row[0]: row for row in positions(old)}
    new_rows = {row[0]: row for row in positions(new)}
    for slot, state in states.items():
        old_open = old_rows[slot][1] == "master" and old_rows[slot][5] == "no"
        new_open = new_rows[slot][1] == "master" and new_rows[slot][5] == "no"
        assert old_open != new_open, (slot, state, old_rows[slot], new_rows[slot])
        assert new_open == (state == "NEW"), (slot, state, old_rows[slot], new_rows[slot])


PART = "901-940"


def all_in(shim, state, verb, slots=PART):
    """CUTOVER or ROLLBACK until every slot is there: what is taken back or not yet linked is asked for again."""
    def done():
        shim.ask("PERMIT", slots)
        return {row[1] for row in shim.ask(verb, slots)} == {state}
    wait_until("%s %s" % (verb, slots), done, timeout=60)


def test_I1_I3_node_rollback_under_writes_loses_nothing_and_forward_again():
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 940) + writers(shim.port, 941, 1023, 2, prefix="o")
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 50 for w in load))
        assert {row[4] for row in shim.ask("ROLLBACK", "901")} == {"the old side owns it already"}
        for _ in range(2):
            all_in(shim, "NEW", "CUTOVER")
            count = sum(w.writes for w in load)
            wait_until("writes there", lambda: sum(w.writes for w in load) > count + 200)
            all_in(shim, "OLD", "ROLLBACK")
            count = sum(w.writes for w in load)
            wait_until("writes back", lambda: sum(w.writes for w in load) > count + 200)
            one_owner(old, new, shim.states(PART))
            # The new side follows again, so that the move can go on.
            wait_until("linked", lambda: {(row[1], row[4]) for row in positions(new, PART)} == {("slave", "up")})
        all_in(shim, "NEW", "CUTOVER", SLOTS)
        one_owner(old, new, shim.states())
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)
        status = shim.status()
        print("pause us p50 %d p99 %d max %d of %d switches both ways; client max ms %.1f" % (
            status["pause_p50_us"], status["pause_p99_us"], status["pause_max_us"], status["cutovers"],
            max(w.max_ms for w in load)))
        whats = [line["what"] for line in shim.audit()]
        assert whats.index("rollback begins") < whats.index("rollback done")
        shim.ask("FINAL", "901")
        shim.ask("PERMIT", "901")
        assert "handed back" in shim.ask("ROLLBACK", "901")[0][4]


def test_I10_node_kill9_in_the_middle_of_roll_backs_one_owner():
    seed = int(os.environ.get("SF_SEED", "12"))
    rng = random.Random(seed)
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 940, 4, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        killed_between = 0
        for _ in range(8):
            all_in(shim, "NEW", "CUTOVER")
            shim.ask("PERMIT", SLOTS)
            shim.admin.connection_pool.disconnect()
            trigger = connect(shim.admin_port, timeout=5)
            trigger.connection_pool.get_connection("x").send_command("SHIM", "ROLLBACK", PART)
            time.sleep(rng.uniform(0, 1.2))
            shim.proc.kill()
            shim.start()
            states = shim.states(PART)
            assert set(states.values()) <= {"OLD", "NEW"}, shim.rows(PART)
            killed_between += len(set(states.values())) == 2
            one_owner(old, new, states)
        print("killed with slots on both sides: %d of 8" % killed_between)
        all_in(shim, "NEW", "CUTOVER")
        all_in(shim, "OLD", "ROLLBACK")
        for w in load:
            w.stop()
        for w in load:
            w.check(old.port)
        all_in(shim, "NEW", "CUTOVER")
        for w in load:
            w.check(new.port)
        permit.stop()


def test_redis_has_no_way_back_and_says_why():
    with Env() as env:
        _, _, shim = redis_shim(env)
        assert [row[1] for row in shim.cutover()] == ["NEW"]
        shim.ask("PERMIT", SLOTS)
        with pytest.raises(redis.RedisError, match="the old side does not follow the new one"):
            shim.ask("ROLLBACK", SLOTS)


class LosesPromote:
    """Between the shim and the new side: the answer to the first PROMOTE, and what follows on that connection, is lost."""

    def __init__(self, env, target):
        self.target, self.lost, self.end = target, threading.Event(), False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = "127.0.0.1:%d" % self.port
        threading.Thread(target=self.accept, daemon=True).start()
        env.cleanups.append(self.close)

    def close(self):
        self.end = True
        self.listener.close()

    def accept(self):
        while not self.end:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            mute = threading.Event()
            for source, sink, there in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.run, args=(source, sink, there, mute), daemon=True).start()

    def run(self, source, sink, there, mute):
        try:
            while data := source.recv(1 << 16):
                if there and b"PROMOTE\r\n" in data and not self.lost.is_set():
                    mute.set()
                    self.lost.set()
                if there or not mute.is_set():
                    sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_M01_I3_the_answer_to_promote_is_lost_and_never_do_both_sides_take_writes():
    with Env() as env:
        old, new = node_pair(env)
        link = LosesPromote(env, new.port)
        shim = Shim(env, old.address, link.address, SLOTS, "node").start(init=True)
        load = writers(shim.port, 901, 905, 2)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        seen, both, end = set(), [], threading.Event()
        clients = [connect(p.port, decode_responses=True) for p in (new, old)]

        def is_open(client):
            row = client.execute_command("REPLICATION", "POSITIONS", "905")[0]
            return row[1] == "master" and row[5] == "no"

        def watch():
            while not end.is_set():
                states = [is_open(clients[0]), is_open(clients[1]), is_open(clients[0])]  # the new side around the old one
                seen.add(tuple(states[:2]))
                if all(states):
                    both.append(states)
        watcher = threading.Thread(target=watch)
        watcher.start()
        permit = Permit(shim.admin_port, SLOTS)
        try:
            wait_until("cut after all", lambda: shim.cutover("905")[0][1] == "NEW", 60)
            assert link.lost.is_set()
            count = sum(w.writes for w in load)
            wait_until("writes after", lambda: sum(w.writes for w in load) > count + 50)
        finally:
            end.set()
            watcher.join()
            permit.stop()
        assert both == [] and (False, True) in seen
        tries = [line for line in shim.audit() if line["what"] == "cutover begins" and line["slots"] == "905"]
        assert len(tries) > 1, "the attempt whose answer was lost was not taken back: %s" % tries
        for w in load:
            w.stop()
            w.check(shim.port)
        with pytest.raises(redis.ResponseError, match="MOVEDSLOT|TRYAGAIN|READONLY"):
            connect(old.port).set(keys_in(905, 905, 1)[0], 1)


def test_I3_node_new_side_stopped_is_taken_back_within_the_bound():
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 1023, 3)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        permit = Permit(shim.admin_port, SLOTS)
        os.kill(new.pid, 19)  # SIGSTOP
        try:
            result = shim.cutover("905", "MAXPAUSE", "100")
            assert result[0][1] == "OLD", result
        finally:
            os.kill(new.pid, 18)
        for w in load:
            w.stop()
        for w in load:
            w.check(old.port)
        wait_until("cut after all", lambda: shim.cutover("905")[0][1] == "NEW")
        permit.stop()


@pytest.mark.parametrize("side", ["old", "new"])
def test_I3_node_master_killed_during_cutovers_loses_nothing(side):
    with Env() as env:
        old, new, shim = node_shim(env)
        victim = old if side == "old" else new
        load = writers(shim.port, 901, 1023, 3, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        shim.ask("PERMIT", SLOTS)
        trigger = connect(shim.admin_port, timeout=5)
        trigger.connection_pool.get_connection("x").send_command("SHIM", "CUTOVER", SLOTS)
        wait_until("some are switched", lambda: "NEW" in shim.states().values())
        victim.kill()
        time.sleep(0.5)
        victim.start()
        wait_until("all switched", lambda: {row[1] for row in shim.cutover()} == {"NEW"}, timeout=60)
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 100)
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)


def test_node_abort_in_the_middle_of_a_queue():
    with Env() as env:
        old, new, shim = node_shim(env)
        load = writers(shim.port, 901, 1023, 3)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        shim.ask("PERMIT", SLOTS)
        other = connect(shim.admin_port, timeout=60, decode_responses=True)
        queued = other.connection_pool.get_connection("x")
        queued.send_command("SHIM", "CUTOVER", SLOTS)
        wait_until("some are switched", lambda: "NEW" in shim.states().values())
        assert shim.ask("ABORT", SLOTS) == "OK"
        result = queued.read_response()
        assert len(result) == 123
        aborted = [row for row in result if row[1] == "OLD"]
        assert aborted and all("abort" in row[4] for row in aborted), aborted[:3]
        states = shim.states()
        assert set(states.values()) == {"OLD", "NEW"}
        one_owner(old, new, states)
        assert {row[1] for row in shim.cutover()} == {"NEW"}
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)


def test_node_auto_mode_cuts_slots_without_writes_too():
    with Env() as env:
        _, _, shim = node_shim(env)
        permit = Permit(shim.admin_port, SLOTS)
        shim.ask("PERMIT", SLOTS)
        assert shim.ask("AUTO", "ON", "901-920") == "OK"
        wait_until("switched by itself", lambda: set(shim.states("901-920").values()) == {"NEW"}, timeout=30)
        assert set(shim.states("921-1023").values()) == {"OLD"}
        permit.stop()


def test_old_master_that_becomes_a_replica_gets_no_writes():
    with Env() as env:
        old, new, shim = redis_shim(env)
        other = env.redis("other")
        key = keys_in(901, 1023, 1)[0]
        client = connect(shim.port)
        assert client.set(key, 1)
        connect(old.port).execute_command("REPLICAOF", "127.0.0.1", other.port)

        def refused_write():
            try:
                client.set(key, 2)
            except redis.ResponseError as e:
                return "READONLY" not in str(e) and str(e)
            return False
        wait_until("writes stopped by the shim itself", refused_write)
        assert shim.cutover()[0][1] == "OLD"
        connect(old.port).execute_command("REPLICAOF", "NO", "ONE")
        wait_until("writes go on", lambda: not refused_write())


def test_node_older_copy_of_the_record_is_refused():
    with Env() as env:
        _, _, shim = node_shim(env)
        shim.proc.stop()
        subprocess.run(["cp", "-r", shim.dir, shim.dir + ".before"], check=True)
        shim.start()
        assert shim.cutover("905")[0][1] == "NEW"
        shim.proc.stop()
        subprocess.run(["mv", shim.dir, shim.dir + ".after"], check=True)
        subprocess.run(["mv", shim.dir + ".before", shim.dir], check=True)
        refused(list(shim.proc.argv), "older copy")


def test_permit_is_needed_and_void_after_restart():
    with Env() as env:
        _, _, shim = redis_shim(env)
        with pytest.raises(redis.ResponseError, match="permit"):
            shim.ask("CUTOVER", SLOTS)
        shim.ask("PERMIT", SLOTS)
        assert shim.status()["permit_ms_left"] > 9000
        shim.proc.kill()
        shim.start()
        assert shim.status()["permit_ms_left"] == 0
        with pytest.raises(redis.ResponseError, match="permit"):
            shim.ask("CUTOVER", SLOTS)


def test_I2_redis_foreign_connection_stops_the_cutover():
    with Env() as env:
        old, _, shim = redis_shim(env)
        stranger = connect(old.port)
        stranger.set("{fill}stranger", 1)
        result = shim.cutover()
        assert result[0][1] == "OLD" and "foreign" in result[0][4], result
        assert set(shim.states().values()) == {"OLD"}
        stranger.connection_pool.disconnect()
        assert shim.cutover()[0][1] == "NEW"


def test_I2d_redis_replica_that_does_not_apply_is_waited_for_and_taken_back():
    with Env() as env:
        old, new, shim = redis_shim(env)
        load = writers(shim.port, 901, 1023, 3)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        permit = Permit(shim.admin_port, SLOTS)
        os.kill(new.pid, 19)  # SIGSTOP: received, not applied
        try:
            start = time.monotonic()
            result = shim.cutover(SLOTS, "MAXPAUSE", "100")
            assert result[0][1] == "OLD", result
        finally:
            os.kill(new.pid, 18)
            permit.stop()
        assert time.monotonic() - start < 20
        for w in load:
            w.stop()
        for w in load:
            w.check(old.port)
        wait_until("link up again", lambda: connect(new.port).info("replication")["master_link_status"] == "up")
        assert shim.cutover()[0][1] == "NEW"


def test_I10_redis_kill9_at_random_moments_one_owner():
    seed = int(os.environ.get("SF_SEED", "7"))
    rng = random.Random(seed)
    with Env() as env:
        old, new, shim = redis_shim(env)
        load = writers(shim.port, 901, 1023, 4, tolerate_errors=True)
        permit = Permit(shim.admin_port, SLOTS)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        for _ in range(12):
            try:
                shim.ask("PERMIT", SLOTS)
                shim.admin.connection_pool.disconnect()
                trigger = connect(shim.admin_port, timeout=5)
                trigger.connection_pool.get_connection("x").send_command("SHIM", "CUTOVER", SLOTS)
                time.sleep(rng.uniform(0, 0.03))
            finally:
                shim.proc.kill()
            shim.start()
            states = set(shim.states().values())
            assert states in ({"OLD"}, {"NEW"}), shim.rows()
            wait_until("in sync, or switched", lambda: "NEW" in states or
                       connect(new.port).info("replication").get("master_link_status") == "up")
            if states == {"NEW"}:
                break
        else:
            wait_until("switched", lambda: shim.cutover()[0][1] == "NEW")
        count = sum(w.writes for w in load)
        wait_until("writes after", lambda: sum(w.writes for w in load) > count + 100)
        permit.stop()
        for w in load:
            w.stop()
        for w in load:
            w.check(new.port)


def test_a_switch_without_its_marker_is_not_made_final():
    """DESIGN 6.6: the new side has no room for the marker; the answer says what waits, FINAL is refused, and once made it stays."""
    with Env() as env:
        _, new, shim = redis_shim(env)
        direct = connect(new.port)
        direct.config_set("maxmemory", "1")
        (answer,) = shim.cutover(SLOTS)
        assert answer[1] == "NEW" and "no write is taken before the owner marker is written" in answer[4], answer
        with pytest.raises(redis.ResponseError, match="does not carry its owner marker yet"):
            shim.ask("FINAL", SLOTS)
        direct.config_set("maxmemory", "0")
        wait_until("the marker", lambda: shim.rows()[0][7].startswith("marked"))
        assert connect(shim.port).set(keys_in(950, 950, 1)[0], "v")
        assert shim.ask("FINAL", SLOTS) == "OK"
        assert set(shim.states().values()) == {"FINAL"}


def test_abort_final_and_lock():
    with Env() as env:
        _, _, shim = redis_shim(env)
        assert shim.ask("LOCK", "run-1") == 1
        with pytest.raises(redis.ResponseError, match="run-1"):
            shim.ask("LOCK", "run-2")
        shim.ask("PERMIT", SLOTS)
        with pytest.raises(redis.ResponseError, match="lock"):
            shim.ask("CUTOVER", SLOTS, "AS", "run-2", "1")
        assert shim.ask("LOCK", "run-2", "FORCE") == 2
        with pytest.raises(redis.ResponseError, match="NEW"):
            shim.ask("FINAL", SLOTS)
        assert shim.ask("ABORT", SLOTS, "AS", "run-2", "2") == "OK"
        assert shim.ask("CUTOVER", SLOTS, "AS", "run-2", "2")[0][1] == "NEW"
        assert shim.ask("FINAL", SLOTS) == "OK"
        assert set(shim.states().values()) == {"FINAL"}
        assert "FINAL" in "\n".join(shim.ask("HELP"))
        shim.proc.kill()
        shim.start()
        assert set(shim.states().values()) == {"FINAL"}
        assert shim.status()["lock_owner"] == "run-2"
        with pytest.raises(redis.ResponseError, match="usage"):
            shim.ask("LOCK")
        assert shim.ask("UNLOCK", "run-2", "2") == "OK"


def test_auto_mode_cuts_when_in_sync():
    with Env() as env:
        _, _, shim = redis_shim(env)
        permit = Permit(shim.admin_port, SLOTS)
        shim.ask("PERMIT", SLOTS)
        assert shim.ask("AUTO", "ON", SLOTS) == "OK"
        wait_until("switched by itself", lambda: set(shim.states().values()) == {"NEW"}, timeout=20)
        permit.stop()


def refused(shim_argv, *words):
    done = subprocess.run(shim_argv, capture_output=True, text=True, timeout=20)
    assert done.returncode != 0, done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("slotferry-shim:")]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
    return lines[0]


def test_bad_input_is_one_sentence():
    with Env() as env:
        old, new = redis_pair(env, fill=10)
        shim = Shim(env, old.address, new.address, SLOTS, "redis")
        argv = list(shim.proc.argv)
        refused(argv, "--init")
        refused([program("slotferry-shim"), "--no-such-flag", "1"], "no-such-flag")
        refused([program("slotferry-shim")], "--plan")
        refused([program("slotferry-shim"), "--plan", env.path("missing.json")], "missing.json")
        os.makedirs(env.path("foreign"))
        with open(env.path("foreign", "dump.rdb"), "w") as f:
            f.write("x")
        refused(argv + ["--init", "--dir", env.path("foreign")], "foreign")
        shim.write_plan(slots="1023-901")
        refused(argv + ["--init"], "1023-901")
        shim.write_plan(slots=SLOTS)
        shim.start(init=True)
        refused(argv, shim.dir)  # the folder is in use
        second = Shim(env, old.address, new.address, SLOTS, "redis", name="second")
        refused(list(second.proc.argv) + ["--init", "--port", str(shim.port)], str(shim.port))
        third = Shim(env, old.address, new.address, SLOTS, "redis", name="third")
        refused(list(third.proc.argv) + ["--init", "--admin-port", str(shim.admin_port)], str(shim.admin_port))
        shim.proc.stop()
        refused(argv + ["--init"], "--init")
        shim.write_plan(plan="p2")
        refused(argv, "p1", "p2")
        shim.write_plan(plan="p1", slots="902-1023")
        refused(argv, "902-1023")
        shim.write_plan(slots=SLOTS)
        connect(old.port).config_set("requirepass", "secret")
        refused(argv, old.address, "password")
        nobody = "127.0.0.1:%d" % free_port()
        shim.write_plan(old={"master": nobody, "servers": [nobody], "password": "", "kind": "redis"})
        gone = Shim(env, nobody, new.address, SLOTS, "redis", name="gone")
        refused(list(gone.proc.argv) + ["--init"], nobody)


def test_I10_damaged_or_older_record_is_refused():
    with Env() as env:
        old, new, shim = redis_shim(env)
        shim.proc.stop()
        subprocess.run(["cp", "-r", shim.dir, shim.dir + ".before"], check=True)
        shim.start()
        assert shim.cutover()[0][1] == "NEW"
        shim.proc.stop()
        # A copy from before the switch says OLD; the marker on the new side says otherwise.
        subprocess.run(["mv", shim.dir, shim.dir + ".after"], check=True)
        subprocess.run(["mv", shim.dir + ".before", shim.dir], check=True)
        shim.start()
        assert set(shim.states().values()) == {"DOUBT"}
        with pytest.raises(redis.ResponseError):
            connect(shim.port).set(keys_in(901, 1023, 1)[0], 1)
        shim.proc.stop()
        subprocess.run(["rm", "-rf", shim.dir], check=True)
        subprocess.run(["mv", shim.dir + ".after", shim.dir], check=True)
        shim.start()
        assert set(shim.states().values()) == {"NEW"}
        shim.proc.stop()
        state = os.path.join(shim.dir, "state")
        logs = sorted(f for f in os.listdir(state) if f.endswith(".log"))
        with open(os.path.join(state, logs[-1]), "r+b") as f:
            size = f.seek(0, 2)
            f.seek(size // 2)
            f.write(b"\x55\xaa\x55")
        refused(list(shim.proc.argv), "damaged", shim.dir)


def test_start_is_fast_and_sigterm_is_graceful():
    with Env() as env:
        _, _, shim = redis_shim(env)
        load = writers(shim.port, 901, 1023, 2, tolerate_errors=True)
        wait_until("writes", lambda: all(w.writes > 20 for w in load))
        assert shim.proc.stop() == 0
        for w in load:
            w.stop()
        start = time.monotonic()
        shim.start()
        print("start took ms", (time.monotonic() - start) * 1000)
