"""The load of the demonstration: redis-benchmark in a loop through every proxy, and the checking client."""
import json
import os
import signal
import subprocess
import threading

from ferry_env import program


class Benchmark:
    """redis-benchmark, started again whenever it ends (it gives up when its server goes away), until stopped."""

    def __init__(self, env, port, argv, clients=1, pipeline=1):
        self.command = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", str(clients), "-P",
                        str(pipeline), "-n", "100000000", "-r", "20000", "-q", "-e", *argv]
        self.path = env.path("benchmark-%d-%s.log" % (port, argv[0]))
        self.stopping = threading.Event()
        self.errors = 0
        self.popen = None
        env.cleanups.append(self.stop)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopping.is_set():
            with open(self.path, "ab") as log:
                self.popen = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                self.popen.wait()
            self.stopping.wait(0.2)

    def stop(self):
        self.stopping.set()
        while self.thread.is_alive():  # it may be just starting another
            if self.popen:
                self.popen.kill()
            self.thread.join(0.1)
        with open(self.path, errors="replace") as f:
            self.errors = sum(line.count("Error") for line in f.read().replace("\r", "\n").splitlines())


class Load:
    """Everything that writes while the slots move. stop() returns the checking client's findings."""

    def __init__(self, env, cluster, seed, slots="801-1023", clients=16, benchmarks=True, hot_tags=()):
        self.env = env
        self.out = env.path("check.json")
        self.check = env.add("ferry-check", [program("ferry-check"), "run", "--proxies", cluster.proxy_list(), "--slots",
                                             slots, "--clients", str(clients), "--seed", str(seed), "--out", self.out,
                                             "--think-us", "1000"], "running")
        self.benchmarks = []
        if benchmarks:
            for i, port in enumerate(cluster.proxy_ports):
                # Keys of all slots, an eighth of them moving; or, with hot tags, of one moving slot a proxy.
                key = "bench:{%s}:__rand_int__" % hot_tags[i] if hot_tags else "bench:__rand_int__"
                # On two cores one connection without a pipeline is 2,000 to 2,700 writes/s a proxy; four with a pipeline
                # of four are 10,000/s and leave no core idle for anybody. Pauses are measured below half load.
                busy = {"clients": 4, "pipeline": 4} if hot_tags else {}
                self.benchmarks.append(Benchmark(env, port, ["SET", key, "v" * 64], **busy))

    def stop(self):
        for benchmark in self.benchmarks:
            benchmark.stop()
        self.check.popen.send_signal(signal.SIGTERM)
        self.check.popen.wait(120)
        with open(self.out) as f:
            findings = json.load(f)
        findings["benchmark_error_lines"] = sum(b.errors for b in self.benchmarks)
        return findings


def dataset(command, cluster, keys, seed, slots="801-1023"):
    """Writes ("load") or compares ("audit") the standing data. Returns the program's JSON."""
    done = subprocess.run([program("ferry-check"), command, "--proxies", cluster.proxy_list(), "--slots", slots,
                           "--keys", str(keys), "--seed", str(seed)], stdout=subprocess.PIPE, timeout=600,
                          stdin=subprocess.DEVNULL)
    return json.loads(done.stdout.decode().strip().splitlines()[-1])
