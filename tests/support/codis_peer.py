"""What codis-proxy, codis-dashboard, the fork's dashboard and codis-fe do with a backend's bytes (contract: tests/golden/codis):
a raw connection that counts replies, the recorded transcripts, and the readers of INFO with their faults."""
import os
import re
import select
import socket

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "codis", "transcripts")


def encode(words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        raw = word.encode() if isinstance(word, str) else word
        out += b"$%d\r\n%s\r\n" % (len(raw), raw)
    return out


class Wire:
    """One TCP connection that speaks bytes. Replies are tuples: ("+", text), ("-", text), (":", int), ("$", bytes or None),
    ("*", list or None)."""

    def __init__(self, port, password=None, timeout=15):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.buffer = b""
        if password is not None:
            assert self.ask("AUTH", password) == ("+", "OK")

    def send(self, *requests):
        """One write for all of them."""
        self.socket.sendall(b"".join(encode(words) for words in requests))

    def send_bytes(self, data):
        self.socket.sendall(data)

    def ask(self, *words):
        self.send(words)
        return self.read()

    def read(self):
        kind, rest = self._line()[:1], self._last[1:]
        if kind in (b"+", b"-"):
            return kind.decode(), rest.decode(errors="replace")
        if kind == b":":
            return ":", int(rest)
        if kind == b"$":
            return "$", None if rest == b"-1" else self._exactly(int(rest))
        assert kind == b"*", self._last
        return "*", None if rest == b"-1" else [self.read() for _ in range(int(rest))]

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        self._last, self.buffer = self.buffer.split(b"\r\n", 1)
        return self._last

    def _exactly(self, size):
        while len(self.buffer) < size + 2:
            self._fill()
        raw, self.buffer = self.buffer[:size], self.buffer[size + 2:]
        return raw

    def _fill(self):
        more = self.socket.recv(1 << 16)
        if not more:
            raise ConnectionError("closed by the server, unread: %r" % self.buffer[:80])
        self.buffer += more

    def is_silent(self, seconds=0.0):
        """Nothing more comes, and the connection stays open."""
        return not self.buffer and not select.select([self.socket], [], [], seconds)[0]

    def close(self):
        self.socket.close()


def is_error(reply, code="ERR"):
    return reply[0] == "-" and reply[1].startswith(code)


# ---- recorded transcripts

def parse_value(text, at=0):
    """(reply, end) of one value as the transcripts write it."""
    if text[at] == "[":
        items, at = [], at + 1
        while text[at] != "]":
            item, at = parse_value(text, at)
            items.append(item)
            while text[at] == " ":
                at += 1
        return ("*", items), at + 1
    if text[at] == '"':
        out, at = bytearray(), at + 1
        while text[at] != '"':
            if text[at] == "\\":
                if text[at + 1] == "x":
                    out.append(int(text[at + 2:at + 4], 16))
                    at += 4
                    continue
                at += 1
            out += text[at].encode()
            at += 1
        return ("$", bytes(out)), at + 1
    if text[at:at + 3] in ("$-1", "*-1"):
        return (text[at], None), at + 3
    end = at
    while end < len(text) and text[end] != "]" and not (text[end] == " " and text[at] != "-"):
        end += 1
    word = text[at + 1:end]
    return (text[at], int(word) if text[at] == ":" else word), end


class Recorded:
    """One transcript: steps of (connection, requests sent in one write, their recorded replies), in the order of sending."""

    def __init__(self, name):
        self.name, self.steps = name, []
        waiting = {}
        with open(os.path.join(GOLDEN, name)) as f:
            self.title = f.readline().strip("# \n")
            for line in f:
                conn, sign, value = line.rstrip("\n").split("\t")
                if sign == "*":
                    continue
                if sign == "<":
                    for replies in waiting.get(conn, [])[:1]:
                        replies.append(parse_value(value)[0])
                        waiting[conn].pop(0)
                    continue
                words = [word for _, word in parse_value(value)[0][1]]
                index = int(sign[1:].split("/")[0]) if len(sign) > 1 else 1
                step = next((s for s in reversed(self.steps) if s[0] == conn), None)
                if step is None or index == 1:
                    step = (conn, [], [])
                    self.steps.append(step)
                step[1].append(words)
                waiting.setdefault(conn, []).append(step[2])


def transcripts():
    return sorted(name for name in os.listdir(GOLDEN) if name.endswith(".txt"))


# ---- readers of INFO, each with the faults of the original

def info_fields(text):
    """As the dashboard: lines with a colon, the last of a name wins."""
    fields = {}
    for line in text.split("\n"):
        name, colon, value = line.strip().partition(":")
        if colon and not name.startswith("#"):
            fields[name.strip()] = value.strip()
    return fields


def master_addr(text):
    """CodisLabs' dashboard: set as soon as either field is not empty (T18)."""
    fields = info_fields(text)
    host, port = fields.get("master_host", ""), fields.get("master_port", "")
    return host + ":" + port if host or port else None


def keyspace(text):
    """CodisLabs' dashboard after remaining 0: a line that starts with db and has no number after it is an error (T2)."""
    return {int(name[2:]): value for name, value in info_fields(text).items() if name.startswith("db")}


def fork_replication(text):
    """The fork's dashboard; an IndexError here ends that process (T20)."""
    found = {"slaves": []}
    for line in text.split("\r\n"):
        name, _, value = line.partition(":")
        if name.startswith("db0"):
            for part in value.split(","):
                key, _, number = part.partition("=")
                if key == "binlog_offset":
                    words = number.split(" ")
                    found["binlog"] = (int(words[0]), int(words[1]))
        elif re.match(r"slave[0-9]+", name):
            found["slaves"].append(dict(p.split("=", 1) for p in value.split(",")))
        else:
            found[name] = value
    return found


def fe_keys(fields):
    """codis-fe: (shown, sum): every field whose name contains db<digits>."""
    shown = {name: value for name, value in fields.items() if re.search(r"db\d+", name)}
    return shown, sum(int(re.match(r"\d+", value.split(",")[0].split("=")[1]).group()) for value in shown.values())
