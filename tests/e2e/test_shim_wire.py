"""Protocol cases (tests/cases/cases.json, P) through the shim, in front of a real redis-server."""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cases"))

import run_cases  # noqa: E402
from ferry_env import Env, connect  # noqa: E402
from shim_env import Shim, follow_redis  # noqa: E402

CASES = [c for c in json.load(open(os.path.join(os.path.dirname(HERE), "cases", "cases.json"))) if c["id"][0] == "P"]


@pytest.fixture(scope="module")
def servers():
    with Env() as env:
        old, new = env.redis("old"), env.redis("new")
        follow_redis(old.port, new.port)
        shim = Shim(env, old.address, new.address, "0-1023", "redis").start(init=True)
        yield old.port, shim.port


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case_through_the_shim(case, servers):
    old_port, shim_port = servers
    connect(old_port).flushall()
    problem = run_cases.run(case, lambda: run_cases.Conn("127.0.0.1", shim_port, 20, ""))
    assert not problem, problem
