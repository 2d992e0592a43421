"""Streams, events and captures that behave as a GPU's may at worst: work begins when a draw says so, not when issued.

Input: work as functions, streams as numbers. Without a random generator everything runs at once, in order. With one,
each stream is quick, slow, or stands still until somebody waits for it; so a wait that is missing shows.
"""


class StreamError(RuntimeError):
    """What CUDA says of a capture that may not be."""


class Token:
    """An event as it was recorded once."""

    def __init__(self, stream, capture=None):
        self.stream, self.capture, self.done = stream, capture, False


class Capture:
    """What streams were given while they captured, in order: ("run", stream, function), ("record" or "wait", stream,
    token)."""

    def __init__(self, origin):
        self.origin, self.joined, self.work, self.ended = origin, {origin}, [], False

    def check_joined(self):
        """The stream that began must have waited for all others."""
        known, tokens = {s: set() for s in self.joined}, {}
        for number, (kind, stream, what) in enumerate(self.work):
            if kind == "wait":
                known[stream] |= tokens[what]
            known[stream].add(number)
            if kind == "record":
                tokens[what] = set(known[stream])
        runs = {n for n, (kind, *_) in enumerate(self.work) if kind == "run"}
        if runs - known[self.origin]:
            raise StreamError("capturing stream has unjoined work")


class Queues:
    """All streams' work that has not run yet."""

    def __init__(self, draw=None):
        self.draw, self.queues, self.pace, self.captures = draw, {}, {}, {}

    def put(self, stream, function):
        self._put("run", stream, function)

    def record(self, stream):
        token = Token(stream, self.captures.get(stream))
        self._put("record", stream, token)
        return token

    def wait(self, stream, token):
        """An event that nobody has recorded (None) is waited for by nobody."""
        if token is None:
            return
        mine = self.captures.get(stream)
        if token.capture is not None and token.capture is not mine and not token.capture.ended:
            if mine is not None:
                raise StreamError("two captures would become one")
            self.captures[stream] = token.capture  # a fork
            token.capture.joined.add(stream)
        elif mine is not None and token.capture is not mine:
            raise StreamError("a captured stream waits for work that is not captured")
        self._put("wait", stream, token)

    def _put(self, kind, stream, what):
        capture = self.captures.get(stream)
        if capture is not None:
            capture.work.append((kind, stream, what))
            return
        self.queues.setdefault(stream, []).append((kind, what))
        if self.draw is None:
            self.drain(stream)
            return
        self.pace.setdefault(stream, self.draw.choice((0, 0.5, 1)))
        while ready := [s for s in self.queues if self._ready(s) and self.draw.random() < self.pace[s]]:
            self._step(self.draw.choice(ready))

    def _ready(self, stream):
        queue = self.queues[stream]
        return bool(queue) and (queue[0][0] != "wait" or queue[0][1].done)

    def _step(self, stream):
        kind, what = self.queues[stream].pop(0)
        if kind == "run":
            what()
        elif kind == "record":
            what.done = True

    def drain(self, stream):
        """Run all that this stream was given, and of the others only what it waits for."""
        while self.queues.get(stream):
            self._advance(stream)

    def _advance(self, stream):
        if not self._ready(stream):
            token = self.queues[stream][0][1]
            while not token.done:
                self._advance(token.stream)
        self._step(stream)

    # ---- captures

    def begin(self, stream):
        self.captures[stream] = Capture(stream)

    def end(self, stream):
        """What was captured, as a function that runs it all, in any order that it allows."""
        capture = self.captures[stream]
        capture.ended = True
        self.captures = {s: c for s, c in self.captures.items() if c is not capture}
        capture.check_joined()

        def run():
            inside, tokens = Queues(self.draw), {}
            for kind, of, what in capture.work:
                if kind == "run":
                    inside.put(of, what)
                elif kind == "record":
                    tokens[what] = inside.record(of)
                else:
                    inside.wait(of, tokens[what])
            for of in capture.joined:
                inside.drain(of)

        return run, sum(kind == "run" for kind, *_ in capture.work)
