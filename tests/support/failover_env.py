"""Two groups of two servers, a dashboard that knows them, relays in front of both masters and a shim: for tests in which a master
dies while the cutover stands in a chosen state.

What counts as lost: a master that dies takes with it what it had acknowledged and its slave did not have; that is Codis's and
Redis's own loss, whoever forwards. So before each death the test waits until the slave has everything (positions, not time), while
nothing more is acknowledged: the writers have ended, or stand held. From there on every acknowledged write must be there.
"""
import json
import os
import sys
import threading

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo"))
from cluster import PRODUCT, Dashboard  # noqa: E402
from ferry_env import connect, free_port, program, wait_until  # noqa: E402
from gate import Gate  # noqa: E402
from old_redis_env import old_redis  # noqa: E402
from shim_env import Shim, Writer, follow_node, keys_in  # noqa: E402

SLOTS = "901-1023"
FEW_SLOTS = "944-963"  # where each is copied by a connection of its own, through the relay
BOUND_MS = 3000

# (state, side whose command is stopped, the command, executed before it is stopped). The names say where the machine stands.
STOPS = {
    "node": {
        "HOLD": ("old", ("SET", "held*"), True),
        "BARRIER, end not told": ("old", ("PKCLUSTER", "FENCE", "LEASE"), False),
        "BARRIER, not applied": ("new", ("REPLICATION", "WAITAPPLIED"), False),
        "PROMOTE, not sealed": ("old", ("PKCLUSTER", "FENCE", "PERMANENT"), False),
        "PROMOTE, not promoted": ("new", ("PKCLUSTER", "PROMOTE"), False),
        "PROMOTE, promoted": ("new", ("PKCLUSTER", "PROMOTE"), True),
        "NEW, not linked": ("old", ("PKCLUSTER", "FOLLOW"), False)},
    "redis": {
        "HOLD": ("old", ("SET", "held*"), True),
        "BARRIER, end not told": ("old", ("CLIENT", "PAUSE"), False),
        "PROMOTE, not sealed": ("old", ("CONFIG", "SET", "MIN-REPLICAS-TO-WRITE"), False),
        "PROMOTE, not promoted": ("new", ("REPLICAOF", "NO"), False),
        "PROMOTE, promoted": ("new", ("REPLICAOF", "NO"), True),
        "NEW, not marked": ("new", ("SET", "{__slotferry}:owner*"), False)},
    "old-redis": {
        "HOLD": ("old", ("SET", "held*"), True),
        "BARRIER, end not told": ("old", ("CONFIG", "SET", "MIN-SLAVES-TO-WRITE"), False),
        "PROMOTE, not promoted": ("new", ("SLAVEOF", "NO"), False),
        "PROMOTE, promoted": ("new", ("SLAVEOF", "NO"), True),
        "NEW, not marked": ("new", ("SET", "{__slotferry}:owner*"), False)},
    "pika": {
        "HOLD": ("old", ("SET", "held*"), True),
        "BARRIER, end not told": ("old", ("SET", "{*"), False),
        "BARRIER, not applied": ("new", ("MGET", "{*"), False),
        "PROMOTE, not promoted": ("new", ("SLAVEOF", "NO"), False),
        "PROMOTE, promoted": ("new", ("SLAVEOF", "NO"), True),
        "NEW, not marked": ("new", ("SET", "{*"), False)},
    "pika-sharding": {
        "HOLD": ("old", ("SET", "held*"), True),
        "BARRIER, end not told": ("old", ("SET", "{*"), False),
        "BARRIER, not applied": ("new", ("MGET", "{*"), False),
        "PROMOTE, not promoted": ("new", ("PKCLUSTER", "SLOTSSLAVEOF", "NO"), False),
        "PROMOTE, promoted": ("new", ("PKCLUSTER", "SLOTSSLAVEOF", "NO"), True),
        "NEW, not marked": ("new", ("SET", "{*"), False),
        "NEW, not linked": ("old", ("PKCLUSTER", "SLOTSSLAVEOF"), False)},
}


