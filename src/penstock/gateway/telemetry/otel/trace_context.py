"""W3C Trace Context: which trace a turn belongs to, and whether it is sampled.

A client passes its trace on in `traceparent` and `tracestate`. Over a WebSocket, whose headers are sent only
once, Codex sends both with every turn, in `client_metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os import urandom

from msgspec import UNSET, Struct

from penstock.protocol.request import CreateResponse

PARENT, STATE = "traceparent", "tracestate"
IN_MESSAGE = {PARENT: "ws_request_header_traceparent", STATE: "ws_request_header_tracestate"}
"""The fields of `client_metadata` that stand for the headers."""

SAMPLED = 1
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_INVALID_VERSION = "ff"
_VERSION = "00"
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MOST_MEMBERS = 32
_LONGEST_STATE = 512
"""Characters. A vendor must pass on at least so many."""


class TraceContext(Struct, frozen=True):
    """A span of a trace, as it is passed on to whatever it calls."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool
    state: str = ""

    def child(self) -> TraceContext:
        """Return the context of a new span below this one."""
        return TraceContext(self.trace_id, urandom(8), self.is_sampled, self.state)

    @property
    def headers(self) -> dict[str, str]:
        flags = SAMPLED if self.is_sampled else 0
        found = {PARENT: f"{_VERSION}-{self.trace_id.hex()}-{self.span_id.hex()}-{flags:02x}"}
        return {**found, STATE: self.state} if self.state else found


Sampler = Callable[[TraceContext | None, bytes], bool]
"""Decides whether a trace is recorded, from the client's context and the id of the trace."""


def joined(parent: TraceContext | None, sampler: Sampler) -> TraceContext:
    """Return the context of a turn: of a new span in the client's trace, or in a new one."""
    trace_id = parent.trace_id if parent is not None else urandom(16)
    state = parent.state if parent is not None else ""
    return TraceContext(trace_id, urandom(8), sampler(parent, trace_id), state)


def client_context(headers: Mapping[str, str], request: CreateResponse) -> TraceContext | None:
    """Return the client's context: that of this message, else that of the headers; None without a valid
    one."""
    metadata = request.client_metadata
    if metadata is not UNSET and metadata:
        own = {header: metadata.get(field) for header, field in IN_MESSAGE.items()}
        texts = {header: value for header, value in own.items() if isinstance(value, str)}
        if (found := read_context(texts)) is not None:
            return found
    return read_context(headers)


def read_context(headers: Mapping[str, str]) -> TraceContext | None:
    """Return the context in headers; None if it is missing or invalid. An invalid `tracestate` is dropped
    alone."""
    written = headers.get(PARENT, "").strip()
    found = _PARENT.fullmatch(written)
    if found is None or found[1] == _INVALID_VERSION or (found[1] == _VERSION and found[5]):
        return None
    trace_id, span_id = bytes.fromhex(found[2]), bytes.fromhex(found[3])
    if not any(trace_id) or not any(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(found[4], 16) & SAMPLED), _state(headers.get(STATE, "")))


def _state(written: str) -> str:
    members = [member for each in written.split(",") if (member := each.strip(" \t"))]
    names = {member.partition("=")[0] for member in members}
    is_valid = len(names) == len(members) <= _MOST_MEMBERS and all(map(_MEMBER.fullmatch, members))
    state = ",".join(members)
    return state if is_valid and len(state) <= _LONGEST_STATE else ""


# Samplers


def _always(_: TraceContext | None, __: bytes) -> bool:
    return True


def _never(_: TraceContext | None, __: bytes) -> bool:
    return False


def ratio_sampler(ratio: float) -> Sampler:
    """Return a sampler of this share of all traces. It depends only on the id, so that every service of a
    trace that uses the same ratio decides alike."""
    bound = round(ratio * 2**64)
    return lambda _, trace_id: int.from_bytes(trace_id[8:], "big") < bound


def parent_based(root: Sampler) -> Sampler:
    """Return a sampler that follows the client's decision, and uses `root` for a trace that begins here."""
    return lambda parent, trace_id: root(None, trace_id) if parent is None else parent.is_sampled


def sampler(name: str, ratio: float) -> Sampler:
    """Return the sampler with a name of `SAMPLERS`."""
    roots = {"always_on": _always, "always_off": _never, "traceidratio": ratio_sampler(ratio)}
    root = roots[name.removeprefix(_PARENT_BASED)]
    return parent_based(root) if name.startswith(_PARENT_BASED) else root


_PARENT_BASED = "parentbased_"


SAMPLERS = tuple(
    f"{prefix}{name}"
    for prefix in (_PARENT_BASED, "")
    for name in ("always_on", "always_off", "traceidratio")
)
"""The values of `OTEL_TRACES_SAMPLER`, the default first."""
