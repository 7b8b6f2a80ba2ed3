"""Processes of a test or of the demonstration: started on free loopback ports, in one temporary folder, and ended by pid.

Used by tests/e2e and tests/demo; needs Debian's python3 and python3-redis.
"""
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import redis

SOURCE_DIR = os.environ.get("SF_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("SF_BIN") or os.path.join(SOURCE_DIR, "build", "release", "bin")

_handed_out = set()


def _port_range():
    """Below the ports the kernel gives to outgoing connections: one of those may take a port before its server has it."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
            first = int(f.read().split()[0])
    except OSError:
        first = 0
    return (10000, first - 1) if first > 14000 else (10000, 65535)


_random = random.SystemRandom()
_ports = _port_range()


def free_port():
    """A loopback port nobody listens on now, never handed out twice by this process."""
    while True:
        port = _random.randint(*_ports)
        if port in _handed_out:
            continue
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port


def program(name):
    return os.path.join(BIN, name)


class Proc:
    """One server process. start() returns when its ready line is there; a failure shows its output."""

    def __init__(self, env, name, argv, ready, cwd=None):
        self.env, self.name, self.argv, self.ready, self.cwd = env, name, argv, ready, cwd
        self.popen = None
        self.log_path = os.path.join(env.dir, name + ".log")
        self.starts = 0

    def start(self, extra=(), timeout=30):
        self.starts += 1
        log = open(self.log_path, "ab")
        log.write(("--- start %d: %s\n" % (self.starts, " ".join(list(self.argv) + list(extra)))).encode())
        log.flush()
        # A program that logs to its standard output would stand still once a pipe nobody reads is full.
        says_ready = self.ready is not None and not callable(self.ready)
        self.popen = subprocess.Popen(list(self.argv) + list(extra), stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE if says_ready else log, stderr=log, cwd=self.cwd)
        log.close()
        if self.ready is None:
            return self
        if callable(self.ready):
            self._wait_call(timeout)
        else:
            self._wait_line(timeout)
        return self

    def _wait_line(self, timeout):
        """The ready line comes over a pipe: an event, not a guess. The pipe is drained into the log afterwards."""
        deadline = time.monotonic() + timeout
        seen = b""
        fd = self.popen.stdout.fileno()
        while self.ready.encode() not in seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.kill()
                raise AssertionError("%s: no line with '%s' in %d s\n%s" % (self.name, self.ready, timeout, self.tail()))
            chunk = os.read(fd, 65536)
            if not chunk:
                self.popen.wait()
                raise AssertionError("%s ended with %s before it was ready\n%s%s"
                                     % (self.name, self.popen.returncode, seen.decode(errors="replace"), self.tail()))
            seen += chunk
        self.ready_line = seen.decode(errors="replace").strip()

    def _wait_call(self, timeout):
        deadline = time.monotonic() + timeout
        while True:
            if self.popen.poll() is not None:
                raise AssertionError("%s ended with %s before it was ready\n%s"
                                     % (self.name, self.popen.returncode, self.tail()))
            try:
                if self.ready():
                    return
            except (OSError, redis.RedisError):
                pass
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError("%s not ready in %d s\n%s" % (self.name, timeout, self.tail()))
            time.sleep(0.02)  # a foreign program without a ready line can only be asked

    def tail(self, lines=30):
        try:
            with open(self.log_path, errors="replace") as f:
                return "".join(f.readlines()[-lines:])
        except OSError:
            return ""

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    @property
    def pid(self):
        return self.popen.pid

    def kill(self):
        """kill -9 and reap."""
        if self.alive():
            self.popen.kill()
        if self.popen is not None:
            self.popen.wait()
            if self.popen.stdout:
                self.popen.stdout.close()

    def stop(self, timeout=15):
        if self.alive():
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.popen is not None and self.popen.stdout:
            self.popen.stdout.close()
        return self.popen.returncode if self.popen else None


class Env:
    """A temporary folder and the processes in it. A context manager: ends what it started."""

    def __init__(self, keep=None):
        self.keep = keep
        self.dir = keep or tempfile.mkdtemp(prefix="slotferry-")
        os.makedirs(self.dir, exist_ok=True)
        self.procs = {}
        self.cleanups = []  # called first at the end, whatever happened

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for cleanup in self.cleanups:
            cleanup()
        for proc in reversed(list(self.procs.values())):
            proc.stop(timeout=5)
        if kind is not None:
            for proc in self.procs.values():
                print("---- %s\n%s" % (proc.name, proc.tail(15)))
        if not self.keep:
            shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def add(self, name, argv, ready, start=True, **kw):
        proc = Proc(self, name, argv, ready, **kw)
        self.procs[name] = proc
        return proc.start() if start else proc

    def node(self, name, port=None, extra=(), start=True, binary="slotferry-node"):
        port = port or free_port()
        proc = self.add(name, [program(binary), "--port", str(port), "--bind", "127.0.0.1", "--dir",
                               self.path(name), "--threads", "2", *extra], "ready on", start=start)
        proc.port, proc.address = port, "127.0.0.1:%d" % port
        return proc

    def redis(self, name, port=None, extra=(), start=True):
        port = port or free_port()
        os.makedirs(self.path(name), exist_ok=True)
        conf = self.path(name, "redis.conf")
        if not os.path.exists(conf):
            with open(conf, "w") as f:
                f.write("port %d\nbind 127.0.0.1\ndir %s\nsave \"\"\nappendonly yes\nappendfsync everysec\n"
                        "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\nrepl-backlog-size 64mb\n"
                        % (port, self.path(name)))
        proc = self.add(name, ["redis-server", conf, *extra], lambda: connect(port).ping(), start=start)
        proc.port, proc.address = port, "127.0.0.1:%d" % port
        return proc


def connect(port, **kw):
    """redis-py client without its own retries: a test must see each answer."""
    return redis.Redis(host="127.0.0.1", port=port, socket_timeout=kw.pop("timeout", 10), **kw)


def wait_until(what, condition, timeout=30, step=0.02):
    """For conditions another program can only be asked about. Fails with `what` at the timeout."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("not in %g s: %s" % (timeout, what))
        time.sleep(step)
