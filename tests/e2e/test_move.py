"""The migrator's commands on real processes, without load: phases, resuming, guards, abort. (Under load: test_demonstration.)"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ferry_env import Env, connect, program, wait_until  # noqa: E402
from move_env import PRODUCT, Move, slotferry  # noqa: E402
from sentinel import Sentinel  # noqa: E402


@pytest.fixture
def env():
    with Env() as made:
        yield made


def proxy_call(admin, path, body):
    request = urllib.request.Request("http://%s%s" % (admin, path), data=json.dumps(body).encode(), method="PUT",
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def stray_slot(move, slot, address):
    """Makes one proxy alone route a slot elsewhere, as an assign that half failed does (T05)."""
    proxy = move.cluster.api.stats()["proxy"]["models"][1]
    words = "Codis-XAuth-[%s]-[]-[%s]" % (PRODUCT, proxy["token"])
    xauth = hashlib.sha256(words.encode()).hexdigest()[:32]
    proxy_call(proxy["admin_addr"], "/api/proxy/fillslots/" + xauth, [{"id": slot, "backend_addr": address}])


def test_I11_M05_M25_step_by_step_with_nodes(env):
    move = Move(env)
    before = move.keys_on(move.cluster.g3)
    assert {s: n for s, n in before.items() if s >= 901} == move.planned()

    # Too early: nothing is handed back, nothing is deleted.
    early = move("cleanup", "--yes")
    assert early.code == 1 and "not handed back" in early.err, early
    early = move("handback")
    assert early.code == 1 and "is old, not switched" in early.err, early
    assert move.keys_on(move.cluster.g3) == before

    attached = move("run", "--until", "attach")
    assert attached.code == 0, attached
    assert move.group_of(901) == 9 and move.group_of(900) == 3
    assert move.shim_states() == {"old": 123}
    move.proxy.set("k0{user:1000}", "through the shim")  # slot 995

    # M30: two runs at once; the second one is refused, with another state folder too.
    move.admin("LOCK", "somebody")
    second = move("cutover", "901-910")
    assert second.code == 1 and "another run holds the shim's lock (somebody)" in second.err, second
    assert move("run", "--yes", state=env.path("other")).code == 1
    cut = move("cutover", "901-910", "--take-lock")
    assert cut.code == 0, cut
    assert move.shim_states() == {"new": 10, "old": 113}
    assert move.proxy.get("k0{user:1000}") == b"through the shim"

    verified = move("verify")
    assert verified.code == 0 and "0 differ" in verified.out, verified

    rest = move("run", "--json")
    assert rest.code == 0, rest
    report = rest.json_lines("report")[-1]
    assert report["slots_moved"] == 123 and report["cutovers"] == 123 and report["verify"] == "passed"
    assert report["keys"] == sum(move.planned().values()) + 1
    assert move.group_of(901) == 4 and 9 not in [g["id"] for g in move.cluster.api.stats()["group"]["models"]]
    assert move.proxy.get("k0{user:1000}") == b"through the shim"

    # The old copy is still there, fenced; a client that comes to it late is told where the slot lives.
    late = connect(move.cluster.g3.port)
    with pytest.raises(Exception, match="fenced|MOVEDSLOT|READONLY|TRYAGAIN"):
        late.set("k1{user:1000}", "late")
    assert move("cleanup").code == 3
    cleaned = move("cleanup", "--yes")
    assert cleaned.code == 0, cleaned
    left = move.keys_on(move.cluster.g3)
    assert not [slot for slot, n in left.items() if slot >= 901 and n]
    assert {s: n for s, n in left.items() if s < 901} == {s: n for s, n in before.items() if s < 901}
    after = move.keys_on(move.cluster.g4)
    assert sum(after.values()) == sum(move.planned().values()) + 1
    wait_until("the new slave has the slots", lambda: move.keys_on(move.cluster.g4_slave) == after, 10)
    assert move("run").code == 0  # nothing left to do
    assert move("status").code == 0


def test_I10_killed_again_and_again_it_goes_on(env):
    move = Move(env)
    move.edit_plan(cleanup=True)
    kills = 0
    pause = 0.15
    while True:
        run = subprocess.Popen([program("slotferry"), "run", move.plan, "--yes", "--dir", move.state],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            _, err = run.communicate(timeout=pause)
        except subprocess.TimeoutExpired:
            run.kill()  # a moment after start is the point, so no event to wait for
            run.communicate()
            kills += 1
            pause *= 1.3
            assert kills < 40
            continue
        assert run.returncode == 0, err.decode()
        break
    assert kills >= 3
    assert move.group_of(901) == 4
    assert not [s for s, n in move.keys_on(move.cluster.g3).items() if s >= 901 and n]
    assert {s: n for s, n in move.keys_on(move.cluster.g4).items() if n} == move.planned()


def test_abort_takes_everything_back_until_a_slot_is_switched(env):
    move = Move(env, keys=300)
    assert move("run", "--until", "attach").code == 0
    aborted = move("abort")
    assert aborted.code == 0, aborted
    assert move.group_of(901) == 3
    move.proxy.set("k0{user:1000}", "as before")
    again = move("run", "--until", "attach")
    assert again.code == 0, again
    assert move("cutover", "950").code == 0
    refused = move("abort")
    assert refused.code == 1 and "950" in refused.err and "switched already" in refused.err, refused
    with open(move.plan) as f:
        changed = json.load(f)
    changed["slots"], changed["stay"] = "902-1023", "801-901"
    other = env.path("other.json")
    with open(other, "w") as f:
        json.dump(changed, f)
    refused = slotferry("run", other, "--dir", move.state)
    assert refused.code == 1 and "belongs to another plan" in refused.err, refused


def test_T05_I11_a_stray_proxy_stops_the_cutover_and_a_lifted_fence_the_cleanup(env):
    move = Move(env, keys=300)
    assert move("run", "--until", "attach").code == 0
    stray_slot(move, 950, move.cluster.g3.address)
    run = subprocess.Popen([program("slotferry"), "cutover", move.plan, "--dir", move.state], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1 and "maps slot 950 to " + move.cluster.g3.address in err, out + err
    assert move.shim_states() == {"old": 123}
    stray_slot(move, 950, "127.0.0.1:%d" % move.shim_port)
    run = move("run")
    assert run.code == 0, run

    # I11: somebody lifts the fence of one slot on the old side, so clients may have written there.
    old = connect(move.cluster.g3.port)
    with open(move.plan) as f:
        plan_id = json.load(f)["plan"]
    before = move.keys_on(move.cluster.g3)
    old.execute_command("PKCLUSTER", "UNFENCE", "950", plan_id, 10**9)
    cleanup = move("cleanup", "--yes")
    assert cleanup.code == 1 and "slot 950" in cleanup.err and "nothing was deleted" in cleanup.err, cleanup
    assert move.keys_on(move.cluster.g3) == before


def test_M06_M23_dashboard_restart_and_ctrl_c(env):
    move = Move(env, keys=300, soak="600")
    assert move("run", "--until", "verify").code == 0
    move.cluster.dashboard.kill()
    move.cluster.dashboard.start()

    # Ctrl-C in the soak time: it ends at once and says how to go on.
    waiting = subprocess.Popen([program("slotferry"), "run", move.plan, "--dir", move.state], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    for line in waiting.stdout:
        if "soaked" in line:
            break
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 3 and "stopped at soak.wait; run the same command again" in err, err
    assert move.group_of(901) == 4

    move.edit_plan(soak_seconds=0)
    run = move("run")
    assert run.code == 0, run
    assert move.group_of(901) == 4


def test_M21_a_password_that_does_not_fit_is_found_before_anything_starts(env):
    move = Move(env, keys=300)
    connect(move.cluster.g3.port).config_set("requirepass", "secret")
    found = slotferry("preflight", move.plan)
    assert found.code == 1 and "plan key old.password" in found.out, found
    run = move("run", "--yes")
    assert run.code == 1 and "nothing was changed" in run.err, run
    assert move.group_of(901) == 3 and move.shim_states() == {"old": 123}


def test_verify_stops_the_move_if_the_copies_differ(env):
    """Redis: the copy is tampered with while it follows; the run must stop before the cut and delete nothing."""
    move = Move(env, kind="redis", keys=2000)
    assert move("run", "--until", "attach").code == 0
    new = connect(move.cluster.g4.port)
    new.config_set("replica-read-only", "no")
    victim = next(key for key, slot in move.keys.items() if slot >= 901)
    new.delete(victim)
    run = move("run", "--yes")
    assert run.code == 1 and victim in run.err and "missing" in run.err, run
    assert move.shim_states() == {"old": 123}
    assert connect(move.cluster.g3.port).exists(victim)


def test_M05_redis_groups_end_with_no_foreign_key(env):
    move = Move(env, kind="redis", keys=2000)
    move.edit_plan(cleanup=True)
    sentinel = Sentinel(env, "sentinel", move.cluster.g3, 1)  # of the old group: it never learns of the new master
    early = Sentinel(env, "early", move.cluster.g4, 1, down_after_ms=60000)  # of the new one: it would replace it while it follows
    found = slotferry("preflight", move.plan)
    assert found.code != 0 and "sentinels watch" in found.out + found.err, found
    early.proc.kill()
    wait_until("gone", lambda: "sentinel-" not in str(connect(move.cluster.g4.port).client_list()))
    marker = [b"{__slotferry}:owner:" + json.load(open(move.plan))["plan"].encode()]
    run = move("run", "--yes", "--until", "soak")
    assert run.code == 0, run
    assert connect(move.cluster.g4.port).keys("*__slotferry*") == marker  # a shim that starts now still needs it
    run = move("run", "--yes")
    assert run.code == 0, run
    known = [row["port"] for row in sentinel.known("REPLICAS")]
    assert str(move.cluster.g3_slave.port) in known and str(move.cluster.g4.port) not in known, known
    assert connect(move.cluster.g4.port).config_get("replica-announce-port") == {"replica-announce-port": "0"}
    old, new = connect(move.cluster.g3.port), connect(move.cluster.g4.port)
    on_old = {key.decode() for key in old.scan_iter(count=1000)}
    on_new = {key.decode() for key in new.scan_iter(count=1000)}
    assert not [key for key in on_old | on_new if "__slotferry" in key]  # the owner marker neither
    assert {k for k in on_old if k.startswith("k")} == {k for k, slot in move.keys.items() if slot < 901}
    assert on_new >= {k for k, slot in move.keys.items() if slot >= 901}
    assert not on_new & set(k for k, slot in move.keys.items() if slot < 901)
