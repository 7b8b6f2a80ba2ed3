"""Starts a Redis before 6.2: the filter of old_redis.py, or the real binary that SF_OLD_REDIS names (codis-server)."""
import os
import sys

from ferry_env import SOURCE_DIR, connect, free_port

REAL = os.environ.get("SF_OLD_REDIS")


def old_redis(env, name, conf=""):
    """Started. `server_pid` is the process that has the data. `conf`: more lines of its file."""
    port, folder = free_port(), env.path(name + ".d")
    os.makedirs(folder)
    path = os.path.join(folder, "redis.conf")
    inner = port if REAL else free_port()
    with open(path, "w") as f:
        f.write("port %d\nbind 127.0.0.1\ndir %s\nsave \"\"\nrepl-backlog-size 64mb\nrepl-diskless-sync yes\n"
                "repl-diskless-sync-delay 0\n%s" % (inner, folder, conf))
        if not REAL:
            f.write("enable-debug-command yes\n")
    if REAL:
        proc = env.add(name, [REAL, path], lambda: connect(port).ping())
        proc.server_pid = proc.pid
    else:
        with open(os.path.join(folder, "port"), "w") as f:
            f.write(str(inner))
        filter_program = os.path.join(SOURCE_DIR, "tests", "support", "old_redis.py")
        proc = env.add(name, [sys.executable, filter_program, str(port), folder], "ready on")
        proc.server_pid = int(proc.ready_line.split()[-1])
    proc.port, proc.address = port, "127.0.0.1:%d" % port
    return proc
