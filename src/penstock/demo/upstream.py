"""The demo model as an upstream: what is sent to it never leaves the process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from penstock.demo import DIALECT
from penstock.demo.counting import input_tokens
from penstock.demo.request import DemoRequest
from penstock.demo.script import PACE, script_of
from penstock.demo.source import DemoSource, Sleep
from penstock.demo.wishes import DemoFailure, wishes_in
from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.errors import KINDS, ContextOverflowError, OpenResponsesError
from penstock.fairness import HEAVY, run_heavy
from penstock.net.source import UpstreamSource
from penstock.upstream.keys import KeyRing


class DemoUpstream:
    """`sleep` is how it waits, `pace` the seconds from word to word."""

    name = "demo"
    pass_key = False

    def __init__(self, sleep: Sleep = asyncio.sleep, *, pace: float = PACE) -> None:
        self.dialect: Dialect = DIALECT
        self.keys = KeyRing((), clock=time.monotonic)
        self._sleep = sleep
        self._pace = pace

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - it knows no keys
        return Target(model=model, vendor=self.name, dialect=self.dialect.name)

    async def send(
        self,
        request: UpstreamRequest,
        *,
        key: str,  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> UpstreamSource:
        weight = len(request.data)
        asked = await run_heavy(weight, msgspec.convert, request.body, DemoRequest)
        if asked.tools or asked.format.schema:
            weight = HEAVY  # a small schema can be hard to fit
        wishes = wishes_in(asked.prompt)
        request_id = await run_heavy(weight, _request_id, request)
        if wishes.refused is not None:
            if wishes.wait:
                await self._sleep(wishes.wait)
            raise await run_heavy(weight, _refusal, wishes.refused, asked, request_id)
        pace = self._pace if wishes.pace is None else wishes.pace
        steps = await run_heavy(weight, script_of, asked, wishes)
        return DemoSource(steps, request_id=request_id, pace=pace, sleep=self._sleep)

    async def aclose(self) -> None:
        """Nothing is kept open: every answer is closed by whoever has it."""


def _request_id(request: UpstreamRequest) -> str:
    """The same for the same request, so that two runs can be compared. One element at a time, since
    writing a large request in one call would keep every other thread waiting."""
    digest = sha256()
    for name, value in request.body.items():
        for each in value if isinstance(value, list) else [value]:
            digest.update(f"{name} {json.dumps(each)}\n".encode())
    return f"demo_{digest.hexdigest()[:16]}"


def _refusal(failure: DemoFailure, asked: DemoRequest, request_id: str) -> OpenResponsesError:
    kind = KINDS[failure.code]
    used = input_tokens(asked)
    overflow = kind is ContextOverflowError
    return kind(
        f"the demo model was asked to fail with {failure.code}",
        code=failure.code,
        status=failure.status,
        request_id=request_id,
        retry_after=failure.retry_after,
        limit_tokens=max(0, used - 1) if overflow else None,
        used_tokens=used if overflow else None,
    )
