"""Public bug reports as tests (tests/cases/cases.json): each case that this version's commands cover passes
against a node, P cases included; the others are listed here with their reason, and must still fail so that the
list cannot go stale.
"""
import json
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cases"))

import run_cases  # noqa: E402
from ferry_env import Env  # noqa: E402

NOT_YET = {
    "C16": "HyperLogLog is not implemented yet",
    "C32": "its last steps use streams, which are not implemented yet; all before them pass",
    "C42": "scripts (EVAL) are not implemented yet; its ZUNION steps pass",
    "C44": "geo commands are not implemented yet",
    "C45": "geo commands are not implemented yet",
    "C47": "streams are not implemented yet",
    "C48": "streams are not implemented yet",
    "C56": "DUMP is not implemented yet; its OBJECT and MEMORY steps pass",
}

CASES = json.load(open(os.path.join(os.path.dirname(HERE), "cases", "cases.json")))


@pytest.fixture(scope="module")
def port():
    with Env() as env:
        yield env.node("node").port


def play(case, port):
    def connect():
        return run_cases.Conn("127.0.0.1", port, 20, "")

    assert connect().cmd(["FLUSHALL"]) == "OK"
    return run_cases.run(case, connect)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case, port):
    problem = play(case, port)
    if case["id"] in NOT_YET:
        assert problem, "passes now: take it off NOT_YET"
        pytest.skip(NOT_YET[case["id"]])
    assert not problem, problem
