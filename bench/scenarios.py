"""What is measured: each scenario takes a sitting and returns figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.figures import Figure, Target, fit, take_turns
from bench.lab import bodies, instruments, servers
from bench.lab.bodies import chunks_of
from bench.lab.instruments import LabError, Load
from bench.lab.servers import Running, Server

LAG_LIMIT = 50.0
"""The delay in ms that 99 of 100 chunks of a usable gateway stay below."""
PACE = 20
"""Milliseconds between two chunks, as from a model."""


@dataclass
class Sitting:
    """Servers that run side by side, and how much time to spend."""

    folder: Path
    upstream: str
    lines: dict[str, Server]
    quick: bool = False
    rounds: int = 5
    paced_rounds: int = 3
    seconds: float = 1.5
    """How long a flood lasts."""
    paced_chunks: int = 150
    lag_steps: tuple[int, ...] = (64, 128, 192, 256, 320, 384, 512)
    notes: list[str] = field(default_factory=list)
    lags: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """The 99th percentile of the lag by the number of streams, for the chart."""
    system_share: dict[str, float] = field(default_factory=dict)

    @property
    def ours(self) -> Server:
        return self.lines["penstock"]

    def gateway(self, name: str, *, store: str = "none", config: Path | None = None) -> Running:
        return servers.gateway(self.folder, self.upstream, name=name, store=store, config=config)


def flood(
    sitting: Sitting, server: Server, spec: str = "fake-c256", *options: object, **fields: object
) -> float:
    """Return CPU ms per 1,000 chunks of 32 streams at full speed."""
    run = server.load(spec, "-n", 32, "-T", sitting.seconds, "-X", 60, *options, **fields).checked()
    sitting.system_share.setdefault(f"flood {server.name}", run.system_share)
    return 1000 * run.cpu_ms / (run.good * chunks_of(spec))


def paced_run(sitting: Sitting, server: Server, streams: int, *options: object, **fields: object) -> Load:
    spec = f"fake-c{sitting.paced_chunks}-d{PACE}-ts"
    with server.urgent():
        return server.load(spec, "-n", streams, "-R", 700, "-W", "-X", 40, *options, **fields)


def paced(sitting: Sitting, server: Server, streams: int, *options: object, **fields: object) -> float:
    """Return CPU ms per 1,000 chunks while all streams are open. Late chunks are counted like others."""
    run = paced_run(sitting, server, streams, *options, **fields)
    if run.window is None or not run.window.deltas:
        raise LabError(f"{server.name} sent nothing to {streams} paced streams: {run.first_error}")
    sitting.system_share.setdefault(f"paced {streams} {server.name}", run.system_share)
    return 1000 * run.window.cpu_ms / run.window.deltas


def floods(sitting: Sitting) -> list[Figure]:
    samples = take_turns(
        {name: partial(flood, sitting, server) for name, server in sitting.lines.items()}, sitting.rounds
    )
    title, unit = "flood, 32 streams of 256 chunks", "CPU ms / 1,000 chunks"
    found = [Figure("flood", title, unit, samples, target=Target(2.5, "floor"))]
    if "agentic" in samples:
        below = Target(1.0, "agentic")
        found.append(
            Figure("flood-agentic", "the same, against Rust", unit, samples, base="agentic", target=below)
        )
    return found


def paces(sitting: Sitting) -> list[Figure]:
    return [
        Figure(
            f"paced-{streams}",
            f"paced at {PACE} ms, {streams} streams",
            "CPU ms / 1,000 chunks",
            take_turns(
                {name: partial(paced, sitting, server, streams) for name, server in sitting.lines.items()},
                sitting.paced_rounds,
            ),
            target=Target(1.4, "floor"),
            by_median=True,
        )
        for streams in (64, 256)
    ]


def most_streams(sitting: Sitting) -> list[Figure]:
    """The largest step at which 99 of 100 chunks are on time. A step may be tried twice."""
    samples = {}
    lines = {"penstock": sitting.ours} if sitting.quick else sitting.lines
    for name, server in lines.items():
        sitting.lags[name], reached = [], 0
        for streams in sitting.lag_steps:
            on_time, lag = _lag(sitting, server, streams)
            if not on_time and not sitting.quick:
                on_time, lag = _lag(sitting, server, streams)
            sitting.lags[name].append((streams, lag))
            if not on_time:
                break
            reached = streams
        samples[name] = [float(reached)]
    target = Target(320, at_least=True)
    return [Figure("streams", f"streams with p99 lag ≤ {LAG_LIMIT:g} ms", "streams", samples, target=target)]


def _lag(sitting: Sitting, server: Server, streams: int) -> tuple[bool, float]:
    """Return whether a step passed, and the 99th percentile of the lag in ms. A server that holds streams
    back, so that few chunks are late, does not pass."""
    run = paced_run(sitting, server, streams)
    offered = streams * (run.window.ms if run.window else 0) / PACE
    complete = run.window is not None and run.window.deltas >= 0.9 * offered
    return complete and not run.lost and run.lag_ms[1] <= LAG_LIMIT, run.lag_ms[1]


def nobody_dropped(sitting: Sitting) -> list[Figure]:
    """Far beyond what one process carries on time, every stream must still be complete."""
    found = []
    for streams in (512, 1000):
        run = paced_run(sitting, sitting.ours, streams)
        if run.lost:
            sitting.notes.append(f"{streams} streams: {run.lost} lost ({run.first_error})")
        title = f"streams lost of {streams} at once"
        samples = {"penstock": [float(run.lost)]}
        found.append(Figure(f"lost-{streams}", title, "streams", samples, target=Target(0)))
    return found


def first_event(sitting: Sitting) -> list[Figure]:
    """The client's first event, one request at a time, less the same without a gateway."""
    direct = Server("direct", int(sitting.upstream.rpartition(":")[2]))

    def first(server: Server) -> float:
        with server.urgent():
            return server.load("fake-c4", "-n", 1, "-r", 60, "-X", 30).checked().first_event_ms[0]

    every = {"direct": direct, **sitting.lines}
    samples = take_turns({name: partial(first, server) for name, server in every.items()}, sitting.rounds)
    base = min(samples.pop("direct"))
    added = {name: [value - base for value in values] for name, values in samples.items()}
    title = "first event, added to direct"
    return [Figure("first-event", title, "ms", added, target=Target(0.6))]


