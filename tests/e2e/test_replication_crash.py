"""kill -9 and power loss of master and replicas under load (I10; cases R05, R12, R18, R21, R25). With SF_LONG=1 as many rounds
as the bars ask for; a failing run prints its seed, and SF_SEED replays it."""
import os
import random
import sys

import pytest

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from crash_env import CrashRounds  # noqa: E402
from ferry_env import Env  # noqa: E402

LONG = os.environ.get("SF_LONG") == "1"


def run(binary, sync, short, long):
    seed = int(os.environ.get("SF_SEED", random.SystemRandom().randrange(10 ** 6)))
    print("SF_SEED=%d" % seed)
    rounds = long if LONG else short
    with Env() as env:
        crash = CrashRounds(env, binary, sync, seed)
        for _ in range(rounds):
            crash.round()
        print(crash.report(rounds))
        return crash


@pytest.mark.parametrize("sync", ["always", "everysec"])
def test_R12_power_loss_loses_no_more_than_it_may_and_nothing_is_merged(sync):
    crash = run("power-loss-node", sync, 5, 100)
    if sync == "always":
        assert crash.lost == 0
    elif LONG:
        assert crash.lost > 0 and crash.ahead > 0  # the test does lose power


def test_R12_R05_kill_9_of_anyone_leaves_no_difference():
    crash = run("slotferry-node", "no", 5, 200)
    assert crash.lost == 0
