"""redis-sentinel for tests: quick periods, its questions as words."""
import os

from ferry_env import connect, free_port


class Sentinel:
    """A real redis-sentinel that watches `master` (anything with a port) under the name m."""

    def __init__(self, env, name, master, quorum, password=None, down_after_ms=1000):
        self.port = free_port()
        os.makedirs(env.path(name))
        conf = env.path(name, "sentinel.conf")
        with open(conf, "w") as f:
            f.write("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor m 127.0.0.1 %d %d\n"
                    "sentinel down-after-milliseconds m %d\nsentinel failover-timeout m 3000\nsentinel parallel-syncs m 1\n"
                    % (self.port, env.path(name), master.port, quorum, down_after_ms))
            if password:
                f.write("sentinel auth-pass m %s\n" % password)
        self.proc = env.add(name, ["redis-sentinel", conf, "--logfile", env.path(name + ".log")],
                            lambda: connect(self.port).ping())
        # Its own periods are made for production: INFO each 10 s, and so on.
        self("SENTINEL", "DEBUG", "info-period", 400, "ping-period", 200, "publish-period", 500, "ask-period", 200,
             "slave-reconf-timeout", 3000, "min-link-reconnect-period", 1000)

    def __call__(self, *words):
        with connect(self.port) as client:
            for name in ("SENTINEL", "SENTINEL GET-MASTER-ADDR-BY-NAME"):
                client.set_response_callback(name, lambda reply, **_: reply)
            return client.execute_command(*words)

    def master_port(self):
        return int(self("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")[1])

    def known(self, what):
        rows = self("SENTINEL", what, "m")
        return [{row[i].decode(): row[i + 1].decode() for i in range(0, len(row), 2)} for row in rows]