def request_cost(sitting: Sitting) -> list[Figure]:
    """The cost of a stream without chunks, from streams of several lengths."""
    lengths = (4, 64) if sitting.quick else (4, 16, 64, 256)

    def cost(server: Server, fields: Mapping[str, object]) -> float:
        points = []
        for length in lengths:
            run = server.load(f"fake-c{length}", "-n", 16, "-T", sitting.seconds / 2, "-X", 30, **fields)
            points.append((length, run.checked().cpu_ms / run.good))
        return fit(points)[0]

    found = []
    for key, title, fields, target in (
        ("request-1k", "request of 1 KB", bodies.small(), Target(6.5, "floor")),
        ("request-45k", "request of 45 KB", bodies.codex(), Target(1.5)),
    ):
        sides = {name: partial(cost, server, fields) for name, server in sitting.lines.items()}
        samples = take_turns(sides, sitting.rounds)
        found.append(Figure(key, title, "CPU ms / request", samples, target=target))
    return found


def memory(sitting: Sitting) -> list[Figure]:
    """Fresh processes, because memory that was used once is not given back: opening streams a second time
    would cost nothing."""
    idle: dict[str, list[float]] = {}
    resident: dict[str, list[float]] = {}
    per_stream: dict[str, list[float]] = {}
    starters: dict[str, Callable[[], Running]] = {
        "penstock": lambda: sitting.gateway("memory"),
        "floor": lambda: servers.floor(sitting.folder, sitting.upstream),
    }
    if sitting.quick:
        del starters["floor"]
    elif "agentic" in sitting.lines:
        starters["agentic"] = lambda: servers.agentic(sitting.folder, sitting.upstream)
    few, many, spec = 50, 200, "fake-c6-d400-ts" if sitting.quick else "fake-c12-d400-ts"
    for name, start in starters.items():
        with start() as server:
            idle[name] = [instruments.memory_kb(server.pids, "Pss") / 1024]
            resident[name] = [instruments.memory_kb(server.pids) / 1024]
            server.load("fake-c64", "-n", 8, "-r", 200, "-X", 30).checked()  # what is allocated once
            used = {}
            for streams in (few, many):
                run = server.load(spec, "-n", streams, "-R", 800, "-W", "-X", 30).checked()
                if run.window is None or run.window.open < streams:
                    raise LabError(f"{name} opened {streams} streams too slowly to measure their memory")
                used[streams] = run.window.memory_kb
            per_stream[name] = [(used[many] - used[few]) / (many - few)]
    return [
        Figure("idle", "memory when idle (PSS)", "MB", idle, target=Target(45)),
        Figure("idle-resident", "memory when idle (RSS)", "MB", resident),
        Figure("stream-memory", "memory per open stream", "KB", per_stream, target=Target(12)),
    ]