class Failover:
    """`kind`: node, redis, old-redis (before 6.2), pika or pika-sharding. `cut`: the unit that is switched in the test."""

    def __init__(self, env, kind):
        self.env, self.kind = env, kind
        self.slots = FEW_SLOTS if kind == "pika-sharding" else SLOTS
        self.by_slot, self.is_pika = kind in ("node", "pika-sharding"), kind.startswith("pika")
        self.old, self.old_slave, self.new, self.new_slave = (self._server(n) for n in ("old", "old-slave", "new", "new-slave"))
        self.is_redis = kind.endswith("redis")
        name = "slotferry-relay" if kind == "redis" else None
        self.gates = {side: Gate(env, proc, name, getattr(proc, "announced", None), introduces=kind == "old-redis")
                      for side, proc in (("old", self.old), ("new", self.new))}
        self._follow(self.old_slave, self.old.port)
        self._start_dashboard()
        self.cut = "950" if self.by_slot else self.slots
        self.first, self.last = (950, 950) if self.by_slot else (901, 1023)
        for key in keys_in(*map(int, self.slots.split("-")), 40, "fill"):
            self.ask("old", "SET", key, key)
        self._attach()
        self.shim = Shim(env, self.gates["old"].address, self.gates["new"].address, self.slots, self.plan_kind(),
                         max_pause_ms=BOUND_MS)
        self.shim.write_plan(dashboard=self.dashboard_address, product=PRODUCT, unit="slot" if self.by_slot else "plan",
                             accept=["streams"] if kind == "pika" else [],
                             **{side: self.side(side, self.gates[side].address) for side in ("old", "new")})
        self.shim.start(init=True)
        self.waiting = []

    # ---- servers

    def plan_kind(self):
        return "redis" if self.is_redis else self.kind

    def _server(self, name):
        if self.kind == "node":
            return self.env.node(name)
        if self.kind == "redis":
            return self.env.redis(name)
        if self.kind == "old-redis":
            return old_redis(self.env, name)
        port, announced = free_port(), free_port()
        called = ["--announced-port", str(announced)] if name in ("old", "new") else []
        if self.kind == "pika-sharding":
            called += ["--sharding", "--version", "3.4.0", "--slots", self.slots]
        proc = self.env.add(name, [program("fake-pika"), "--port", str(port), *called], "ready on")
        proc.announced = announced
        proc.port, proc.address = port, "127.0.0.1:%d" % port
        return proc

    def slave_of(self, side):
        return self.old_slave if side == "old" else self.new_slave

    def ask(self, who, *words):
        """A side's master is asked through its relay: it takes our own connections for strangers otherwise."""
        port = self.gates[who].port if isinstance(who, str) else who.port
        client = connect(port, decode_responses=True)
        try:
            return client.execute_command(*words)
        finally:
            client.connection_pool.disconnect()

    def _slot_info(self, who, slots):
        return self.ask(who, "PKCLUSTER", "INFO", "SLOT", slots)

    def _follow_slots(self, slave, port, slots):
        self.ask(slave, "PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", port, slots, "force")
        count = self._slot_info(slave, slots).count("Role:")
        wait_until(slave.name + " follows", lambda: self._slot_info(slave, slots).count("kConnected") == count)

    def _follow(self, slave, port, *how):
        if self.kind == "pika-sharding":
            return self._follow_slots(slave, port, self.slots)
        self.ask(slave, "SLAVEOF", "127.0.0.1", port, *how)
        if self.kind == "pika":
            self.ask(slave, "CONFIG", "REWRITE")
        wait_until(slave.name + " follows", lambda: self.ask(slave, "INFO", "replication").get("master_link_status") == "up")

    def _attach(self):
        gate = self.gates["old"]
        if self.kind == "node":
            follow_node(gate.port, self.new.port, self.slots)
        else:
            self._follow(self.new, gate.port)
        if self.is_pika:
            return  # a Pika with slaves refuses SLAVEOF: the new master gets its slave after the switch
        self._follow(self.new_slave, self.new.port)

    def follow_successor(self, replaced):
        """What the runbook says after a failover of either group: the new group's master follows the old group's, from a copy where
        it must. A promoted server of the new group holds keys that it owns no more: FORCE."""
        master, slave = self.masters["old"], self.masters["new"]
        if self.kind == "node":
            follow_node(master.port, slave.port, SLOTS, *(["FORCE"] if replaced == "new" else []))
        elif self.is_redis:
            # One before 6.2 is known by the port it was dialled at.
            behind = self.kind == "old-redis" and master is self.old
            self._follow(slave, self.gates["old"].port if behind else master.port)
        else:
            self.ask(master, "FAKE", "SET", "copy_ms", "1300")  # long enough for the shim, which looks each second
            self.ask(slave, *self._leave())
            self._follow(slave, master.port, "force")

    def replicated(self, side):
        """The slave has all that its master acknowledged."""
        slave = self.slave_of(side)
        if self.kind == "node":
            ends = {(row[2], row[3]) for row in self.ask(side, "REPLICATION", "POSITIONS", SLOTS) if row[1] == "master"}
            for history, seq in ends:
                assert self.ask(slave, "REPLICATION", "WAITAPPLIED", SLOTS, history, seq, 8000) == 1
            return
        wait_until("the slave of the %s master has everything" % side, lambda: self._end(slave) == self._end(side))

    def _leave(self):
        return ("PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", self.slots) if self.kind == "pika-sharding" else ("SLAVEOF", "NO", "ONE")

    def is_master(self, who):
        if self.kind == "pika-sharding":
            return "Role: Master" in self._slot_info(who, self.cut)
        return self.ask(who, "INFO", "replication")["role"] == "master"

    def _end(self, who):
        if self.kind == "pika-sharding":
            return self._slot_info(who, self.cut).split(",")[0]
        said = self.ask(who, "INFO", "replication")
        if self.is_redis:
            return said.get("slave_repl_offset", said["master_repl_offset"])
        return [value for name, value in sorted(said.items()) if name.startswith("db0")]

    # ---- Codis

    def _start_dashboard(self):
        state = self.env.path("dashboard-state.json")
        groups = [(3, [self.gates["old"].address, self.old_slave.address]), (4, [self.gates["new"].address,
                                                                                self.new_slave.address])]
        with open(state, "w") as f:
            json.dump({"groups": [{"id": g, "servers": [{"server": s, "datacenter": "", "action": {}, "replica_group": False}
                                                        for s in servers], "promoting": {}, "out_of_sync": False}
                                  for g, servers in groups],
                       "slots": [{"id": s, "group_id": 3, "action": {}} for s in range(1024)], "proxies": []}, f)
        port = free_port()
        self.dashboard_address = "127.0.0.1:%d" % port
        self.env.add("dashboard", [program("codis-standin"), "dashboard", "--port", str(port), "--product", PRODUCT, "--state",
                                   state], "ready")
        self.api = Dashboard(self.dashboard_address)
        self.masters = {"old": self.old, "new": self.new}

    def side(self, side, master):
        servers = [self.gates[side].address, self.slave_of(side).address]
        return {"master": master, "servers": servers, "password": "", "kind": self.plan_kind()}

    def promote(self, side, noticed=True):
        """As the dashboard does it, each flavour in its way; the shim hears of it from the dashboard only."""
        slave = self.slave_of(side)
        if self.is_pika:
            self.ask(slave, *self._leave())
            self.ask(slave, "CONFIG", "REWRITE")
        self.api.put("group/promote", 3 if side == "old" else 4, slave.address)
        if noticed:
            wait_until("the shim has noticed", lambda: [t for t in self.told() if slave.address in t])
        self.masters[side] = slave

    def come_back(self, side):
        """The dead master stays away: the dashboard does not touch it."""

    def stop_shim(self):
        self.shim.admin.connection_pool.disconnect()
        self.shim.proc.kill()

    def start_shim(self, *flags):
        self.shim.proc.start(flags)
        self.shim.admin = connect(self.shim.admin_port, timeout=60, decode_responses=True)

    def reload(self, side, *words):
        self.shim.write_plan(**{side: self.side(side, self.masters[side].address)})
        return self.shim.ask("RELOAD", *words)

    def told(self):
        return [line["text"] for line in self.shim.audit() if line["what"] == "first server changed"]

    # ---- states

    def stand(self, state):
        """Brings the unit into `state`, exactly. What must be released later is in `waiting`."""
        if state == "OLD":
            return
        if state not in ("NEW", "FINAL"):
            side, words, executed = STOPS[self.kind][state]
            # What a Pika driver does before the pause is no step of it: it tries, forecasts, and leaves replication once.
            rehearsed = 1 if self.is_pika and words == ("SLAVEOF", "NO") else 0  # (3.4 needs no such rehearsal)
            rule = self.gates[side].stop(*words, answer=executed, unless=":trial:", skip=rehearsed)
            if state == "HOLD":
                self._spawn(lambda: connect(self.shim.port).set(keys_in(self.first, self.last, 1, "held")[0], "held"))
                rule.wait()
            self._spawn(lambda: self.shim_call("CUTOVER", self.cut))
            rule.wait()
            self.waiting.append(rule)
            phase = "NEW" if state == "NEW, not linked" else "PROMOTE" if "PROMOTE" in state or "NEW" in state else "HOLD"
            wait_until("the unit is in " + phase, lambda: set(self.shim.states(self.cut).values()) == {phase})
            if self.kind == "pika-sharding" and phase == "NEW":
                self._follow_slots(self.new_slave, self.new.port, self.cut)
            return
        result = self.shim.cutover(self.cut)
        assert {row[1] for row in result} == {"NEW"}, result
        if self.kind == "pika":
            self._follow(self.new_slave, self.new.port)
        if self.kind == "pika-sharding":
            self._follow_slots(self.new_slave, self.new.port, self.cut)
        if state == "FINAL":
            self.shim.ask("FINAL", self.cut)

    def shim_call(self, *words):
        client = connect(self.shim.admin_port, timeout=60)
        client.execute_command("SHIM", "PERMIT", self.cut)
        return client.execute_command("SHIM", *words)

    def _spawn(self, what):
        def run():
            try:
                what()
            except (redis.RedisError, OSError):
                pass
        threading.Thread(target=run, daemon=True).start()

    def release(self):
        for rule in self.waiting:
            rule.release()

    def writer(self, name):
        return Writer(self.shim.port, keys_in(self.first, self.last, 12, name), name, tolerate_errors=True)

    def refusal(self, key, value="probe"):
        """The error text of a write through the shim, or "" if it is taken."""
        try:
            connect(self.shim.port).set(key, value)
            return ""
        except redis.RedisError as e:
            return str(e) or "error"
