"""A link between a replica and its master that a test can bend: it knows the stream's framing (RESP arrays of bulk strings), so
one message can be dropped without breaking it, or all of them held, slowed or delayed. One thread a direction and connection.
"""
import collections
import select
import socket
import threading
import time

TO_MASTER, TO_REPLICA = "to master", "to replica"


def take_message(data):
    """(bytes used, words) of the first whole message of `data`; (0, None) if it is not whole. A line is a message of one word."""
    words = []
    used = _take(data, 0, words)
    return (used, words or [b""]) if used else (0, None)


def _take(data, at, words):
    end = data.find(b"\r\n", at)
    if end < 0:
        return 0
    kind, next_at = data[at:at + 1], end + 2
    if kind not in (b"*", b"$"):
        words.append(bytes(data[at:end]))
        return next_at
    count = int(data[at + 1:end])
    if kind == b"*":
        for _ in range(count):
            next_at = _take(data, next_at, words)
            if not next_at:
                return 0
        return next_at
    if count < 0:
        words.append(b"")
        return next_at
    if len(data) < next_at + count + 2:
        return 0
    words.append(bytes(data[next_at:next_at + count]))
    return next_at + count + 2


class Dropped:
    """A message that is to be dropped, and whether it was."""

    def __init__(self, direction, word, count):
        self.direction, self.word, self.left = direction, word.encode(), count
        self.words = []
        self.done = threading.Event()

    def takes(self, direction, words):
        if self.left == 0 or direction != self.direction or words[0] != self.word:
            return False
        self.left -= 1
        self.words.append(words)
        if self.left == 0:
            self.done.set()
        return True


class TcpLink:
    """Listens on `port`; what connects is joined with 127.0.0.1:`target`. Close with close() (Env.cleanups)."""

    def __init__(self, env, target):
        self.target = target
        self.rate = None       # bytes a second towards the replica
        self.delay = 0         # seconds each message is under way
        self.seen = collections.Counter()  # (direction, word)
        self.connections = 0
        self.refusing = False
        self._rules = []
        self._flow = {TO_MASTER: threading.Event(), TO_REPLICA: threading.Event()}
        for event in self._flow.values():
            event.set()
        self._sockets = set()
        self._closed = False
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        env.cleanups.append(self.close)

    def drop(self, direction, word, count=1):
        rule = Dropped(direction, word, count)
        self._rules.append(rule)
        return rule

    def hold(self, *directions):
        for direction in directions or self._flow:
            self._flow[direction].clear()

    def release(self):
        for event in self._flow.values():
            event.set()

    def cut(self):
        for sock in list(self._sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self._closed = True
        self._listener.close()
        self.release()
        self.cut()

    def _accept(self):
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            far = socket.socket()
            try:
                far.connect(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.connections += 1
            for sock in (near, far):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.add(sock)
            for source, sink, direction in ((near, far, TO_MASTER), (far, near, TO_REPLICA)):
                threading.Thread(target=self._run, args=(source, sink, direction), daemon=True).start()

    def _run(self, source, sink, direction):
        try:
            self._pump(source, sink, direction)
        except OSError:
            pass
        for sock in (source, sink):
            self._sockets.discard(sock)
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def _pump(self, source, sink, direction):
        data, waiting = bytearray(), collections.deque()
        while True:
            timeout = max(0, waiting[0][0] - time.monotonic()) if waiting else None
            if select.select([source], [], [], timeout)[0]:
                chunk = source.recv(1 << 16)
                if not chunk:
                    return
                data += chunk
                at = 0
                while True:
                    used, words = take_message(memoryview(data)[at:].tobytes() if at else data)
                    if not used:
                        break
                    message, at = data[at:at + used], at + used
                    if self._passes(direction, words):
                        waiting.append((time.monotonic() + self.delay, bytes(message)))
                del data[:at]
            while waiting and waiting[0][0] <= time.monotonic():
                self._flow[direction].wait()
                self._send(sink, direction, waiting.popleft()[1])

    def _send(self, sink, direction, message):
        if self.rate and direction == TO_REPLICA:
            for at in range(0, len(message), 1 << 15):
                piece = message[at:at + (1 << 15)]
                sink.sendall(piece)
                if self.rate:
                    time.sleep(len(piece) / self.rate)
        else:
            sink.sendall(message)

    def _passes(self, direction, words):
        self.seen[direction, words[0].decode(errors="replace")] += 1
        return not any(rule.takes(direction, words) for rule in list(self._rules))
