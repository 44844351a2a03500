"""Upstreams in the process of the test: they answer from a script, without a network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.registry import rendered_dialect
from penstock.net.source import PulledSource, UpstreamSource
from penstock.upstream.keys import KeyRing
from tests.dialects.chat_streams import chunk
from tests.gateway.upstream import frames, said

Step = bytes | Exception | asyncio.Event
"""A read, a break of the connection, or a wait until the event is set."""

Answer = Sequence[Step] | Exception
"""What an upstream sends; an exception is a refusal before the answer."""


def answer(text: str) -> list[Step]:
    """A complete Chat Completions stream that contains this text."""
    return [frames(*said(text))]


def paused_upstream() -> tuple[FakeUpstream, asyncio.Event]:
    """An upstream that sends `a`, waits until the event is set, and then sends `b` and the end."""
    gate = asyncio.Event()
    return FakeUpstream("only", [frames(chunk({"content": "a"}), done=False), gate, *answer("b")]), gate


class FakeSource(PulledSource):
    """An answer that arrives step by step."""

    def __init__(self, steps: Sequence[Step], content_type: str = "text/event-stream") -> None:
        super().__init__()
        self.status = 200
        self.content_type = content_type
        self.request_id: str | None = "up_1"
        self.is_closed = False
        self._steps = list(steps)

    async def read(self) -> bytes:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                for _ in range(5):  # so that each step is a read of its own
                    await asyncio.sleep(0)
                return step
            await step.wait()
        return b""

    def close(self) -> None:
        self.is_closed = True
        super().close()

    def mask(self, text: str) -> str:
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002 - there is no secret
        return data


class FakeUpstream:
    """The first request gets the first answer, and so on; the last answer is repeated."""

    pass_key = False

    def __init__(self, name: str, *answers: Answer, dialect: str = "chat") -> None:
        self.name = name
        self.dialect: Dialect = rendered_dialect(dialect)
        self.keys = KeyRing((), clock=time.monotonic)
        self._answers = list(answers)
        self.requests: list[UpstreamRequest] = []
        self.headers: list[Mapping[str, str]] = []
        self.sources: list[FakeSource] = []
        self.is_closed = False

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - it has no keys
        return Target(model=model, vendor=self.name, dialect=self.dialect.name)

    async def send(
        self,
        request: UpstreamRequest,
        *,
        key: str,  # noqa: ARG002
        headers: Mapping[str, str],
    ) -> UpstreamSource:
        self.requests.append(request)
        self.headers.append(headers)
        steps = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(steps, Exception):
            raise steps
        source = FakeSource(steps)
        self.sources.append(source)
        return source

    async def aclose(self) -> None:
        self.is_closed = True


class ModelUpstream(FakeUpstream):
    """Answers by the name of the model, as `ScriptedUpstream` does across a network."""

    def __init__(self, name: str, dialect: str = "chat") -> None:
        super().__init__(name, [], dialect=dialect)
        self._scripts: dict[str, Answer] = {}

    def play(self, model: str, *steps: Step) -> str:
        """From now on each request for this model gets this answer."""
        self._scripts[model] = steps
        return model

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        self._answers = [self._scripts[request.body["model"]]]
        return await super().send(request, key=key, headers=headers)
