"""Bad start-up input of slotferry-node: one clear sentence that names the thing and the way out, exit code
non-zero, nothing changed. And a disk that fills up while it runs: writes are refused, reads go on, it recovers.
"""
import os
import socket
import subprocess
import sys

import pytest
import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from ferry_env import Env, connect, free_port, program, wait_until  # noqa: E402
from small_disk import fill_disk, free_disk, small_disk  # noqa: E402


def start_fails(*flags):
    """Runs the node, which must end by itself; returns its one line on standard error."""
    done = subprocess.run([program("slotferry-node"), *flags], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=30, text=True)
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("slotferry-node: ")
    return lines[0]


@pytest.fixture()
def env():
    with Env() as e:
        yield e


def test_wrong_flags_and_values(env):
    assert "--prot" in start_fails("--prot", "1")
    assert "port" in start_fails("--port", "70000")
    assert "threads" in start_fails("--threads", "none")
    assert "sync" in start_fails("--sync", "sometimes")
    assert "loud" in start_fails("--loglevel", "loud")
    assert "nosuch.conf" in start_fails("--config", env.path("nosuch.conf"))
    with open(env.path("bad.conf"), "w") as f:
        f.write("port : 9221\nthread-count : 3\n")
    text = start_fails("--config", env.path("bad.conf"))
    assert "thread-count" in text and "bad.conf" in text
    assert not os.path.exists(env.path("slotferry-node"))


def test_port_in_use(env):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = start_fails("--port", str(port), "--dir", env.path("d"))
    assert str(port) in text and "another program has this port" in text


def test_address_that_is_not_ours(env):
    text = start_fails("--port", str(free_port()), "--bind", "192.0.2.1", "--dir", env.path("d"))
    assert "192.0.2.1" in text


def test_foreign_data_folders(env):
    os.makedirs(env.path("foreign"))
    with open(env.path("foreign", "dump.rdb"), "w") as f:
        f.write("somebody's data")
    assert env.path("foreign") in start_fails("--port", "0", "--dir", env.path("foreign"))
    assert os.listdir(env.path("foreign")) == ["dump.rdb"]


def test_folder_of_a_newer_version(env):
    node = env.node("node")
    node.stop()
    stamps = [n for n in os.listdir(env.path("node")) if os.path.isfile(env.path("node", n))]
    changed = False
    for name in stamps:
        with open(env.path("node", name)) as f:
            text = f.read()
        if "slotferry-node" in text:
            with open(env.path("node", name), "w") as f:
                f.write(text.replace("1", "7"))
            changed = True
    assert changed, stamps
    assert env.path("node") in start_fails("--port", "0", "--dir", env.path("node"))


def test_folder_in_use(env):
    env.node("node")
    text = start_fails("--port", "0", "--dir", env.path("node"))
    assert env.path("node") in text


def test_folder_that_cannot_be_made(env):
    with open(env.path("file"), "w") as f:
        f.write("x")
    assert env.path("file") in start_fails("--port", "0", "--dir", env.path("file", "sub"))


def test_help_and_version():
    done = subprocess.run([program("slotferry-node"), "--help"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and "--requirepass" in done.stdout
    done = subprocess.run([program("slotferry-node"), "--version"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and done.stdout.startswith("slotferry-node 0.")


@pytest.fixture(name="small_disk")
def disk_of_96_mb():
    with small_disk(96) as path:
        yield path


def test_start_on_a_full_disk(small_disk):
    fill_disk(small_disk)
    text = start_fails("--port", "0", "--dir", os.path.join(small_disk, "d"))
    assert small_disk in text and ("full" in text or "space" in text.lower()), text


@pytest.mark.parametrize("reserve", ["32mb", "0"], ids=["reserve", "rocksdb-hits-the-end"])
def test_disk_fills_up_while_running(small_disk, env, reserve):
    node = env.node("node", extra=["--dir", os.path.join(small_disk, "d"), "--reserve-size", reserve,
                                   "--write-buffer-size", "4mb"])
    client = connect(node.port)
    client.set("before", "1")
    fill_disk(small_disk, 2 << 20 if reserve == "0" else 24 << 20)
    acked = {}

    def write_until_refused():
        for i in range(20000):
            key, value = "k%d" % i, os.urandom(4000)
            try:
                client.set(key, value)
                acked[key] = value
            except redis.ResponseError as e:
                return str(e)
        return ""

    text = wait_until("writes are refused", write_until_refused)
    assert "full" in text and "free space" in text, text
    assert client.get("before") == b"1"
    for key in list(acked)[-50:]:
        assert client.get(key) == acked[key]
    run_id = client.info("server")["run_id"]
    with pytest.raises(redis.ResponseError, match="full"):
        client.set("k0", "x")
    free_disk(small_disk)

    def accepted():
        try:
            return client.set("after", "2")
        except (redis.ResponseError, redis.ConnectionError):
            return False

    wait_until("writes go on by themselves", accepted)
    # Where RocksDB itself met the end, the database was opened anew (ADR 0015).
    assert (client.info("server")["run_id"] == run_id) == (reserve != "0")
    for key, value in acked.items():
        assert client.get(key) == value
    client.close()
    node.kill()
    node.start()
    client = connect(node.port)
    assert client.get("after") == b"2"
    for key, value in acked.items():
        assert client.get(key) == value
