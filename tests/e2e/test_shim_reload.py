"""The plan of a running shim changes: a group fails over, a password changes, slots are added. Clients keep their connections, what
was acknowledged and replicated is there, and what cannot be is refused and changes nothing."""
import os
import shutil
import sys
import threading

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from shim_env import Permit, Shim, follow_node, follow_redis, keys_in, writers  # noqa: E402

SLOTS = "901-1023"


@pytest.fixture(name="env")
def one_env():
    with Env() as env:
        yield env


def replica_of(env, master, name):
    node = env.node(name)
    client = connect(node.port, decode_responses=True)
    client.execute_command("SLAVEOF", "127.0.0.1", master.port)
    wait_until(name + " in sync", lambda: client.info("replication").get("master_link_status") == "up")
    return node


def wait_replicated(client, replica_count=1):
    assert client.execute_command("WAIT", replica_count, 10000) >= replica_count


def promote(node):
    connect(node.port).execute_command("SLAVEOF", "NO", "ONE")


def side(node, password=""):
    return {"master": node.address, "servers": [node.address], "password": password, "kind": "node"}


def values(port, keys):
    client = connect(port, decode_responses=True)
    return {k: client.get(k) for k in keys}


def fill(shim, keys, mark):
    client = connect(shim.port, decode_responses=True)
    for key in keys:
        client.set(key, mark + key)
    return {k: mark + k for k in keys}


def cut(shim, slots=SLOTS):
    """The states after it."""
    permit = Permit(shim.admin_port, slots)
    result = shim.cutover(slots)
    permit.stop()
    return {row[1] for row in result}


def in_sync(shim, slots=SLOTS):
    return all(row[6] == 0 for row in shim.rows(slots))


def test_I1_the_old_group_fails_over_while_slots_are_OLD(env):
    old, new = env.node("old"), env.node("new")
    spare = replica_of(env, old, "spare")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 1023, 300)
    held = connect(shim.port, decode_responses=True)
    expect = fill(shim, keys, "a")
    wait_replicated(connect(old.port))
    wait_until("the new side has it", lambda: in_sync(shim))
    old.kill()
    promote(spare)
    shim.write_plan(old=side(spare))
    said = shim.ask("RELOAD")
    assert "old master %s -> %s" % (old.address, spare.address) in said
    assert held.get(keys[0]) == expect[keys[0]]  # the same connection
    expect.update(fill(shim, keys[:100], "b"))
    assert values(spare.port, keys) == expect
    # The new side follows the new master, without a copy where its history is a prefix; then it is cut over.
    follow_node(spare.port, new.port, SLOTS)
    wait_until("in sync again", lambda: in_sync(shim))
    assert cut(shim) == {"NEW"}
    assert values(shim.port, keys) == expect and values(new.port, keys) == expect
    # The record knows: a restart is no surprise.
    shim.admin.connection_pool.disconnect()
    shim.proc.kill()
    shim.start()
    assert set(shim.states().values()) == {"NEW"}
    assert "plan reloaded" in [line["what"] for line in shim.audit()]


def test_I1_I6_the_new_group_fails_over_while_slots_are_NEW(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 1023, 200)
    expect = fill(shim, keys, "a")
    wait_until("in sync", lambda: in_sync(shim))
    assert cut(shim, "901-960") == {"NEW"}
    spare = replica_of(env, new, "spare")
    expect.update(fill(shim, keys[:100], "b"))
    wait_replicated(connect(new.port))
    new.kill()
    promote(spare)
    shim.write_plan(new=side(spare))
    said = shim.ask("RELOAD")
    assert "new master" in said and spare.address in said
    states = shim.states()
    assert {states[s] for s in range(901, 961)} == {"NEW"}
    assert {states[s] for s in range(961, 1024)} == {"OLD"}
    assert values(shim.port, keys) == expect
    expect.update(fill(shim, keys, "c"))
    assert values(shim.port, keys) == expect


def test_I1_a_new_master_that_never_owned_the_slots_is_not_believed(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 910, 20)
    expect = fill(shim, keys, "a")
    wait_until("in sync", lambda: in_sync(shim))
    assert cut(shim, "901-910") == {"NEW"}
    stranger = env.node("stranger")  # a replica of nothing: it has neither the data nor the promote record
    shim.write_plan(new=side(stranger))
    with pytest.raises(redis.ResponseError, match="has not"):
        shim.ask("RELOAD")
    assert set(shim.states("901-910").values()) == {"NEW"}
    shim.ask("RELOAD", "LOSE")  # its word is not believed even so
    assert set(shim.states("901-910").values()) == {"DOUBT"}
    assert "not promoted" in shim.rows("901")[0][7]
    for ask in (lambda c: c.get(keys[0]), lambda c: c.set(keys[0], "x")):
        with pytest.raises(redis.ResponseError, match="doubt"):
            ask(connect(shim.port))
    assert connect(stranger.port).dbsize() == 0
    # The true one is there: it is believed again.
    shim.write_plan(new=side(new))
    shim.ask("RELOAD")
    assert set(shim.states("901-910").values()) == {"NEW"} and values(shim.port, keys) == expect


