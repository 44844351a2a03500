"""Tools that the provider runs: their calls and results become items for information, never calls to run.

`KINDS` maps each tool to an item; a tool without a row is left out with a diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import Delta, DiagnosticDelta, ItemDelta

JSON = dict[str, Any]


class HostedCall(Struct):
    """One call of a tool that the provider runs."""

    id: str
    name: str = ""
    input: Any = None
    result: Any = None
    is_error: bool = False
    server: str = ""
    announced: bool = False
    done: bool = False


class HostedTools:
    """The calls of the provider's tools in one answer."""

    def __init__(self) -> None:
        self._calls: dict[str, HostedCall] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._calls

    def start(self, id: str, part: JSON) -> list[Delta]:
        """Start a call, or add its complete input."""
        call = self._calls.setdefault(id, HostedCall(id))
        is_first = not call.name
        call.name = call.name or text_of(part.get("toolName"))
        for metadata in object_of(part.get("providerMetadata")).values():
            call.server = call.server or text_of(object_of(metadata).get("serverName"))
        if "input" in part:
            call.input = _decoded(part["input"])
        kind = _kind(call)
        if kind is None:
            return [_left_out(call.name)] if is_first and call.name else []
        if call.announced:
            return []
        call.announced = True
        return [ItemDelta(f"tool {id}", kind(call), done=False)]

    def result(self, id: str, part: JSON) -> list[Delta]:
        """Add a result. Its call may be in an earlier answer. A preliminary result is ignored: another
        follows."""
        if part.get("preliminary") is True:
            return []
        deltas = self.start(id, {name: part[name] for name in part if name != "input"})
        call = self._calls[id]
        call.result = part.get("result")
        call.is_error = part.get("isError") is True
        return deltas + self._done(call)

    def close(self) -> list[Delta]:
        """End the calls that have no result: no more results follow."""
        return [delta for call in self._calls.values() for delta in self._done(call)]

    def _done(self, call: HostedCall) -> list[Delta]:
        kind = _kind(call)
        if kind is None or call.done or not call.announced:
            return []
        call.done = True
        item = replace(kind(call), status="failed" if call.is_error else "completed")
        return [ItemDelta(f"tool {call.id}", item, done=True)]


def _kind(call: HostedCall) -> Callable[[HostedCall], Item] | None:
    if call.server or call.name.startswith("mcp."):
        return _mcp_call
    return KINDS.get(call.name)


def _left_out(name: str) -> DiagnosticDelta:
    message = f"the provider ran its own tool {name[:80]!r}, which was left out: no item type represents it"
    return DiagnosticDelta("server_tool_left_out", message)


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _web_search(call: HostedCall) -> Item:
    arguments, result = object_of(call.input), call.result
    found = objects_of(result) or objects_of(object_of(result).get("sources"))
    sources = [
        {"type": "url", "url": url, "title": text_of(each.get("title"))}
        for each in found
        if (url := text_of(each.get("url")))
    ]
    query = text_of(arguments.get("query")) or text_of(
        object_of(object_of(result).get("action")).get("query")
    )
    action: JSON = {"type": "search", "query": query}
    return WebSearchCall(action={**action, "sources": sources} if sources else action)


def _web_fetch(call: HostedCall) -> Item:
    return WebSearchCall(action={"type": "open_page", "url": text_of(object_of(call.input).get("url"))})


def _code(call: HostedCall) -> Item:
    arguments, result = object_of(call.input), object_of(call.result)
    code = text_of(arguments.get("code")) or text_of(arguments.get("command"))
    code = code or (_text(arguments) if arguments else "")
    logs = text_of(result.get("stdout")) + text_of(result.get("stderr"))
    if not logs and call.result is not None:
        logs = _text({name: value for name, value in result.items() if name != "type"} or call.result)
    extra = {
        "code": code,
        "container_id": text_of(arguments.get("containerId")),
        "outputs": [{"type": "logs", "logs": logs}] if logs else None,
    }
    return UnknownItem(type="code_interpreter_call", extra=extra)


def _file_search(call: HostedCall) -> Item:
    result = object_of(call.result)
    queries = result.get("queries")
    extra = {
        "queries": queries if isinstance(queries, list) else [],
        "results": objects_of(result.get("results")) or None,
    }
    return UnknownItem(type="file_search_call", extra=extra)


def _image(call: HostedCall) -> Item:
    return UnknownItem(
        type="image_generation_call", extra={"result": object_of(call.result).get("result") or None}
    )


def _mcp_call(call: HostedCall) -> Item:
    result = object_of(call.result)
    output = text_of(result.get("output")) or "".join(
        text_of(each.get("text")) for each in objects_of(call.result)
    )
    output = output or ("" if call.result is None else _text(call.result))
    extra = {
        "server_label": call.server or text_of(result.get("serverLabel")),
        "name": call.name.removeprefix("mcp."),
        "arguments": "{}" if call.input is None else _text(call.input),
        "output": None if call.result is None or call.is_error else output,
        "error": output if call.is_error else None,
    }
    return UnknownItem(type="mcp_call", extra=extra)


KINDS: dict[str, Callable[[HostedCall], Item]] = {
    "web_search": _web_search,
    "web_search_preview": _web_search,
    "google_search": _web_search,
    "web_fetch": _web_fetch,
    "url_context": _web_fetch,
    "code_execution": _code,
    "code_interpreter": _code,
    "bash_code_execution": _code,
    "text_editor_code_execution": _code,
    "file_search": _file_search,
    "image_generation": _image,
}
"""The tools that an item type can represent, by the providers' names."""
