"""A small Codis cluster of the stand-in: dashboard, two proxies, groups of real servers. For the demonstration and tests."""
import hashlib
import json
import os
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ferry_env import connect, free_port, program, wait_until  # noqa: E402
from old_redis_env import old_redis  # noqa: E402

PRODUCT = "codis-demo"


class Dashboard:
    """HTTP client of the dashboard's API (contract: tests/golden/codis)."""

    def __init__(self, address):
        self.address = address
        self.xauth = hashlib.sha256(("Codis-XAuth-[%s]" % PRODUCT).encode()).hexdigest()[:32]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request("http://%s%s" % (self.address, path), data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError("%s %s: %d %s" % (method, path, error.code, error.read().decode()[:300])) from error

    def put(self, what, *words, body=None):
        return self.call("PUT", "/api/topom/%s/%s" % (what, "/".join([self.xauth, *map(str, words)])), body)

    def stats(self):
        return self.call("GET", "/api/topom/stats/%s" % self.xauth)

    def slots(self):
        return self.call("GET", "/api/topom/slots/%s" % self.xauth)


class Cluster:
    """Groups: 1 owns slots 0-800 (one server), 3 owns 801-1023 (master, slave), 4 is empty (master, slave)."""

    def __init__(self, env, kind="node", node_flags=()):
        self.env, self.kind = env, kind
        make = {"node": lambda name: env.node(name, extra=node_flags), "redis": env.redis,
                "old-redis": lambda name: old_redis(env, name, "appendonly yes\n"), "pika": self._fake_pika,
                "pika-sharding": self._sharded_pika}[kind]
        self.g1 = make("g1-master")
        self.g3, self.g3_slave = make("g3-master"), make("g3-slave")
        self.g4, self.g4_slave = make("g4-master"), make("g4-slave")
        self._replicate(self.g3_slave, self.g3)
        if not kind.startswith("pika"):  # a Pika with slaves could not be taken back; its slave comes after the switch
            self._replicate(self.g4_slave, self.g4)
        port = free_port()
        self.dashboard_address = "127.0.0.1:%d" % port
        state = env.path("dashboard-state.json")
        if kind.endswith("redis"):
            # A stock redis-server has no SLOTSINFO, so `group add` refuses it, as the real dashboard does. An
            # operator who runs such groups has them in the coordinator already; so has this one.
            self._write_state(state)
        self.dashboard = env.add("dashboard", [program("codis-standin"), "dashboard", "--port", str(port), "--product",
                                               PRODUCT, "--state", state], "ready")
        self.api = Dashboard(self.dashboard_address)
        if not kind.endswith("redis"):
            self._fill_dashboard()
        self.proxies, self.proxy_ports = [], []
        for i in (1, 2):
            port, admin = free_port(), free_port()
            self.proxies.append(env.add("proxy-%d" % i, [program("codis-standin"), "proxy", "--port", str(port),
                                                         "--admin-port", str(admin), "--product", PRODUCT], "ready"))
            self.proxy_ports.append(port)
            self.api.put("proxy/create", "127.0.0.1:%d" % admin)
        wait_until("proxies route slot 1023", self._routed, 20)

    def _fake_pika(self, name, *flags):
        port = free_port()
        proc = self.env.add(name, [program("fake-pika"), "--port", str(port), *flags], "ready on")
        proc.port, proc.address = port, "127.0.0.1:%d" % port
        return proc

    def _sharded_pika(self, name):
        """Group 4's servers hold no slot: the run adds them."""
        held = {"g1": ("--slots", "0-800"), "g3": ("--slots", "801-1023")}.get(name[:2], ())
        return self._fake_pika(name, "--sharding", "--version", "3.4.0", *held)

    def _routed(self):
        return all(connect(port).set("ready{user:1000}", "1") for port in self.proxy_ports)

    def _replicate(self, slave, master):
        if self.kind == "pika-sharding":
            client = connect(slave.port, decode_responses=True)
            client.execute_command("PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", master.port, "801-1023", "force")
            wait_until("%s follows %s" % (slave.name, master.name), lambda: client.execute_command(
                "PKCLUSTER", "INFO", "SLOT", "801-1023").count("kConnected") == 223, 30)
            return
        connect(slave.port).execute_command("SLAVEOF", "127.0.0.1", master.port)
        wait_until("%s follows %s" % (slave.name, master.name),
                   lambda: connect(slave.port).info("replication").get("master_link_status") == "up", 30)

    def _groups(self):
        return [(1, [self.g1]), (3, [self.g3, self.g3_slave]), (4, [self.g4, self.g4_slave])]

    def _fill_dashboard(self):
        for group, servers in self._groups():
            self.api.put("group/create", group)
            for server in servers:
                self.api.put("group/add", group, server.address)
        self.api.put("slots/assign", body=[{"id": slot, "group_id": 1 if slot <= 800 else 3} for slot in range(1024)])

    def _write_state(self, path):
        groups = [{"id": group, "servers": [{"server": s.address, "datacenter": "", "action": {}, "replica_group": False}
                                            for s in servers], "promoting": {}, "out_of_sync": False}
                  for group, servers in self._groups()]
        slots = [{"id": slot, "group_id": 1 if slot <= 800 else 3, "action": {}} for slot in range(1024)]
        with open(path, "w") as f:
            json.dump({"groups": groups, "slots": slots, "proxies": []}, f)

    def proxy_list(self):
        return ",".join("127.0.0.1:%d" % port for port in self.proxy_ports)
