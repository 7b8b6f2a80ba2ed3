"""A redis-server 7 that behaves as the Redis 3.2 of a codis-server was recorded to: a filter in front of it.

old_redis.py PORT FOLDER: listens on 127.0.0.1:PORT, keeps the real server on a port of its own in FOLDER, prints "ready on".
No CLIENT PAUSE .. WRITE, UNPAUSE or ID, no REPLICAOF, no settings named after replicas; INFO says version 3.2.11 and no
replication ids; a MULTI is replicated even if nothing in it writes; CLIENT LIST has the clients' addresses and no subcommands. What a 7 does otherwise it does too; that a server
which left replication follows again by a full copy only is the same in both.

A SET whose key contains "orphan" is kept back: its client's connection is broken at once, the server's stays open with the
request unread, until somebody sends FILTER RELEASE. FILTER EXPIRE counts the DEBUG SET-ACTIVE-EXPIRE seen, as on,off.
FILTER FROM ADDRESS: a relay says whose connection this is.
"""
import asyncio
import ctypes
import os
import signal
import subprocess
import sys

INFO_GONE = (b"master_replid", b"second_repl_offset", b"master_failover_state", b"slave_read_repl_offset", b"replicas_")
addresses = {}  # what the real server takes for a client's address -> what it is
held = []
seen_expire = [0, 0]


class Stream:
    """Reads RESP of either side as nested lists; bulk strings are bytes, anything else is its line."""

    def __init__(self, reader):
        self.reader = reader

    async def next(self):
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("end")
        kind, rest = line[:1], line[1:].strip()
        if kind == b"$" and rest != b"-1":
            return (await self.reader.readexactly(int(rest) + 2))[:-2]
        if kind == b"*" and rest != b"-1":
            return [await self.next() for _ in range(int(rest))]
        return (line,)


def packed(value):
    if isinstance(value, tuple):
        return value[0]
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(packed(v) for v in value)
    return b"$%d\r\n%s\r\n" % (len(value), value)


def old_info(text):
    lines = [b"redis_version:3.2.11" if line.startswith(b"redis_version:") else line
             for line in text.split(b"\r\n") if not line.startswith(INFO_GONE)]
    return b"\r\n".join(lines)


def old_clients(text):
    out = []
    for line in text.split(b"\n"):
        words = []
        for word in line.split(b" "):
            if word.startswith(b"addr="):
                word = b"addr=" + addresses.get(word[5:], word[5:])
            elif word.startswith(b"cmd="):
                word = word.split(b"|")[0]
            elif word.startswith((b"laddr=", b"user=", b"redir=", b"resp=", b"lib-")):
                continue
            words.append(word)
        out.append(b" ".join(words))
    return b"\n".join(out)


def old_reply(value):
    if isinstance(value, list):
        return [old_reply(v) for v in value]
    if isinstance(value, bytes) and value.startswith(b"# ") and b"\r\n" in value:
        return old_info(value)
    if isinstance(value, bytes) and value.startswith(b"id=") and b" addr=" in value:
        return old_clients(value)
    return value


def refusal(words):
    """What a 3.2 answers where a 7 would not refuse; None otherwise."""
    first, second = words[0].upper(), words[1].upper() if len(words) > 1 else b""
    if first == b"CLIENT" and (second in (b"ID", b"UNPAUSE", b"INFO", b"NO-EVICT") or (second == b"PAUSE" and len(words) > 3)):
        return b"-ERR Syntax error, try CLIENT (LIST | KILL | GETNAME | SETNAME | PAUSE | REPLY)\r\n"
    if first in (b"REPLICAOF", b"UNLINK", b"ACL", b"HELLO", b"FAILOVER"):
        return b"-ERR unknown command '%s'\r\n" % words[0].lower()
    if first == b"CONFIG" and len(words) > 2 and b"replica" in words[2].lower():
        return b"*0\r\n" if second == b"GET" else b"-ERR Unsupported CONFIG parameter: %s\r\n" % words[2]
    return None


class Client:
    def __init__(self, reader, writer, port):
        self.requests, self.reader, self.writer, self.port = Stream(reader), reader, writer, port
        self.raw = False  # PSYNC, MONITOR, SUBSCRIBE: bytes from then on

    async def run(self):
        self.up_reader, self.up = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        own = self.own = b"%s:%d" % (b"127.0.0.1", self.up.get_extra_info("sockname")[1])
        addresses[own] = b"%s:%d" % (b"127.0.0.1", self.writer.get_extra_info("peername")[1])
        # Ours answer in their turn: each reply waits for those before it.
        self.turns = asyncio.Queue()
        tasks = [asyncio.ensure_future(self.forward()), asyncio.ensure_future(self.answer())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.writer.close()
            self.up.close()

    async def forward(self):
        while not self.raw:
            request = await self.requests.next()
            words = [w for w in request if isinstance(w, bytes)] if isinstance(request, list) else request[0].split()
            if not words:
                continue
            name = words[0].upper()
            if name == b"FILTER":
                self.turns.put_nowait(self.order(*words[1:]))
                continue
            if name == b"DEBUG" and words[1].upper() == b"SET-ACTIVE-EXPIRE":
                seen_expire[words[2] == b"0"] += 1
            no = refusal(words)
            if no is not None:
                self.turns.put_nowait(no)
                continue
            if name == b"SET" and b"orphan" in words[1]:
                released = asyncio.Event()
                held.append(released)
                self.writer.close()
                await released.wait()
            self.raw = name in (b"PSYNC", b"SYNC", b"MONITOR", b"SUBSCRIBE", b"PSUBSCRIBE")
            if name == b"MULTI":  # moves the end of replication, whatever follows
                self.turns.put_nowait(b"")
                self.up.write(packed([b"PUBLISH", b"old-redis", b"multi"]))
            self.turns.put_nowait(None)
            self.up.write(packed(request))
            await self.up.drain()
        while True:
            data = await self.reader.read(1 << 16)
            if not data:
                return
            self.up.write(data)

    def order(self, what, address=None):
        if what.upper() == b"FROM":
            addresses[self.own] = address
            return b"+OK\r\n"
        if what.upper() == b"EXPIRE":
            return b"$%d\r\n%d,%d\r\n" % (len("%d,%d" % tuple(seen_expire)), *seen_expire)
        for released in held:
            released.set()
        return b"+OK\r\n"

    async def answer(self):
        replies = Stream(self.up_reader)
        while True:
            turn = await self.turns.get()
            if turn is None and self.raw:
                break
            if turn == b"":
                await replies.next()
                continue
            self.writer.write(turn if turn is not None else packed(old_reply(await replies.next())))
            await self.writer.drain()
        while True:
            data = await self.up_reader.read(1 << 16)
            if not data:
                return
            self.writer.write(data)
            await self.writer.drain()


async def serve(port, folder):
    sock = os.path.join(folder, "port")
    with open(sock) as f:
        real_port = int(f.read())
    # Killed with the filter, as one server is.
    die_too = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # noqa: E731
    real = subprocess.Popen(["redis-server", os.path.join(folder, "redis.conf")], stdout=subprocess.DEVNULL, preexec_fn=die_too)
    for _ in range(500):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", real_port)
            writer.close()
            break
        except OSError:
            await asyncio.sleep(0.02)  # a foreign program without a ready line can only be asked

    async def accept(reader, writer):
        try:
            await Client(reader, writer, real_port).run()
        except (OSError, EOFError):
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=1 << 26, backlog=512)
    print("ready on %d, server %d pid %d" % (port, real_port, real.pid), flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await stop.wait()
    finally:
        server.close()
        real.kill()
        real.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
