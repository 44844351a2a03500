"""A request as it came, understood: what can be wrong with it is told before anybody else is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.dialects.envelope import unseal
from penstock.dialects.toolset import declared_tools
from penstock.errors import DecodeError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.failures import wrong_request
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Item, ReasoningItem
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import parse, read
from penstock.tools.identity import ToolIdentityMap

R = TypeVar("R", bound=CreateResponse)

PASSED_ON = ("traceparent", "tracestate")
"""Headers that the upstream gets as they came."""

_RANGES: dict[str, tuple[float, float | None]] = {
    "max_output_tokens": (1, None),
    "max_tool_calls": (1, None),
    "top_logprobs": (0, 20),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
"""What a number may be, where the specification says so. The least output is 16 there; models take less."""

_TRUNCATIONS = ("auto", "disabled")


def read_request(body: bytes, default_model: str, most_items: int) -> CreateResponse:
    """The request, with its model; `RequestRefused` names what is wrong."""
    try:
        raw = parse(body)
        count_items(raw, most_items)
        request: CreateResponse = read(raw, CreateResponse)
    except DecodeError as error:
        raise wrong_request(error) from None
    return check_request(request, default_model)


def check_request(request: R, default_model: str) -> R:
    """The same request with its model, if nothing is wrong with it."""
    model = request.model or default_model
    if not model:
        message = "say which model: GET /v1/models lists them, and `demo` is always there"
        raise _wrong("missing_required_parameter", message, "model")
    if request.input is UNSET and not request.instructions and not request.previous_response_id:
        raise _wrong("missing_required_parameter", "there is nothing to answer: give an `input`", "input")
    _check(request)
    return replace(request, model=model)


def count_items(raw: object, most: int) -> None:
    """Before they are read, which is what takes the time."""
    items = raw.get("input") if isinstance(raw, dict) else None
    if isinstance(items, list) and len(items) > most:
        raise _wrong(
            "invalid_request", f"there are {len(items)} items, and {most} are taken at most", "input"
        )


def _check(request: CreateResponse) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(request, name)
        if value is not UNSET and (value < least or (most is not None and value > most)):
            told = (
                f"must be from {least:g} to {most:g}" if most is not None else f"must be at least {least:g}"
            )
            raise _wrong("invalid_request", f"{name} {told}, not {value:g}", name)
    if request.truncation and request.truncation not in _TRUNCATIONS:
        raise _wrong("invalid_request", "truncation is `auto` or `disabled`", "truncation")


def _wrong(code: str, message: str, param: str) -> RequestRefused:
    return RequestRefused(400, code, message, param=param)


def identities(request: CreateResponse) -> ToolIdentityMap:
    try:
        return ToolIdentityMap(declared_tools(request), request.tool_choice)
    except DecodeError as error:
        raise wrong_request(error) from None


def used_call_ids(request: CreateResponse) -> frozenset[str]:
    """The call ids of the conversation so far: none of them is given out again (decisions 7)."""
    return frozenset(
        id for item in _items(request) if isinstance(id := getattr(item, "call_id", None), str) and id
    )


def fingerprints(request: CreateResponse) -> frozenset[str]:
    """The keys that reasoning in the history is bound to: with them it can be given back (notes/asks C4)."""
    found = set()
    for item in _items(request):
        sealed: Any = item.encrypted_content if isinstance(item, ReasoningItem) else None
        envelope = unseal(sealed) if isinstance(sealed, str) else None
        if envelope is not None and envelope.key:
            found.add(envelope.key)
    return frozenset(found)


def own_diagnostics(request: CreateResponse) -> list[Diagnostic]:
    """What the gateway itself does not do of what was asked for."""
    told = []
    if request.stream_options and request.stream_options.include_obfuscation is True:
        message, param = "this gateway does not pad its events", "stream_options.include_obfuscation"
        told.append(Diagnostic(code="field_dropped", message=message, param=param))
    if request.conversation and request.store is False:
        message = "what is not stored is not added to its conversation"
        told.append(Diagnostic(code="field_dropped", message=message, param="conversation"))
    return told


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in PASSED_ON if name in headers}


def _items(request: CreateResponse) -> list[Item]:
    return request.input if isinstance(request.input, list) else []
