"""The pause benchmark runs and finds nothing lost, doubled or stale. Its times are not looked at here."""
import json
import os
import subprocess
import sys

SOURCE = os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def test_a_short_run_is_correct():
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "bench", "pause_bench.py"), "--cutovers", "3", "--small",
                           "--faults", "1", "--base-seconds", "0.5", "--sustain-seconds", "1", "--keys", "2000", "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    rows = json.loads(done.stdout)
    assert len(rows) == 7, list(rows)
    for row, figures in rows.items():
        found = {f["name"]: f["value"] for f in figures}
        assert [found[what] for what in ("lost", "doubled", "stale")] == [0, 0, 0], (row, found)
        if "fault before the owner record" not in row:
            assert found["units cut over"] == 3 and found["client errors"] == 0, (row, found)
        else:
            assert found["faults that fell into a held unit"] == 1, found
