"""A small file system of its own for a test of a full disk, where the machine lets us mount one."""
import contextlib
import os
import shutil
import subprocess
import tempfile

import pytest


@contextlib.contextmanager
def small_disk(megabytes):
    path = tempfile.mkdtemp(prefix="slotferry-disk-")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm" % megabytes, "tmpfs", path], capture_output=True)
    if mounted.returncode != 0:
        os.rmdir(path)
        pytest.skip("no right to mount a small file system here")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
        os.rmdir(path)


def fill_disk(path, leave=0):
    """Leaves at most this many bytes free."""
    with open(os.path.join(path, "filler"), "wb") as f:
        left = max(0, shutil.disk_usage(path).free - leave)
        while left > 0:
            left -= f.write(b"x" * min(left, 1 << 20))


def free_disk(path):
    os.remove(os.path.join(path, "filler"))
