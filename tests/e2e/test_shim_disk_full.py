"""The disk of the shim's folder fills up. Clients do not notice, nothing is begun that could not be recorded, and with room again
it goes on by itself; what was in doubt is decided by the record at the next start. Names carry the invariant."""
import os
import sys
import threading

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from shim_env import Shim, follow_node, writers  # noqa: E402
from small_disk import fill_disk, free_disk, small_disk  # noqa: E402
from tcp_link import TO_REPLICA, TcpLink  # noqa: E402

SLOTS = "901-910"
FILLER = "f" * 128  # the owner of a lock, for large entries


@pytest.fixture(name="world")
def node_pair_whose_shim_has_a_small_disk():
    with small_disk(112) as disk, Env() as env:
        old, new = env.node("old"), env.node("new")
        follow_node(old.port, new.port, SLOTS)
        link = TcpLink(env, new.port)
        shim = Shim(env, old.address, "127.0.0.1:%d" % link.port, SLOTS, "node", max_pause_ms=10000, folder=os.path.join(disk, "d"))
        shim.start(init=True)
        shim.disk, shim.link = disk, link
        yield shim
        shim.proc.stop()


def write_until_it_cannot(shim):
    """Entries of the audit log, each synced, until the state cannot be written any more."""
    for _ in range(200):
        pipe = shim.admin.pipeline(transaction=False)
        for _ in range(100):
            pipe.execute_command("SHIM", "LOCK", FILLER)
        failed = [str(r) for r in pipe.execute(raise_on_error=False) if isinstance(r, Exception)]
        if failed:
            assert "no space left" in failed[0] + failed[-1], (failed[0], failed[-1])
            return
    raise AssertionError("20,000 entries found room on a full disk")


def write_until_a_file_is_nearly_full(shim):
    """A few hundred entries more need another one."""
    state = os.path.join(shim.dir, "state")
    while max(os.path.getsize(os.path.join(state, f)) for f in os.listdir(state) if f.endswith(".log")) < 600 << 10:
        for _ in range(100):
            shim.ask("LOCK", FILLER)


def lock_works(shim):
    try:
        return shim.ask("LOCK", FILLER) > 0
    except redis.ResponseError:
        return False


def assert_audit_is_whole(shim):
    """After a start the file has every line of the store, in order, each whole."""
    numbers = [line["n"] for line in shim.audit()]
    assert numbers == sorted(set(numbers)) and numbers[0] == 1


def go_on(load):
    count = sum(w.writes for w in load)
    wait_until("writes", lambda: sum(w.writes for w in load) > count + 100)


def end(load, port):
    for w in load:
        w.stop()
    for w in load:
        assert not w.errors, w.errors[:3]
        w.check(port)


def test_I9_I12_a_full_disk_stops_no_client_and_with_room_it_goes_on(world):
    shim = world
    load = writers(shim.port, 901, 910, 2)
    go_on(load)
    fill_disk(shim.disk, 30 << 20)
    row = shim.cutover("905")[0]
    assert row[1] == "OLD" and "64 MiB" in row[4], row
    fill_disk(shim.disk, 0)
    write_until_it_cannot(shim)
    go_on(load)
    with pytest.raises(redis.ResponseError, match="no space left"):
        shim.ask("LOCK", FILLER)
    assert shim.cutover("905")[0][1] == "OLD"
    free_disk(shim.disk)
    assert lock_works(shim)  # at once, without a restart
    assert shim.cutover("905")[0][1] == "NEW"
    go_on(load)
    end(load, shim.port)
    shim.proc.stop()
    shim.start()
    assert shim.states("905") == {905: "NEW"}
    assert_audit_is_whole(shim)


def test_I10_killed_on_a_full_disk_it_starts_when_there_is_room(world):
    shim = world
    assert shim.cutover("905")[0][1] == "NEW"
    fill_disk(shim.disk, 0)
    write_until_it_cannot(shim)
    shim.proc.kill()
    with pytest.raises(AssertionError, match="no space left"):
        shim.start()
    free_disk(shim.disk)
    shim.start()
    assert shim.states("904-905") == {904: "OLD", 905: "NEW"}
    assert lock_works(shim)
    assert shim.cutover("904")[0][1] == "NEW"
    assert_audit_is_whole(shim)


def test_I3_the_disk_is_full_when_the_owner_is_to_be_recorded(world):
    """Nobody can know then what a crash would find: no side is written to until a start has read the record."""
    shim = world
    load = writers(shim.port, 901, 910, 2, tolerate_errors=True)
    go_on(load)
    shim.ask("PERMIT", "905")
    write_until_a_file_is_nearly_full(shim)
    shim.link.delay = 0.02
    asked = threading.Thread(target=connect(shim.admin_port, timeout=60).execute_command,
                             args=("SHIM", "CUTOVER", "905", "MAXPAUSE", "10000"))
    asked.start()
    wait_until("held", lambda: shim.states("905")[905] not in ("OLD", "NEW"), step=0.001)
    shim.link.hold(TO_REPLICA)
    fill_disk(shim.disk, 0)
    write_until_it_cannot(shim)
    shim.link.release()
    asked.join()
    wait_until("in doubt", lambda: shim.states("905") == {905: "DOUBT"})
    assert "restart the shim" in shim.rows("905")[0][7], shim.rows("905")
    shim.proc.stop()
    free_disk(shim.disk)
    shim.start()
    assert shim.states("905") == {905: "OLD"}
    go_on(load)
    assert shim.cutover("905")[0][1] == "NEW"
    go_on(load)
    for w in load:
        w.stop()
        w.check(shim.port)