def test_I1_an_owner_that_comes_back_empty_is_not_believed(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 910, 20)
    fill(shim, keys, "a")
    wait_until("in sync", lambda: in_sync(shim))
    assert cut(shim, "901-910") == {"NEW"}
    wrong, end = [], threading.Event()

    def read_on():
        client = connect(shim.port, decode_responses=True)
        while not end.is_set():
            try:
                value = client.get(keys[0])
                if value != "a" + keys[0]:
                    wrong.append(value)
            except redis.ResponseError:
                pass

    reader = threading.Thread(target=read_on)
    reader.start()
    new.kill()
    shutil.rmtree(env.path("new"))  # its disk is lost
    new.start()
    wait_until("doubt", lambda: set(shim.states("901-910").values()) == {"DOUBT"})
    end.set()
    reader.join()
    assert not wrong, wrong[:3]  # I6: not one request reached the stranger
    for ask in (lambda c: c.get(keys[0]), lambda c: c.set(keys[0], "x")):
        with pytest.raises(redis.ResponseError, match="doubt"):
            ask(connect(shim.port))
    # Nor after a restart of the shim.
    shim.admin.connection_pool.disconnect()
    shim.proc.kill()
    shim.start()
    assert set(shim.states("901-910").values()) == {"DOUBT"}


def test_I1_an_owner_after_a_roll_back_that_comes_back_empty_is_not_believed(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 910, 20)
    fill(shim, keys, "a")
    wait_until("in sync", lambda: in_sync(shim))
    assert cut(shim, "901-910") == {"NEW"}

    def back():
        shim.ask("PERMIT", "901-910")
        return {row[1] for row in shim.ask("ROLLBACK", "901-910")} == {"OLD"}
    wait_until("rolled back", back)
    expect = values(shim.port, keys)
    old.kill()
    old.start()  # with its data: it is believed
    wait_until("served", lambda: answers(shim, keys, expect))
    assert set(shim.states("901-910").values()) == {"OLD"}
    old.kill()
    shutil.rmtree(env.path("old"))
    old.start()
    wait_until("doubt", lambda: set(shim.states("901-910").values()) == {"DOUBT"})
    with pytest.raises(redis.ResponseError, match="doubt"):
        connect(shim.port).get(keys[0])


def answers(shim, keys, expect):
    try:
        return values(shim.port, keys) == expect
    except (redis.RedisError, OSError):
        return False


def test_passwords_change_without_a_restart(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    load = writers(shim.port, 901, 1023, 3)
    wait_until("writes", lambda: all(w.writes > 20 for w in load))
    connect(new.port).config_set("masterauth", "s3cret")
    connect(old.port).config_set("requirepass", "s3cret")
    shim.write_plan(old=side(old, "s3cret"))
    assert "old password" in shim.ask("RELOAD")
    before = sum(w.writes for w in load)
    wait_until("writes go on", lambda: sum(w.writes for w in load) > before + 200)
    for w in load:
        w.stop()
        assert not w.errors, w.errors[:3]
        w.check(shim.port)


def test_slots_are_added_and_switched(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, "901-950")
    shim = Shim(env, old.address, new.address, "901-950", "node").start(init=True)
    wait_until("in sync", lambda: in_sync(shim, "901-950"))
    assert cut(shim, "901-910") == {"NEW"}
    outside = keys_in(1000, 1023, 5)
    with pytest.raises(redis.ResponseError):
        connect(shim.port).set(outside[0], "x")
    follow_node(old.port, new.port, SLOTS.replace("901", "951"))
    shim.write_plan(slots=SLOTS)
    assert "slots 901-950 -> 901-1023" in shim.ask("RELOAD")
    expect = fill(shim, outside, "a")
    wait_until("in sync", lambda: in_sync(shim, "951-1023"))
    assert cut(shim, "911-1023") == {"NEW"}
    assert values(new.port, outside) == expect
    assert set(shim.states(SLOTS).values()) == {"NEW"}


def test_bad_changes_are_refused_with_one_sentence_and_change_nothing(env):
    old, new, third = env.node("old"), env.node("new"), env.node("third")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 1023, 20)
    expect = fill(shim, keys, "a")
    wait_until("in sync", lambda: in_sync(shim))
    good = dict(shim.plan)
    for change, text in ((dict(plan="p2"), "plan key plan"), (dict(slots="901-1000"), "1001-1023"),
                         (dict(target_group=5), "target_group"), (dict(old=side(third, "wrong")), "password"),
                         (dict(slots="1024"), "slots"), (dict(old={"master": "127.0.0.1:1", "servers": ["127.0.0.1:1"],
                                                                   "password": "", "kind": "node"}), "127.0.0.1:1")):
        if change.get("old", {}).get("password") == "wrong":
            connect(third.port).config_set("requirepass", "right")
        shim.write_plan(**{**good, **change})
        with pytest.raises(redis.ResponseError) as e:
            shim.ask("RELOAD")
        assert text in str(e.value), (change, str(e.value))
        assert values(shim.port, keys) == expect and set(shim.states().values()) == {"OLD"}
    shim.write_plan(**good)
    # Still able to do its work, and to restart.
    assert cut(shim, "901-920") == {"NEW"}
    shim.admin.connection_pool.disconnect()
    shim.proc.kill()
    shim.start()
    assert set(shim.states("901-920").values()) == {"NEW"}


