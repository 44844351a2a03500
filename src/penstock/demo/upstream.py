"""The demo model as an upstream. Requests to it never leave the process."""

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
    """`sleep` is called for every pause; `pace` is the time between words in seconds."""

    name = "demo"
    pass_key = False

    def __init__(self, sleep: Sleep = asyncio.sleep, *, pace: float = PACE) -> None:
        self.dialect: Dialect = DIALECT
        self.keys = KeyRing((), clock=time.monotonic)
        self._sleep = sleep
        self._pace = pace

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - it needs no key
        return Target(model=model, vendor=self.name, dialect=self.dialect.name)

    async def send(
        self,
        request: UpstreamRequest,
        *,
        key: str,  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> UpstreamSource:
        weight = len(request.data)
        demo_request = await run_heavy(weight, msgspec.convert, request.body, DemoRequest)
        if demo_request.tools or demo_request.format.schema:
            weight = HEAVY  # a small schema can be expensive to satisfy
        wishes = wishes_in(demo_request.prompt)
        request_id = await run_heavy(weight, _request_id, request)
        if wishes.refused is not None:
            if wishes.wait:
                await self._sleep(wishes.wait)
            raise await run_heavy(weight, _refusal, wishes.refused, demo_request, request_id)
        pace = self._pace if wishes.pace is None else wishes.pace
        steps = await run_heavy(weight, script_of, demo_request, wishes)
        return DemoSource(steps, request_id=request_id, pace=pace, sleep=self._sleep)

    async def aclose(self) -> None:
        """Do nothing: a source is closed by the turn that reads it."""


def _request_id(request: UpstreamRequest) -> str:
    """Return the same id for the same request, so that two runs can be compared.

    Elements are hashed one by one: encoding a large request in one call would block every other thread.
    """
    digest = sha256()
    for name, value in request.body.items():
        for each in value if isinstance(value, list) else [value]:
            digest.update(f"{name} {json.dumps(each)}\n".encode())
    return f"demo_{digest.hexdigest()[:16]}"


def _refusal(failure: DemoFailure, demo_request: DemoRequest, request_id: str) -> OpenResponsesError:
    kind = KINDS[failure.code]
    used = input_tokens(demo_request)
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
