"""Functions: arguments are JSON text, forwarded unchanged as it arrives."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET

from penstock.lenient import is_json
from penstock.protocol.events import ArgumentsDeltaEvent, ArgumentsDoneEvent, Event
from penstock.protocol.items import FunctionCall, FunctionCallOutput
from penstock.protocol.tools import FunctionTool
from penstock.tools.family import CallStream, Declaration, Numbers, ToolFamily
from penstock.tools.jsontext import SPACE


class FunctionCallStream(CallStream):
    item_type: ClassVar[str] = "function_call"

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        if not fragment:
            return []
        return [
            ArgumentsDeltaEvent(
                sequence_number=number(), item_id=self.item_id, output_index=self.output_index, delta=fragment
            )
        ]

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events: list[Event] = []
        if complete and not self.received.strip(SPACE):
            # A completed call has valid JSON, and LangChain reads it from deltas alone (client 7).
            events = self.feed("{}", number)
        done = ArgumentsDoneEvent(
            sequence_number=number(),
            item_id=self.item_id,
            output_index=self.output_index,
            name=self.identity.name,
            arguments=self.received,
        )
        return [*events, done]

    def item(self, status: str) -> FunctionCall:
        return FunctionCall(
            id=self.item_id,
            call_id=self.call_id,
            name=self.identity.name,
            namespace=self.identity.namespace or UNSET,
            arguments=self.received,
            status=status,
        )

    @property
    def is_complete(self) -> bool:
        text = self.received
        return not text.strip(SPACE) or is_json(text)

    @property
    def flaw(self) -> str:
        text = self.received.lstrip(SPACE)
        return "" if not text or text.startswith("{") else "the arguments are JSON, but not an object"


def _declare(tool: FunctionTool) -> Declaration:
    strict = tool.strict if isinstance(tool.strict, bool) else None
    return Declaration(tool.description or "", _object_schema(tool.parameters or {}), strict)


def _object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with `type` and `properties`: some upstreams refuse `{}` (ask B6)."""
    if "type" in parameters and "properties" in parameters:
        return parameters
    if parameters.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
        return parameters if "type" in parameters else {"type": "object", **parameters}
    required = {"type": "object", "properties": {}}
    return {**{key: value for key, value in required.items() if key not in parameters}, **parameters}


FAMILY = ToolFamily(
    type="function",
    is_named=True,
    call=FunctionCall,
    output=FunctionCallOutput,
    stream=FunctionCallStream,
    declare=_declare,
    arguments=lambda call: call.arguments or "{}",
    content=lambda output, _: output.output,
)
