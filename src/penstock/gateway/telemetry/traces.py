"""What happens towards the upstreams of a turn, for those who want to know later (`penstock explain`).

Keys are sent by the transport and do not come by here; where an upstream repeats one, it is masked (K3).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.errors import OpenResponsesError
from penstock.gateway.history.chains import public_request
from penstock.gateway.refusals import code_of
from penstock.net.source import UpstreamSource
from penstock.protocol.tools import SECRETS
from penstock.protocol.wire import to_builtins
from penstock.store.contract import Trace
from penstock.upstream.attempts import Attempt

LONGEST_KEY = 4096
LONGEST_BODY = 1024 * 1024
"""Bytes. An agent sends its whole history with every turn: a day of large ones would fill the store."""


class Tracer:
    """`keep` gets each trace as it happens. Where the gateway records, the upstream's bytes are in them."""

    def __init__(
        self,
        keep: Callable[[Trace], None],
        *,
        is_recording: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keep, self._is_recording, self._clock = keep, is_recording, clock
        self._mask: Callable[[bytes, bytes], bytes] | None = None
        self._before = b""
        """The end of what was read: a key may be cut in two."""

    def body_of(self, rendered: UpstreamRequest) -> bytes:
        """The body as it is traced; empty for one that is too long."""
        is_kept = self._is_recording or len(rendered.data) <= LONGEST_BODY
        return _encoded(rendered) if is_kept else b""

    def request(self, attempt: Attempt, plan: Plan, rendered: UpstreamRequest, body: bytes) -> None:
        """`body` is what `body_of` gave."""
        if self._is_recording:
            self._note("plan", _plan(plan))
        told = {
            "target": attempt.upstream.name,
            "model": attempt.model,
            "dialect": plan.target.dialect,
            "attempt": attempt.number,
            "headers": rendered.headers,
            "body": msgspec.Raw(body) if body else None,
        }
        self._note("request", told, len(rendered.data))

    def answer(self, answer: UpstreamSource) -> None:
        told = {
            "status": answer.status,
            "content_type": answer.content_type,
            "request_id": answer.request_id,
        }
        self._note("answer", told)
        self._mask, self._before = answer.mask_bytes, b""

    def read(self, data: bytes) -> None:
        kept = b""
        if self._is_recording and self._mask is not None:
            kept = self._mask(data, self._before)
            self._before = (self._before + data)[-LONGEST_KEY:]
        self._keep(Trace("read", self._clock(), kept, len(data)))

    def failure(self, error: OpenResponsesError) -> None:
        told: dict[str, Any] = {"code": code_of(error), "message": error.message, "status": error.status}
        # For `penstock replay`: what the turn does about a failure depends on these.
        told |= {"kind": type(error).__name__, "phase": error.phase, "retry_after": error.retry_after}
        told |= {"param": error.param}
        self._note("failure", told)

    def _note(self, kind: str, told: dict[str, Any], size: int = 0) -> None:
        self._keep(Trace(kind, self._clock(), msgspec.json.encode(told), size))


def _encoded(rendered: UpstreamRequest) -> bytes:
    """A rendered body without a client's keys to its own servers, wherever tools stand in it."""
    data = rendered.data
    if not any(b'"%s"' % name.encode() in data for name in SECRETS):
        return data  # to search is quicker than to walk
    return msgspec.json.encode(_public(rendered.body))


def _public(value: Any) -> Any:
    if isinstance(value, list):
        return [_public(each) for each in value]
    if not isinstance(value, dict):
        return value
    walked = {name: _public(each) for name, each in value.items()}
    if isinstance(tools := walked.get("tools"), list):
        walked["tools"] = [_without_secrets(tool) for tool in tools]
    return walked


def _without_secrets(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    return {name: value for name, value in tool.items() if name not in SECRETS}


def _plan(plan: Plan) -> dict[str, Any]:
    """What `penstock replay` makes the plan from; the tools are those of the request."""
    return {
        "request": to_builtins(public_request(plan.request)),
        "target": msgspec.to_builtins(plan.target),
        "used_call_ids": sorted(plan.used_call_ids),
        "accent": plan.accent,
    }
