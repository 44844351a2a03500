"""Control the consumer extension: orders and answers are files in a folder."""

from __future__ import annotations

import base64
import itertools
import json
import time
from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]

EXTENSION = Path(__file__).with_name("consumer")
ORDERS = "PENSTOCK_E2E_ORDERS"
"""The environment variable with the folder."""

LONGEST = 60.0
"""Seconds until waiting for an answer fails. It is a limit, not a pause."""


class Answer(msgspec.Struct, frozen=True):
    """The answer that a consumer received."""

    parts: list[Json]
    error: Json | None = None
    seen_at_cancel: int | None = msgspec.field(default=None, name="seenAtCancel")

    def of(self, type: str) -> list[Json]:
        return [part for part in self.parts if part["type"] == type]

    @property
    def text(self) -> str:
        return "".join(part["value"] for part in self.of("text"))

    @property
    def thinking(self) -> str:
        return "".join(part["value"] for part in self.of("thinking"))

    @property
    def calls(self) -> list[tuple[str, Any]]:
        return [(part["name"], part["input"]) for part in self.of("tool_call")]

    def data(self, mime: str) -> list[bytes]:
        return [base64.b64decode(part["base64"]) for part in self.of("data") if part["mime"] == mime]


class Consumer:
    """An extension that uses language models."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, itertools.count(1)

    def order(self, method: str, **fields: Any) -> Any:
        number = next(self._numbers)
        order, answer = self._folder / f"{number}.order", self._folder / f"{number}.answer"
        part = self._folder / f"{number}.part"
        part.write_text(json.dumps({"method": method, **fields}))
        part.rename(order)
        deadline = time.monotonic() + LONGEST
        while not answer.exists():
            assert time.monotonic() < deadline, f"the consumer does not answer: {method}"
            time.sleep(0.02)  # polling interval
        reply = json.loads(answer.read_text())
        assert "error" not in reply, reply
        return reply.get("result")

    def models(self) -> list[Json]:
        found: list[Json] = self.order("models")
        return found

    def command(self, command: str, *words: Any) -> None:
        """Start a command; its questions appear in the page."""
        self.order("command", command=command, words=words)

    def commands(self) -> set[str]:
        """Return the names of all commands."""
        return set(self.order("commands"))

    def install(self, vsix: Path) -> None:
        """Install an extension from a file."""
        self.order("install", file=str(vsix))

    def configure(self, name: str, value: Any) -> None:
        """Change a user setting."""
        self.order("configure", name=name, value=value)

    def count_tokens(self, model: str, text: str) -> int:
        count: int = self.order("count_tokens", model=model, text=text)
        return count

    def ask(self, model: str, words: str | list[Json] = "Hello?", **fields: Any) -> Answer:
        messages = [{"role": 1, "content": words}] if isinstance(words, str) else words
        return msgspec.convert(self.order("respond", model=model, messages=messages, **fields), Answer)
