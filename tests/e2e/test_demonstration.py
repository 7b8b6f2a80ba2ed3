"""The whole move, as scripts/quickstart runs it, smaller: I1-I4, I10, M05, M07, M25, X10.

With SF_LONG=1 (scripts/test --long) also the bar of issue 2: 20 runs in a row in different seeds, and 20 with kill -9.
"""
import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
DEMONSTRATION = os.path.join(HERE, "..", "demo", "demonstration.py")
LONG = os.environ.get("SF_LONG") == "1"
KEYS = "200000" if LONG else "20000"


def demonstrate(*flags):
    done = subprocess.run([sys.executable, DEMONSTRATION, "--json", "--keys", KEYS, *flags], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=580, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, "%s\n%s\n%s" % (" ".join(flags), done.stdout[-2000:], done.stderr[-3000:])
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert summary["slots_moved"] == 123
    assert summary["acked_writes"] > 100
    assert [summary[k] for k in ("lost", "doubled", "stale", "errors")] == [0, 0, 0, 0]
    return summary


def test_I1_I2_I3_move_between_groups_of_nodes():
    summary = demonstrate("--seed", "1")
    assert summary["errors_while_down"] == 0


def test_I1_I2_I3_move_between_groups_of_redis():
    summary = demonstrate("--groups", "redis", "--seed", "2")
    assert summary["errors_while_down"] == 0


@pytest.mark.parametrize("victim", ["shim", "migrator", "new-master", "new-slave"])
def test_I10_kill_at_a_random_moment_loses_nothing(victim):
    demonstrate("--seed", str(100 + sum(map(ord, victim))), "--kill", victim)


@pytest.mark.skipif(not LONG, reason="20 full runs take half an hour: scripts/test --long")
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_I1_twenty_runs_in_a_row(seed):
    demonstrate("--seed", str(seed))


@pytest.mark.skipif(not LONG, reason="20 full runs with kill -9 take half an hour: scripts/test --long")
@pytest.mark.parametrize("seed", range(2000, 2020))
def test_I10_twenty_runs_with_kill(seed):
    demonstrate("--seed", str(seed), "--kill", ["shim", "migrator", "new-master", "new-slave"][seed % 4])
