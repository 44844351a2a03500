"""The gateway's metrics, in Prometheus' text format 0.0.4.

`DECLARED` lists all metrics; no others can be counted. Their number is bounded: each label has a limited
number of values, and the rest is `other`. The metrics for OpenTelemetry are a registry of their own, with
other names (`otel.instruments`).
"""

from __future__ import annotations

import math
import os
import platform
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from penstock.version import VERSION

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

OTHER = "other"
MOST_VALUES = 100
"""Values of one label. Further models, for example, are all counted as `other`."""
LONGEST_VALUE = 128
MOST_SERIES = 5_000
"""Series of one metric: the numbers of label values multiply."""

_TURNS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_OVERHEADS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)


class Declared(Struct, frozen=True):
    """A metric: its kind, help text, labels, and the upper bounds of a histogram."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    unit: str = ""
    """For OpenTelemetry. A name for Prometheus contains its unit."""


DECLARED: Mapping[str, Declared] = {
    "penstock_turns_total": Declared(
        "counter", "Turns that ended.", ("model", "target", "outcome", "closer", "key")
    ),
    "penstock_turns_running": Declared("gauge", "Turns that are running now."),
    "penstock_tasks": Declared(
        "gauge", "Tasks of the event loop. The number should grow only with the running turns."
    ),
    "penstock_turn_seconds": Declared("histogram", "Time from the request to its end.", bounds=_TURNS),
    "penstock_first_output_seconds": Declared(
        "histogram", "Time from the request to the first output of the model.", bounds=_WAITS
    ),
    "penstock_upstream_attempts_total": Declared(
        "counter", "Requests to upstreams, by result.", ("target", "result")
    ),
    "penstock_tokens_total": Declared(
        "counter",
        "Tokens used: input (including cached) and output (including reasoning).",
        ("model", "kind", "key"),
    ),
    "penstock_cost_dollars_total": Declared(
        "counter", "Cost of the turns in dollars, as far as prices are known.", ("model", "key")
    ),
    "penstock_bytes_total": Declared(
        "counter", "Bytes from upstreams (in) and to clients (out).", ("direction",)
    ),
    "penstock_requests_total": Declared("counter", "Answered requests.", ("route", "status")),
    "penstock_overhead_seconds": Declared(
        "histogram", "Time that the gateway itself added to a turn.", bounds=_OVERHEADS
    ),
    "penstock_heartbeats_total": Declared("counter", "Heartbeats sent while a model was silent."),
    "penstock_keys_resting": Declared(
        "gauge", "Keys that are resting: not used for a while after an error.", ("target",)
    ),
    "penstock_targets_ejected": Declared(
        "gauge", "Models of a target that are ejected: left out for a while after failures.", ("target",)
    ),
    "penstock_ejections_total": Declared("counter", "Ejections of targets.", ("target",)),
    "penstock_telemetry_exported_total": Declared(
        "counter", "Spans, and sets of metrics, that an OpenTelemetry collector has accepted.", ("signal",)
    ),
    "penstock_telemetry_dropped_total": Declared(
        "counter", "Spans that were not exported, by reason.", ("signal", "reason")
    ),
    "penstock_workers": Declared("gauge", "Worker processes that are ready."),
    "penstock_worker_crashes_total": Declared("counter", "Worker processes that ended unexpectedly."),
    "penstock_build_info": Declared(
        "gauge", "The versions of Penstock and Python, as labels. Always 1.", ("version", "python")
    ),
    "process_start_time_seconds": Declared("gauge", "Start time of the process, in seconds since 1970."),
    "process_resident_memory_bytes": Declared(
        "gauge", "Resident memory in bytes. With a steady load, it should not grow for hours."
    ),
    "process_open_fds": Declared("gauge", "Open files and connections."),
}

SUMMED = frozenset(
    name
    for name, declared in DECLARED.items()
    if declared.kind == "gauge" and name not in ("penstock_build_info", "process_start_time_seconds")
)
"""The gauges that are summed over the workers of a machine."""

PUBLIC = ("penstock_build_info", "process_start_time_seconds")
"""Metrics that reveal nothing about turns. Even a total without labels shows when others are working."""
_ONLY_FOR_ADMINS = b"# All other metrics require an admin key: penstock keys create NAME --admin\n"

Gauge = Callable[[], float | Mapping[str, float]]
"""Returns the current value of a gauge: a number, or one number per value of its only label."""

_Values = tuple[str, ...]


PROCESS = Path("/proc/self")
_MEMORY, _FILES = "process_resident_memory_bytes", "process_open_fds"
PROCESS_GAUGES = frozenset((_MEMORY, _FILES))
"""What the process uses. The names are those of all Prometheus clients."""


def process_gauges(process: Path = PROCESS) -> dict[str, Gauge]:
    """Return the gauges of this process by name; none on a system without /proc, such as macOS."""
    if not (process / "statm").exists():
        return {}
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        _MEMORY: lambda: int((process / "statm").read_text().split()[1]) * page,
        _FILES: lambda: len(os.listdir(process / "fd")) - 1,  # without that of the list itself
    }


class Counted(Struct, frozen=True, kw_only=True):
    """What one process has counted since it was asked the last time, and its gauges as they are now."""

    counters: dict[str, list[tuple[_Values, float]]] = {}
    histograms: dict[str, list[tuple[_Values, list[int], float]]] = {}
    """The numbers in each bucket, and the sum of the values."""
    gauges: dict[str, float | dict[str, float]] = {}


class Metrics:
    """A registry of metrics. It belongs to one event loop and uses no locks."""

    def __init__(self, declared: Mapping[str, Declared] = DECLARED, *, started: float | None = None) -> None:
        """`started` is the start time of the process; None: now."""
        began = time.time() if started is None else started
        self._declared = declared
        self._counters: dict[str, dict[_Values, float]] = {
            name: {} if declared.labels else {(): 0.0}
            for name, declared in declared.items()
            if declared.kind == "counter"
        }
        self._histograms: dict[str, dict[_Values, _Histogram]] = {
            name: {} if declared.labels else {(): _Histogram(declared.bounds)}
            for name, declared in declared.items()
            if declared.kind == "histogram"
        }
        self._gauges: dict[str, Gauge] = {
            "process_start_time_seconds": lambda: began,
            "penstock_workers": lambda: 1,
        }
        self._known: dict[tuple[str, str], set[str]] = {}
        self._keys: dict[tuple[str, tuple[tuple[str, str], ...]], _Values] = {}
        """The keys of series that were counted before, by name and labels."""
        self.gather: Callable[[], Awaitable[bytes]] = self._render_soon
        """Returns the text for `GET /metrics`. A worker replaces it: its text has the sums of all workers."""

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add to a counter. A value that is not a positive number is ignored: a counter never decreases."""
        if 0 < value < math.inf:
            series = self._counters[name]
            key = self._key(name, labels, series)
            series[key] = series.get(key, 0.0) + value

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Add a value, usually seconds, to a histogram."""
        histogram = self._histogram(name, labels)
        if 0 <= value < math.inf:
            histogram.observe(value)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a counter over all series with these labels."""
        wanted = {self._declared[name].labels.index(label): value for label, value in labels.items()}
        return sum(
            value
            for key, value in self._counters[name].items()
            if all(key[index] == each for index, each in wanted.items())
        )

    def gauge(self, name: str, callback: Gauge) -> None:
        """Set the callback that returns a gauge's value, replacing an earlier one."""
        if self._declared[name].kind != "gauge":
            raise ValueError(f"{name} is not a gauge")
        self._gauges[name] = callback

    def counted(self) -> Counted:
        """Return what was counted so far. The gauges are not among it."""
        return Counted(
            counters={name: list(series.items()) for name, series in self._counters.items() if series},
            histograms={
                name: [(key, *histogram.values()) for key, histogram in series.items()]
                for name, series in self._histograms.items()
                if series
            },
        )

    def take(self) -> Counted:
        """Return what was counted, and set it to zero. Series keep their labels, whose number is bounded."""
        counters = {
            name: [(key, value) for key, value in series.items() if value]
            for name, series in self._counters.items()
        }
        for series in self._counters.values():
            series.update(dict.fromkeys(series, 0.0))
        histograms = {
            name: [(key, *histogram.take()) for key, histogram in series.items() if histogram.is_used]
            for name, series in self._histograms.items()
        }
        return Counted(
            counters={name: found for name, found in counters.items() if found},
            histograms={name: found for name, found in histograms.items() if found},
            gauges={name: _plain(read()) for name, read in self._gauges.items() if name in SUMMED},
        )

    def add(self, counted: Counted) -> None:
        """Add what another process has counted. Its gauges are not added: they are not counted.

        What this version does not declare is ignored: during an upgrade, the process may have another one.
        """
        for name, values in counted.counters.items():
            for key, value in values if name in self._counters else ():
                if (labels := self._labelled(name, key)) is not None:
                    self.count(name, value, **labels)
        for name, found in counted.histograms.items():
            for key, counts, total in found if name in self._histograms else ():
                labels = self._labelled(name, key)
                if labels is not None and len(counts) == len(self._declared[name].bounds) + 1:
                    self._histogram(name, labels).add(counts, total)

    def render(self) -> bytes:
        """Return the text of this process for `GET /metrics`."""
        return self._rendered(self._declared)

    async def _render_soon(self) -> bytes:
        return self.render()

    def render_public(self) -> bytes:
        """Return the text for a client whose key is not an admin key."""
        return _ONLY_FOR_ADMINS + self._rendered(PUBLIC)

    def _rendered(self, names: Iterable[str]) -> bytes:
        lines: list[str] = []
        for name in names:
            declared = self._declared[name]
            lines.append(f"# HELP {name} {_escaped_help(declared.help)}")
            lines.append(f"# TYPE {name} {declared.kind}")
            lines += self._samples(name, declared)
        return ("\n".join(lines) + "\n").encode()

    def _samples(self, name: str, declared: Declared) -> Iterator[str]:
        if declared.kind == "counter":
            for key, value in self._counters[name].items():
                yield _sample(name, declared.labels, key, value)
        elif declared.kind == "histogram":
            for key, histogram in self._histograms[name].items():
                yield from histogram.samples(name, declared.labels, key)
        elif name == "penstock_build_info":
            yield _sample(name, declared.labels, (VERSION, platform.python_version()), 1)
        elif name in self._gauges:
            yield from self._gauge_samples(name, declared.labels)

    def _gauge_samples(self, name: str, labels: _Values) -> Iterator[str]:
        value = self._gauges[name]()
        if not isinstance(value, Mapping):
            yield _sample(name, (), (), value)
            return
        for key, each in value.items():
            yield _sample(name, labels, (key,), each)

    def _histogram(self, name: str, labels: Mapping[str, str]) -> _Histogram:
        series = self._histograms[name]
        key = self._key(name, labels, series)
        histogram = series.get(key)
        if histogram is None:
            histogram = series[key] = _Histogram(self._declared[name].bounds)
        return histogram

    def _labelled(self, name: str, key: _Values) -> dict[str, str] | None:
        """Return the labels of a series; None if the metric has others in this version."""
        labels = self._declared[name].labels
        return dict(zip(labels, key, strict=True)) if len(labels) == len(key) else None

    def _key(self, name: str, labels: Mapping[str, str], series: Mapping[_Values, object]) -> _Values:
        given = (name, tuple(labels.items()))
        key = self._keys.get(given)
        if key is None:
            key = self._new_key(name, labels, series)
            is_exact = all(
                labels[label] == value for label, value in zip(self._declared[name].labels, key, strict=True)
            )
            if is_exact and key in series:  # only then is their number bounded like that of the series
                self._keys[given] = key
        return key

    def _new_key(self, name: str, labels: Mapping[str, str], series: Mapping[_Values, object]) -> _Values:
        declared = self._declared[name].labels
        if labels.keys() != set(declared):
            raise ValueError(f"{name} has the labels ({', '.join(declared)}), not ({', '.join(labels)})")
        key = tuple(self._bounded(name, label, labels[label]) for label in declared)
        if key in series or len(series) < MOST_SERIES:
            return key
        return (OTHER,) * len(declared)

    def _bounded(self, name: str, label: str, value: str) -> str:
        value = value[:LONGEST_VALUE].encode("utf-8", "replace").decode()
        known = self._known.setdefault((name, label), set())
        if value not in known:
            if len(known) >= MOST_VALUES:
                return OTHER
            known.add(value)
        return value


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def is_used(self) -> bool:
        return any(self._counts)

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def values(self) -> tuple[list[int], float]:
        """Return the numbers in the buckets, and the sum."""
        return list(self._counts), self._sum

    def take(self) -> tuple[list[int], float]:
        """Return the numbers in the buckets and the sum, and set them to zero."""
        taken = self._counts, self._sum
        self._counts, self._sum = [0] * len(self._counts), 0.0
        return taken

    def add(self, counts: Iterable[int], total: float) -> None:
        self._counts = [own + other for own, other in zip(self._counts, counts, strict=True)]
        self._sum += total

    def samples(self, name: str, labels: _Values, key: _Values) -> Iterator[str]:
        """Yield the samples. Buckets are cumulative."""
        total = 0
        for bound, count in zip([*self._bounds, math.inf], self._counts, strict=True):
            total += count
            yield _sample(f"{name}_bucket", (*labels, "le"), (*key, _number(bound)), total)
        yield _sample(f"{name}_sum", labels, key, self._sum)
        yield _sample(f"{name}_count", labels, key, total)


def _plain(value: float | Mapping[str, float]) -> float | dict[str, float]:
    return dict(value) if isinstance(value, Mapping) else value


def _sample(name: str, labels: _Values, values: _Values, value: float) -> str:
    pairs = ",".join(f'{label}="{_escaped(each)}"' for label, each in zip(labels, values, strict=True))
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
