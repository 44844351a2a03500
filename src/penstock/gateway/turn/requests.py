"""Decode and validate requests: errors are reported before an upstream is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from penstock.dialects.envelope import key_of
from penstock.errors import DecodeError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.refusals import invalid_request
from penstock.gateway.settings import Limits
from penstock.protocol.chat_requests import ignored_chat_fields, refuse_chat_request
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import Item, ReasoningItem
from penstock.protocol.large_json import has_more_values, parse_in_pieces
from penstock.protocol.request import CreateResponse, refuse_template
from penstock.protocol.wire import parse, read

R = TypeVar("R", bound=CreateResponse)

PASSED_ON = ("traceparent", "tracestate")
"""Headers that are sent to the upstream unchanged."""

_RANGES: dict[str, tuple[float, float | None]] = {
    "max_output_tokens": (1, None),
    "max_tool_calls": (1, None),
    "top_logprobs": (0, 20),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
"""The specification's ranges of numbers. Its minimum for `max_output_tokens` is 16; models accept less."""

_TRUNCATIONS = ("auto", "disabled")


LONGEST_NAME = 512
"""Maximum characters in the name of a tool or a namespace."""
NAMESPACE_DEPTH = 8
"""How deep namespaces may be nested. Codex, which uses them, does not nest them."""

NESTING = 256
"""How deep the JSON of a request may be nested. What is nearly as deep as Python's own limit can be read, but
not written or read again elsewhere."""

_LARGE = 1024 * 1024
_TOOL_ITEMS = ("additional_tools", "tool_search_output")
_PARTS = ("content", "output", "summary")
"""Fields of an item that contain content parts."""
_NO_IDS: frozenset[str] = frozenset()


def read_request(body: bytes, default_model: str, limits: Limits) -> CreateResponse:
    """Return the request with its model; raise `RequestRefused` if it is invalid."""
    try:
        raw = parse_bounded(body, limits)
        refuse_chat_request(raw)
        request: CreateResponse = read(raw, CreateResponse)
    except DecodeError as error:
        raise invalid_request(error) from None
    return check_request(request, default_model)


def parse_bounded(data: bytes | str, limits: Limits, field: str = "input") -> Any:
    """Return the JSON of a request; raise `RequestRefused` if it contains too much. The number of values is
    checked before decoding, because decoding is slow. `field` is the name of the list of items."""
    if len(data) > min(limits.body_values, _LARGE):
        data = data.encode() if isinstance(data, str) else data
        if has_more_values(data, limits.body_values):
            message = f"the request has more than {limits.body_values} JSON values (limits.body_values)"
            raise RequestRefused(400, "invalid_request", message)
    raw = parse_in_pieces(data) if isinstance(data, bytes) and len(data) > _LARGE else parse(data)
    _check_nesting(raw)
    if isinstance(raw, dict):
        check_counts(raw, limits, field)
    return raw


def _check_nesting(raw: Any) -> None:
    """Refuse lists and objects in each other, level by level."""
    level = [raw]
    for _ in range(NESTING + 1):
        level = [
            member
            for each in level
            if each.__class__ is dict or each.__class__ is list
            for member in (each.values() if each.__class__ is dict else each)
            if member.__class__ is dict or member.__class__ is list
        ]
        if not level:
            return
    message = f"the JSON of the request is nested more than {NESTING} levels deep"
    raise RequestRefused(400, "invalid_request", message)


def check_request(request: R, default_model: str) -> R:
    """Return the request with its model; raise `RequestRefused` if it is invalid."""
    try:
        refuse_template(request)
    except DecodeError as error:
        raise invalid_request(error) from None
    model = request.model or default_model
    if not model:
        message = "`model` is missing: GET /v1/models lists the models; `demo` is always available"
        raise _wrong("missing_required_parameter", message, "model")
    if request.input is UNSET and not request.instructions and not request.previous_response_id:
        raise _wrong(
            "missing_required_parameter", "`input` is missing: send the input for the model", "input"
        )
    _check(request)
    return replace(request, model=model)


