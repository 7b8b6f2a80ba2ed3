"""The admin port of a real shim: operator commands' twin in HTTP (metrics, health, slots, events), password, bad input; how fast
the shim starts and how it stops."""
import base64
import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest
import redis

sys.path.insert(0, os.path.join(os.environ.get("SF_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))), "tests", "support"))
from ferry_env import Env, connect, wait_until  # noqa: E402
from shim_env import Shim, follow_node, keys_in  # noqa: E402

SLOTS = "901-1023"


@pytest.fixture(name="env")
def one_env():
    with Env() as env:
        yield env


def node_shim(env, **kw):
    old, new = env.node("old"), env.node("new")
    follow_node(old.port, new.port, SLOTS)
    return old, new, Shim(env, old.address, new.address, SLOTS, "node", **kw)


def get(shim, path, password=None, basic=None):
    connection = http.client.HTTPConnection("127.0.0.1", shim.admin_port, timeout=20)
    headers = {}
    if password is not None:
        headers["Authorization"] = "Bearer " + password
    if basic is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def metrics(shim):
    status, text = get(shim, "/metrics")
    assert status == 200
    out, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        elif line and not line.startswith("#"):
            name, value = re.fullmatch(r"([a-z0-9_]+(?:\{[^}]*\})?) ([-+0-9.e]+|nan|inf)", line).groups()
            out[name] = float(value)
    return out, types


def events(shim, after=None, headers=None):
    """Yields (id, entry) until the stream ends."""
    connection = http.client.HTTPConnection("127.0.0.1", shim.admin_port, timeout=20)
    connection.request("GET", "/api/v1/events" + ("" if after is None else "?after=%d" % after), headers=headers or {})
    response = connection.getresponse()
    assert response.status == 200 and response.getheader("Content-Type") == "text/event-stream"
    number = None
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, json.loads(line[6:])


def test_metrics_and_api_say_what_SHIM_STATUS_says(env):
    _, _, shim = node_shim(env)
    shim.start(init=True)
    client = connect(shim.port)
    key = keys_in(901, 1023, 1)[0]
    for n in range(100):
        client.set(key, n)
    numbers, types = metrics(shim)
    plan = '{plan="p1"}'
    assert types["slotferry_shim_requests_total"] == "counter" and types["slotferry_shim_slots"] == "gauge"
    assert numbers["slotferry_shim_requests_total" + plan] >= 100
    assert numbers["slotferry_shim_clients" + plan] == 1
    assert numbers['slotferry_shim_slots{plan="p1",state="OLD"}'] == 123
    assert numbers["slotferry_shim_healthy" + plan] == 1
    assert get(shim, "/healthz") == (200, "ok\n")
    wait_until("in sync", lambda: all(row[6] == 0 for row in shim.rows()))
    assert shim.cutover("901-910")[0][1] == "NEW"
    numbers, _ = metrics(shim)
    assert numbers['slotferry_shim_slots{plan="p1",state="NEW"}'] == 10
    assert numbers["slotferry_shim_cutovers_total" + plan] == 10
    status, body = get(shim, "/api/v1/status")
    said = json.loads(body)
    assert status == 200 and said["new_count"] == 10 and set(said) == set(shim.status())
    status, body = get(shim, "/api/v1/slots?slots=901,950")
    rows = json.loads(body)["slots"]
    assert [(r["slot"], r["state"], r["owner"]) for r in rows] == [(901, "NEW", shim.new), (950, "OLD", shim.old)]
    status, body = get(shim, "/api/v1/slots")
    assert len(json.loads(body)["slots"]) == 123


def test_bad_HTTP_gets_one_clear_sentence(env):
    _, _, shim = node_shim(env)
    shim.start(init=True)
    status, body = get(shim, "/nothing")
    assert status == 404 and "/metrics" in json.loads(body)["error"]
    status, body = get(shim, "/api/v1/slots?slots=9-x")
    assert status == 400 and json.loads(body)["error"]
    status, body = get(shim, "/api/v1/events?after=x")
    assert status == 400 and "audit entry" in json.loads(body)["error"]
    # Half a request line, and a closed connection: nothing is left behind, RESP goes on beside.
    for part in (b"G", b"GET /metrics", b"GET /metrics HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", shim.admin_port)) as s:
            s.sendall(part)
    # One byte at a time is as good as at once.
    with socket.create_connection(("127.0.0.1", shim.admin_port)) as s:
        for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            s.sendall(bytes([byte]))
        answer = b""
        while chunk := s.recv(4096):
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"ok\n")
    assert shim.status()["plan"] == "p1"


def test_the_password_is_asked_of_HTTP_too(env):
    _, _, shim = node_shim(env, extra=("--admin-password", "s3cret"))
    shim.proc.start(("--init",))
    for path in ("/metrics", "/api/v1/slots", "/api/v1/status", "/api/v1/events"):
        status, body = get(shim, path)
        assert status == 401 and "password" in json.loads(body)["error"], path
        assert get(shim, path, password="wrong")[0] == 401
        assert get(shim, path, basic="admin:wrong")[0] == 401
    assert get(shim, "/metrics", password="s3cret")[0] == 200
    assert get(shim, "/metrics", basic="admin:s3cret")[0] == 200
    assert get(shim, "/healthz") == (200, "ok\n")  # a load balancer has no password


def test_I12_events_are_the_audit_log_and_go_on_where_one_stopped(env):
    _, _, shim = node_shim(env)
    shim.start(init=True)
    wait_until("in sync", lambda: all(row[6] == 0 for row in shim.rows()))
    seen, ready = [], threading.Event()

    def watch():
        for number, entry in events(shim, after=0):
            seen.append((number, entry["what"]))
            ready.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert ready.wait(10)
    shim.cutover("901-902")
    wait_until("the owner records are told", lambda: sum(w == "owner record" for _, w in seen) == 2)
    numbers = [n for n, _ in seen]
    assert numbers == sorted(set(numbers))
    audit = {line["n"]: line["what"] for line in shim.audit()}
    assert all(audit[n] == what for n, what in seen)
    # From an entry on, as a browser asks after a break.
    middle = numbers[len(numbers) // 2]
    again = next(events(shim, headers={"Last-Event-ID": str(middle)}))
    assert again[0] == middle + 1
    # The stop lets watchers go.
    shim.proc.stop()
    watcher.join(10)
    assert not watcher.is_alive()


def test_I9_watchers_are_bounded_and_others_still_get_answers(env):
    _, _, shim = node_shim(env)
    shim.start(init=True)
    watching = []
    for _ in range(16):
        s = socket.create_connection(("127.0.0.1", shim.admin_port))
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        watching.append(s)
    status, body = get(shim, "/api/v1/events")
    assert status == 503 and "watch already" in json.loads(body)["error"]
    assert get(shim, "/healthz")[0] == 200 and metrics(shim)[0]
    for s in watching:
        s.close()


def test_healthz_says_what_is_wrong(env):
    old, _, shim = node_shim(env)
    shim.start(init=True)
    assert get(shim, "/healthz")[0] == 200
    other = env.node("other")
    connect(old.port).execute_command("SLAVEOF", "127.0.0.1", other.port)  # the old master is none any more
    wait_until("it is unwell", lambda: get(shim, "/healthz")[0] == 503)
    assert "old side" in get(shim, "/healthz")[1]
    assert metrics(shim)[0]['slotferry_shim_healthy{plan="p1"}'] == 0


def test_starts_at_once(env):
    """The bar is 200 ms on a machine that has time, and the figure is printed; a crowded one takes longer."""
    _, _, shim = node_shim(env)
    shim.start(init=True)
    best = 10.0
    for _ in range(5):
        shim.admin.connection_pool.disconnect()
        shim.proc.stop()
        before = time.monotonic()
        shim.start()
        best = min(best, time.monotonic() - before)
    print("start-up", round(best * 1000), "ms")
    assert best < 1.0


def test_SIGTERM_answers_what_is_in_flight_and_takes_nothing_new(env):
    old, new = env.redis("old"), env.redis("new")
    connect(new.port).replicaof("127.0.0.1", old.port)
    wait_until("link", lambda: connect(new.port).info("replication").get("master_link_status") == "up")
    shim = Shim(env, old.address, new.address, SLOTS, "redis").start(init=True)
    client = connect(shim.port, timeout=20)
    key = keys_in(901, 1023, 1)[0]
    client.set(key, "x")
    # The server stands still; a request is on its way to it.
    old.popen.send_signal(signal.SIGSTOP)
    answers = []
    reader = threading.Thread(target=lambda: answers.append(client.get(key)))
    reader.start()
    wait_until("in flight", lambda: shim.status()["inflight"] > 0)
    shim.proc.popen.send_signal(signal.SIGTERM)

    def refused():
        try:
            socket.create_connection(("127.0.0.1", shim.port), timeout=1).close()
        except OSError:
            return True
        return False

    wait_until("no new client is taken", refused)
    old.popen.send_signal(signal.SIGCONT)
    reader.join(20)
    assert answers == [b"x"]
    assert shim.proc.popen.wait(20) == 0