MIXED = (
    ("fake-c64", ()),
    ("fake-c64-t2", ()),
    ("fake-c32-r32", ()),
    ("fake-c64-k2", ()),
    ("fake-c64-d5", ("-A", 20)),
)
"""Text, functions, reasoning, custom tools, and clients that hang up. The last are paced: an answer that has
already been written could not be interrupted, and the tokens of an interrupted one must be counted, for which
the tokenizer is loaded."""


def flatness(sitting: Sitting) -> list[Figure]:
    """Memory after many mixed streams, less that after the first fifth of them."""
    streams = 5_000
    used = []
    with sitting.gateway("flatness", store=str(sitting.folder / "flat.sqlite")) as server:
        for _ in range(5):
            for spec, options in MIXED:
                run = server.load(spec, "-n", 20, "-r", streams // 25, "-X", 60, *options)
                if run.lost:
                    sitting.notes.append(f"mixed streams: {run.lost} of {spec} failed ({run.first_error})")
            used.append(instruments.memory_kb(server.pids) / 1024)
    title = f"memory growth over {streams:,} mixed streams"
    samples = {"penstock": [used[-1] - used[0]]}
    return [Figure("flat", title, "MB", samples, target=Target(2))]


def persistence(sitting: Sitting) -> list[Figure]:
    with sitting.gateway("stored", store=str(sitting.folder / "bench.sqlite")) as stored:
        sides = {"store on": stored, "store off": sitting.ours}
        paced_64 = take_turns(
            {name: partial(paced, sitting, server, 64) for name, server in sides.items()},
            sitting.paced_rounds,
        )
        flooded = take_turns(
            {name: partial(flood, sitting, server) for name, server in sides.items()}, sitting.rounds
        )
        blocked = {} if sitting.quick else _longest_block(sitting, stored)
    unit, pair = "CPU ms / 1,000 chunks", ("store on", "store off", Target(1.25, "store off"))
    found = [
        Figure("store-paced", "store on, paced, 64 streams", unit, paced_64, *pair, by_median=True),
        Figure("store-flood", "store on, flood", unit, flooded, *pair),
    ]
    if blocked:
        found.append(
            _block_figure("history-stored", "history of 5,000 items, stored: longest block", blocked)
        )
    return found


def tls(sitting: Sitting) -> list[Figure]:
    try:
        with _behind_tls(sitting) as encrypted:
            sides = {"TLS": encrypted, "plain": sitting.ours}
            samples = take_turns(
                {name: partial(paced, sitting, server, 64) for name, server in sides.items()},
                sitting.paced_rounds,
            )
    except (LabError, ImportError) as error:
        sitting.notes.append(f"TLS was not measured: {error}")
        return []
    title, unit = "TLS upstream, paced, 64 streams", "CPU ms / 1,000 chunks"
    return [Figure("tls", title, unit, samples, "TLS", "plain", Target(1.5, "plain"), by_median=True)]


@contextmanager
def _behind_tls(sitting: Sitting) -> Iterator[Server]:
    with ExitStack() as stack:
        made = instruments.certificate(sitting.folder)
        address = stack.enter_context(instruments.upstream(made))
        config = sitting.folder / "tls.toml"
        lines = [f'[targets.encrypted]\nbase_url = "{address}"\nca_file = "{made.authority}"']
        models = ("fake-c4", f"fake-c{sitting.paced_chunks}-d{PACE}-ts")
        lines += [f'[models."{model}"]\ntarget = "encrypted"' for model in models]
        config.write_text("\n".join(lines) + "\n")
        yield stack.enter_context(sitting.gateway("tls", config=config))


def start(sitting: Sitting) -> list[Figure]:
    starters: dict[str, Callable[[], Running]] = {
        "penstock": lambda: sitting.gateway("start"),
        "floor": lambda: servers.floor(sitting.folder, sitting.upstream),
    }

    def seconds(begin: Callable[[], Running]) -> float:
        with begin() as server:
            return server.seconds_to_first_answer

    rounds = 1 if sitting.quick else sitting.rounds
    samples = take_turns({name: partial(seconds, begin) for name, begin in starters.items()}, rounds)
    return [Figure("start", "start to first answer", "s", samples, target=Target(0.6))]


def long_stream(sitting: Sitting) -> list[Figure]:
    """One stream: the cost of a chunk near its beginning and near its end."""
    chunks = 20_000 if sitting.quick else 100_000
    span = chunks // 10
    marks = (100, 100 + span, chunks - 100 - span, chunks - 100)
    samples: dict[str, list[float]] = {"late chunks": [], "early chunks": []}
    for _ in range(sitting.paced_rounds):
        run = sitting.ours.load(f"fake-c{chunks}", "-M", ",".join(map(str, marks)), "-X", 120).checked()
        samples["early chunks"].append(1000 * (run.marks[1] - run.marks[0]) / span)
        samples["late chunks"].append(1000 * (run.marks[3] - run.marks[2]) / span)
    pair = ("late chunks", "early chunks")
    title, unit = f"one stream of {chunks:,} chunks", "CPU ms / 1,000 chunks"
    target = Target(1.2, "early chunks")
    return [Figure("long", title, unit, samples, ours=pair[0], base=pair[1], target=target)]


def kinds(sitting: Sitting) -> list[Figure]:
    """Chunks of tool calls and of reasoning, against chunks of text."""
    specs = {
        "text": "fake-c256",
        "tool calls": "fake-c256-t2",
        "reasoning": "fake-c16-r240",
        "custom tools": "fake-c256-k2",
    }
    sides = {name: partial(flood, sitting, sitting.ours, spec) for name, spec in specs.items()}
    samples = take_turns(sides, sitting.rounds)
    return [
        Figure(
            f"kind-{name.replace(' ', '-')}",
            f"{name}, flood",
            "CPU ms / 1,000 chunks",
            {name: samples[name], "text": samples["text"]},
            ours=name,
            base="text",
            target=Target(1.5, "text"),
        )
        for name in specs
        if name != "text"
    ]


def websocket(sitting: Sitting) -> list[Figure]:
    found = []
    ways: dict[str, Callable[..., float]] = {
        "flood": partial(flood, sitting, sitting.ours, "fake-c256"),
        "paced, 64 streams": partial(paced, sitting, sitting.ours, 64),
    }
    for way, measure in ways.items():
        sides: dict[str, Callable[[], float]] = {
            "WebSocket": partial(measure, "-w", type="response.create"),
            "HTTP": measure,
        }
        samples = take_turns(sides, sitting.paced_rounds)
        key, title, unit = f"websocket-{way.split(',')[0]}", f"WebSocket, {way}", "CPU ms / 1,000 chunks"
        found.append(Figure(key, title, unit, samples, "WebSocket", "HTTP", by_median="paced" in way))
    return found


def history(sitting: Sitting) -> list[Figure]:
    blocked = _longest_block(sitting, sitting.ours)
    return [_block_figure("history", "history of 5,000 items: longest block of others", blocked)]


def _block_figure(key: str, title: str, samples: dict[str, list[float]]) -> Figure:
    return Figure(key, title, "ms", samples, ours="with", base="without", target=Target(20))


def _longest_block(sitting: Sitting, server: Server) -> dict[str, list[float]]:
    """Return the longest lag in ms of four fast streams, while requests with a long history come in, and
    without them. What blocks the event loop delays every chunk."""
    spec = "fake-c800-d3-ts"
    body = bodies.body_for("fake-c4", input=bodies.history(5_000), **server.fields)

    def lag(requests: int) -> float:
        small = bodies.body_for(spec, **server.fields)
        with (
            server.urgent(),
            instruments.loading(server.port, server.pids, spec, small, "-n", 4, "-r", 4) as runs,
        ):
            for _ in range(requests):
                instruments.post(server.port, body)
        return runs[0].checked().lag_ms[2]

    return take_turns({"with": partial(lag, 4), "without": partial(lag, 0)}, sitting.paced_rounds)


SCENARIOS: dict[str, Callable[[Sitting], list[Figure]]] = {
    "flood": floods,
    "paced": paces,
    "streams": most_streams,
    "dropped": nobody_dropped,
    "first-event": first_event,
    "request": request_cost,
    "memory": memory,
    "flat": flatness,
    "store": persistence,
    "tls": tls,
    "start": start,
    "long": long_stream,
    "kinds": kinds,
    "websocket": websocket,
    "history": history,
}