def check_counts(raw: dict[str, Any], limits: Limits, field: str) -> None:
    """Refuse more items, tools or content parts than the limits allow."""
    items = _list(raw.get(field))
    if len(items) > limits.input_items:
        raise _too_many("items", len(items), limits.input_items, field)
    parts = tools = 0
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        for name in _PARTS:
            if isinstance(content := item.get(name), list):
                parts += len(content)
        if item.get("type") in _TOOL_ITEMS:
            tools += _count_tools(item.get("tools"), f"{field}[{index}].tools")
    if parts > limits.content_parts:
        raise _too_many("content parts", parts, limits.content_parts, field)
    tools += _count_tools(raw.get("tools"), "tools")
    if tools > limits.tools:
        raise _too_many("tools", tools, limits.tools, "tools")
    choice = raw.get("tool_choice")
    allowed = len(_list(choice.get("tools"))) if isinstance(choice, dict) else 0
    if allowed > limits.tools:
        raise _too_many("tools", allowed, limits.tools, "tool_choice.tools")


def _count_tools(tools: object, param: str, depth: int = 0) -> int:
    """Count tools, including those in namespaces. Names are limited in length, because the name of a
    namespace is repeated for each of its tools."""
    if depth > NAMESPACE_DEPTH:
        message = f"namespaces are nested more than {NAMESPACE_DEPTH} levels deep"
        raise _wrong("invalid_request", message, param[:LONGEST_NAME])
    count = 0
    for index, tool in enumerate(_list(tools)):
        count += 1
        if isinstance(tool, dict):
            if isinstance(name := tool.get("name"), str) and len(name) > LONGEST_NAME:
                message = f"the name has {len(name)} characters; at most {LONGEST_NAME} are allowed"
                raise _wrong("invalid_request", message, f"{param}[{index}].name")
            if "tools" in tool:
                count += _count_tools(tool["tools"], f"{param}[{index}].tools", depth + 1)
    return count


def _too_many(what: str, count: int, most: int, param: str) -> RequestRefused:
    setting = "input_items" if what == "items" else what.replace(" ", "_")
    message = f"there are {count} {what}; at most {most} are allowed (limits.{setting})"
    return _wrong("invalid_request", message, param)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _check(request: CreateResponse) -> None:
    for name, (least, most) in _RANGES.items():
        value = getattr(request, name)
        if value is not UNSET and (value < least or (most is not None and value > most)):
            allowed = f"from {least:g} to {most:g}" if most is not None else f"at least {least:g}"
            raise _wrong("invalid_request", f"{name} must be {allowed}, not {value:g}", name)
    if request.truncation and request.truncation not in _TRUNCATIONS:
        raise _wrong("invalid_request", "truncation must be `auto` or `disabled`", "truncation")


def _wrong(code: str, message: str, param: str) -> RequestRefused:
    return RequestRefused(400, code, message, param=param)


def used_call_ids(request: CreateResponse) -> frozenset[str]:
    """Return the call ids of the conversation so far, which must not be used again (decision 7)."""
    ids = {id for item in _items(request) if isinstance(id := getattr(item, "call_id", None), str) and id}
    return frozenset(ids) if ids else _NO_IDS


def fingerprints(request: CreateResponse) -> tuple[str, ...]:
    """Return the keys that reasoning in the history is bound to, the first of the conversation first: no
    other key can send it back (ask C4)."""
    found: dict[str, None] = {}
    for item in _items(request):
        sealed: Any = item.encrypted_content if isinstance(item, ReasoningItem) else None
        if isinstance(sealed, str) and (key := key_of(sealed)):
            found[key] = None
    return tuple(found)


def own_diagnostics(request: CreateResponse) -> list[Diagnostic]:
    """Return diagnostics for what the gateway itself does not support."""
    diagnostics = []
    if request.stream_options and request.stream_options.include_obfuscation is True:
        param = "stream_options.include_obfuscation"
        message = f"`{param}` was ignored: this gateway does not pad its events"
        diagnostics.append(Diagnostic(code="field_dropped", message=message, param=param))
    if request.conversation and request.store is False:
        message = "a response that is not stored is not added to its conversation"
        diagnostics.append(Diagnostic(code="field_dropped", message=message, param="conversation"))
    for name, message in ignored_chat_fields(request.extra or {}):
        diagnostics.append(Diagnostic(code="chat_field", message=message, param=name))
    return diagnostics


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that the upstream gets as well. Their standard allows printable ASCII only."""
    return {
        name: value
        for name in PASSED_ON
        if (value := headers.get(name)) is not None and value.isascii() and value.isprintable()
    }


def _items(request: CreateResponse) -> list[Item]:
    return request.input if isinstance(request.input, list) else []
