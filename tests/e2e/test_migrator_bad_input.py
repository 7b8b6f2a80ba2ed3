"""Wrong input: one sentence naming the thing and the way out, exit code not zero, nothing changed (M24)."""
import json
import os
import socket
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ferry_env import Env, connect, free_port, program  # noqa: E402
from move_env import PRODUCT, slotferry  # noqa: E402
from cluster import Dashboard  # noqa: E402


class Small:
    """A dashboard with two groups of one node each and an empty one; no proxies."""

    def __init__(self, env):
        self.env = env
        self.nodes = [env.node("n3"), env.node("n4")]
        port = free_port()
        self.address = "127.0.0.1:%d" % port
        env.add("dashboard", [program("codis-standin"), "dashboard", "--port", str(port), "--product", PRODUCT], "ready")
        self.api = Dashboard(self.address)
        for group in (3, 4, 5):
            self.api.put("group/create", group)
        self.api.put("group/add", 3, self.nodes[0].address)
        self.api.put("group/add", 4, self.nodes[1].address)
        self.api.put("slots/assign", body=[{"id": slot, "group_id": 4 if slot < 10 else 3} for slot in range(1020)])
        self.out = env.path("plan.json")

    def plan(self, **changed):
        words = {"dashboard": self.address, "product": PRODUCT, "slots": "901-1019", "to": "4",
                 "shim": "127.0.0.1:7100", "shim-admin": "127.0.0.1:7101", "out": self.out}
        words.update({name.replace("_", "-"): str(value) for name, value in changed.items()})
        return slotferry("plan", *[word for name, value in words.items() for word in ("--" + name, value)])


@pytest.fixture(scope="module")
def small():
    with Env() as env:
        yield Small(env)


def refused(outcome, *parts):
    assert outcome.code not in (0, None) and outcome.code > 0, outcome
    lines = [line for line in outcome.err.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("slotferry: "), outcome
    for part in parts:
        assert part in lines[0], outcome


def test_plan_input(small):
    before = small.api.stats()["slots"]
    refused(small.plan(slots="901-1024"), "--slots", "1024 is outside 0-1023")
    refused(small.plan(slots="1019-901"), "reversed")
    refused(small.plan(slots="a-b"), "not a slot number")
    refused(small.plan(slots="5,5"), "twice")
    refused(small.plan(to="0"), "--to '0'")
    refused(small.plan(to="77"), "target group 77 does not exist")
    refused(small.plan(to="5"), "target group 5 has no servers")
    refused(small.plan(to="3"), "are in group 3 already")
    refused(small.plan(slots="5-20"), "must all be of one group", "5-9 in group 4", "10-20 in group 3")
    refused(small.plan(slots="1020-1023"), "in none")
    refused(small.plan(dashboard="127.0.0.1:%d" % free_port()), "the dashboard 127.0.0.1:", "cannot be reached")
    refused(small.plan(product="other"), "product name")
    refused(small.plan(shim=small.nodes[0].address), "its own port")
    refused(small.plan(shim_group="4"), "shim_group")
    refused(small.plan(out="/nonexistent/dir/plan.json"), "/nonexistent/dir")
    assert not os.path.exists(small.out)
    assert small.api.stats()["slots"] == before


def test_plan_of_a_server_that_is_no_dashboard(small):
    refused(small.plan(dashboard=small.nodes[0].address), small.nodes[0].address)


def test_plan_with_a_wrong_password(small):
    connect(small.nodes[0].port).config_set("requirepass", "secret")
    try:
        refused(small.plan(), "old master " + small.nodes[0].address, "--old-password")
        refused(small.plan(old_password="wrong"), "refuses the password", "--old-password")
    finally:
        connect(small.nodes[0].port, password="secret").config_set("requirepass", "")


def test_plan_does_not_replace_a_file(small):
    made = small.plan(slots="900-1019")
    assert made.code == 0, made
    text = open(small.out).read()
    refused(small.plan(), small.out + " exists already", "--overwrite")
    assert open(small.out).read() == text
    json.loads(text)
    os.remove(small.out)


@pytest.mark.parametrize("words, parts", [
    ((), ("no command given", "--help")),
    (("fly",), ("'fly' is no command",)),
    (("run",), ("the plan file is missing",)),
    (("run", "/nonexistent.json"), ("/nonexistent.json: cannot be read",)),
    (("run", "a", "b"), ("'b' is one word too many",)),
    (("run", "a", "--fast"), ("--fast",)),
    (("run", "a", "--until", "lunch"), ("'lunch' is no phase",)),
    (("plan", "--slots", "1-2"), ("--dashboard is missing",)),
])
def test_command_line(words, parts):
    refused(slotferry(*words), *parts)


def test_plan_file(small):
    path = small.env.path("bad.json")
    made = small.plan(out=path)
    assert made.code == 0, made
    good = json.load(open(path))

    def with_change(change):
        plan = json.loads(json.dumps(good))
        change(plan)
        with open(path, "w") as f:
            json.dump(plan, f)
        return slotferry("run", path, "--dir", small.env.path("never"))

    refused(with_change(lambda p: p.update(slots="5-3")), path, "reversed")
    refused(with_change(lambda p: p.update(unit="plan")), "unit")
    refused(with_change(lambda p: p.pop("old")), "old: is missing")
    refused(with_change(lambda p: p.update(tpyo=1)), "tpyo")
    with open(path, "w") as f:
        f.write("{")
    refused(slotferry("run", path), path, "not valid JSON")
    assert not os.path.exists(small.env.path("never"))


def test_run_without_a_shim_changes_nothing(small):
    path = small.env.path("noshim.json")
    made = small.plan(out=path, shim="127.0.0.1:%d" % free_port(), shim_admin="127.0.0.1:%d" % free_port())
    assert made.code == 0, made
    before = small.api.stats()
    run = slotferry("run", path, "--yes")
    assert run.code == 1 and "preflight says stop" in run.err and "cannot be reached" in run.out, run
    after = small.api.stats()
    assert after["slots"] == before["slots"] and after["group"]["models"] == before["group"]["models"]


def test_state_folder_of_another_program(small):
    path = small.env.path("state.json")
    assert small.plan(out=path).code == 0
    folder = small.env.path("taken")
    os.makedirs(folder)
    with open(os.path.join(folder, "precious"), "w") as f:
        f.write("x")
    refused(slotferry("run", path, "--dir", folder), folder)
    assert os.listdir(folder) == ["precious"]
    refused(slotferry("report", path, "--dir", small.env.path("none")), "no move was begun")


def test_a_port_that_accepts_and_says_nothing(small):
    """A dashboard address that hangs is an error with a name, not a hang."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        silent.settimeout(30)
        outcome = []
        import threading
        worker = threading.Thread(target=lambda: outcome.append(
            small.plan(dashboard="127.0.0.1:%d" % silent.getsockname()[1])))
        worker.start()
        connection, _ = silent.accept()
        connection.recv(4096)
        connection.close()
        worker.join(60)
        refused(outcome[0], "broke off or gave no answer")
