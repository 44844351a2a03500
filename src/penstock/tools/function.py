"""Functions: arguments are JSON text, sent on as it comes."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET

from penstock.protocol.events import ArgumentsDeltaEvent, ArgumentsDoneEvent, Event
from penstock.protocol.items import FunctionCall
from penstock.tools.family import CallStream, Numbers
from penstock.tools.jsontext import parse


class FunctionCallStream(CallStream):
    item_type: ClassVar[str] = "function_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._chunks: list[str] = []

    @property
    def _arguments(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, fragment: str, number: Numbers) -> list[Event]:
        self._chunks.append(fragment)
        return [
            ArgumentsDeltaEvent(
                sequence_number=number(), item_id=self.item_id, output_index=self.output_index, delta=fragment
            )
        ]

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events: list[Event] = []
        if complete and not self._arguments.strip():
            # A completed call has valid JSON, and LangChain takes it from deltas alone (notes/clients 4.1).
            events = self.feed("{}", number)
        done = ArgumentsDoneEvent(
            sequence_number=number(),
            item_id=self.item_id,
            output_index=self.output_index,
            name=self.identity.name,
            arguments=self._arguments,
        )
        return [*events, done]

    def item(self, status: str) -> FunctionCall:
        return FunctionCall(
            id=self.item_id,
            call_id=self.call_id,
            name=self.identity.name,
            namespace=self.identity.namespace or UNSET,
            arguments=self._arguments,
            status=status,
        )

    @property
    def whole(self) -> bool:
        text = self._arguments
        if not text.strip():
            return True
        try:
            parse(text)
        except ValueError:
            return False
        return True

    @property
    def flaw(self) -> str:
        text = self._arguments.lstrip()
        return "" if not text or text.startswith("{") else "the arguments are JSON and no object"
