"""A relay in front of one server that stops a chosen command until the test lets it go: before it reaches the server, or with
the answer kept back after it did. So a machine that waits for that answer stands in a known state, without a sleep anywhere.
The server behind is known by the relay's address only, and dies with it.
"""
import socket
import threading

from tcp_link import take_message


class Stop:
    """One command that is stopped, once. `reached` is set when it is there."""

    def __init__(self, gate, words, answer, unless, skip):
        self.skip = skip
        self.gate, self.words, self.answer = gate, [w.upper().encode() for w in words], answer
        self.unless = unless.encode() if unless else None
        self.taken = False
        self.reached, self.released = threading.Event(), threading.Event()

    def takes(self, words):
        """Every word of the rule stands in the command, in this order; a rule word that ends with * is a prefix."""
        if self.taken or self.unless and any(self.unless in word for word in words):
            return False
        at = 0
        for word in words:
            if at == len(self.words):
                break
            wanted, given = self.words[at], word.upper()
            if given.startswith(wanted[:-1]) if wanted.endswith(b"*") else given == wanted:
                at += 1
            elif at == 0:
                return False
        if at == len(self.words) and self.skip > 0:
            self.skip -= 1
            return False
        self.taken = at == len(self.words)
        return self.taken

    def wait(self, timeout=20):
        assert self.reached.wait(timeout), "nobody sent %r to port %d" % (b" ".join(self.words), self.gate.target)
        return self

    def release(self):
        self.released.set()


class Gate:
    """Listens on `port`; what connects is joined with the server `proc` (Env.node and the like). `name`: given to the server as
    each connection's name, for those that tell strangers by CLIENT LIST. `introduces`: old_redis.py is told whose connection it is."""

    def __init__(self, env, proc, name=None, port=None, introduces=False):
        self.proc, self.target, self.name = proc, proc.port, name
        self.introduces = introduces
        self._lock = threading.Lock()
        self._stops, self._sockets = [], set()
        self._listener = None
        self.port = port
        self._listen()
        self.address = "127.0.0.1:%d" % self.port
        env.cleanups.append(self.down)

    def _listen(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port or 0))
        self._listener.listen(64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self, *words, answer=False, unless=None, skip=0):
        """The next command with these words is stopped; with `answer` it is executed and its answer is kept back. Commands with
        `unless` in any of their words pass, and the first `skip` that would be stopped."""
        rule = Stop(self, words, answer, unless, skip)
        with self._lock:
            self._stops.append(rule)
        return rule

    def kill(self):
        """The server dies, and nobody listens at its address any more."""
        self.proc.kill()
        self.down()

    def revive(self):
        self.proc.start()
        self._listen()

    def down(self):
        listener, self._listener = self._listener, None
        if listener is not None:
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()
        with self._lock:
            stops, self._stops = self._stops, []
            sockets = list(self._sockets)
        for sock in sockets:
            _shut(sock)
        for rule in stops:
            rule.release()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=2)
                far.settimeout(None)
                hello = "CLIENT SETNAME " + self.name if self.name else None
                if self.introduces:
                    hello = "FILTER FROM %s:%d" % near.getpeername()[:2]
                if hello:
                    far.sendall(hello.encode() + b"\r\n")
                    assert far.recv(64) == b"+OK\r\n"
            except OSError:
                near.close()
                continue
            joined = _Joined(self, near, far)
            with self._lock:
                self._sockets.update((near, far))
            joined.start()

    def _rule_for(self, words):
        with self._lock:
            for rule in self._stops:
                if rule.takes(words):
                    return rule
        return None

    def _forget(self, *sockets):
        with self._lock:
            self._sockets.difference_update(sockets)


class _Joined:
    """One connection: requests are read command by command, answers pass as they are."""

    def __init__(self, gate, near, far):
        self.gate, self.near, self.far = gate, near, far
        self.answers = threading.Event()
        self.answers.set()
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        threading.Thread(target=self._run, args=(self._requests,), daemon=True).start()
        threading.Thread(target=self._run, args=(self._replies,), daemon=True).start()

    def _run(self, pump):
        try:
            pump()
        except OSError:
            pass
        _shut(self.near)
        _shut(self.far)
        self.answers.set()
        self.gate._forget(self.near, self.far)

    def _requests(self):
        data = bytearray()
        while True:
            chunk = self.near.recv(1 << 16)
            if not chunk:
                return
            data += chunk
            passed = 0
            while True:
                used, words = take_message(data[passed:])
                if not used:
                    break
                rule = self.gate._rule_for(words)
                if rule is not None:
                    self._stopped(rule, data, passed, passed + used)
                    del data[:passed + used]
                    passed = 0
                    continue
                passed += used
            if passed:
                self.far.sendall(data[:passed])
                del data[:passed]

    def _stopped(self, rule, data, start, end):
        if start:
            self.far.sendall(data[:start])
        if rule.answer:
            # Answers under way to earlier requests are kept back with it: they keep their order.
            self.answers.clear()
            self.far.sendall(data[start:end])
            rule.reached.set()
            threading.Thread(target=self._let_answer, args=(rule,), daemon=True).start()
            return
        rule.reached.set()
        rule.released.wait()
        self.far.sendall(data[start:end])

    def _let_answer(self, rule):
        rule.released.wait()
        self.answers.set()

    def _replies(self):
        while True:
            chunk = self.far.recv(1 << 16)
            if not chunk:
                return
            self.answers.wait()
            self.near.sendall(chunk)


def _shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