def test_I2_a_reload_between_cutovers_under_writes_loses_nothing(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    load = writers(shim.port, 901, 1023)
    wait_until("writes", lambda: all(w.writes > 20 for w in load))
    wait_until("in sync", lambda: in_sync(shim))
    permit = Permit(shim.admin_port, SLOTS)
    wait_until("permit", lambda: shim.status()["permit_ms_left"] > 0)
    shim.ask("AUTO", "ON", SLOTS)
    for n in range(10):
        shim.write_plan(max_pause_ms=500 + n)
        shim.ask("RELOAD")
        done = sum(s == "NEW" for s in shim.states().values())
        wait_until("it goes on", lambda: sum(s == "NEW" for s in shim.states().values()) > min(done, 122))
    wait_until("all are switched", lambda: set(shim.states().values()) == {"NEW"}, timeout=60)
    permit.stop()
    for w in load:
        w.stop()
        assert not w.errors, w.errors[:3]
        w.check(new.port)


def test_a_changed_plan_at_the_start_needs_adopt(env):
    old, new = env.node("old"), env.node("new")
    spare = replica_of(env, old, "spare")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    shim.admin.connection_pool.disconnect()
    shim.proc.kill()
    old.kill()
    promote(spare)
    shim.write_plan(old=side(spare))
    with pytest.raises(AssertionError, match="--adopt"):
        shim.start()
    shim.proc.start(("--adopt",))
    shim.admin = connect(shim.admin_port, decode_responses=True)
    assert shim.status()["old"] == spare.address
    fill(shim, keys_in(901, 1023, 10), "a")


def test_changed_reads_and_guard_are_taken_over(env):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    key = keys_in(901, 1023, 1)[0]
    client = connect(shim.port, decode_responses=True)  # of a worker that runs already
    client.set(key, "text")
    assert shim.ask("GUARD") == "off"
    shim.write_plan(reads="compare", compare_percent=100, guard="pika-3.5")
    said = shim.ask("RELOAD")
    assert "reads owner -> compare 100 %" in said and "guard off -> pika-3.5" in said, said
    assert shim.ask("GUARD") == "pika-3.5" and shim.ask("READS")[1] == "compare"
    with pytest.raises(redis.ResponseError, match="guard"):
        client.execute_command("PFADD", key, "x")
    wait_until("in sync", lambda: in_sync(shim))
    for _ in range(20):
        assert client.get(key) == "text"

    def compared():
        said = shim.ask("READS")
        return dict(zip(said[::2], said[1::2]))["compared"] >= 20
    wait_until("reads are compared", compared)
    # Set by hand and left alone by a plan that does not change them.
    shim.ask("GUARD", "off")
    shim.write_plan(max_pause_ms=400)
    shim.ask("RELOAD")
    assert shim.ask("GUARD") == "off"
    shim.write_plan(reads="owner", guard="off")
    shim.ask("RELOAD")
    assert shim.ask("READS")[1] == "owner"


def test_I1_a_redis_owner_that_comes_back_empty_is_not_believed(env):
    old, new = env.redis("old"), env.redis("new", extra=["--appendonly", "no"])
    follow_redis(old.port, new.port)
    shim = Shim(env, old.address, new.address, SLOTS, "redis").start(init=True)
    keys = keys_in(901, 1023, 20)
    fill(shim, keys, "a")
    wait_until("switched", lambda: cut(shim) == {"NEW"}, 30, 0.2)
    new.kill()
    new.start()
    wait_until("doubt", lambda: set(shim.states().values()) == {"DOUBT"})
    assert "marker" in shim.rows("901")[0][7]
    with pytest.raises(redis.ResponseError, match="doubt"):
        connect(shim.port).get(keys[0])


def test_a_start_that_misses_a_master_says_what_it_needs(env):
    old, new = env.node("old"), env.node("new")
    spare = replica_of(env, old, "spare")
    follow_node(old.port, new.port, SLOTS)
    shim = Shim(env, old.address, new.address, SLOTS, "node").start(init=True)
    keys = keys_in(901, 1023, 20)
    expect = fill(shim, keys, "a")
    wait_replicated(connect(old.port))
    shim.admin.connection_pool.disconnect()
    shim.proc.kill()
    old.kill()
    with pytest.raises(AssertionError) as e:
        shim.start()
    for part in (old.address, "a start needs both masters", "--adopt"):
        assert part in str(e.value), str(e.value)[-600:]
    # A master that comes up while the shim waits is enough; so is its successor.
    promote(spare)
    shim.write_plan(old=side(spare))
    shim.proc.start(("--adopt",))
    assert values(shim.port, keys) == expect
    assert "does not answer" in [line["text"] for line in shim.audit() if line["what"] == "successor compared"][0]
