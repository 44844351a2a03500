"""Tools that Anthropic runs itself: they become items to display, never calls for the client to run.

A use and its result are two blocks, far apart or in two messages (quirk A7). They become one item of the
closest type that clients know. A tool without such a type is left out with a diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.dialects.anthropic.turn_content import RESULT_SUFFIX
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import Delta, DiagnosticDelta, ItemDelta, Key

_MCP = "mcp"
_USES = {"server_tool_use": "", "mcp_tool_use": _MCP}
"""Block types that use such a tool, and the kind of tool. If empty, the tool's name is the kind."""


class AnthropicServerCall(Struct):
    """One use of a tool. `kind` is a key of `KINDS`; `result` is the content of the result block."""

    key: Key
    kind: str
    name: str = ""
    server: str = ""
    input: dict[str, Any] = {}
    fragments: list[str] = []
    result: Any = None
    is_error: bool = False
    container_id: str = ""
    done: bool = False


class AnthropicServerTools:
    """The server tools of one message."""

    def __init__(self) -> None:
        self._calls: dict[Key, AnthropicServerCall] = {}
        self._unsupported: set[Key] = set()
        self._by_block: dict[Key, AnthropicServerCall] = {}
        self.container_id = ""

    def start(self, block_key: Key, block: dict[str, Any]) -> list[Delta]:
        """Announce a use at once, so that a client can show progress."""
        name = text_of(block.get("name"))
        call = AnthropicServerCall(
            key=text_of(block.get("id")) or f"server_{block_key}",
            kind=_USES.get(text_of(block.get("type"))) or name,
            name=name,
            server=text_of(block.get("server_name")),
            input=object_of(block.get("input")),
        )
        self._by_block[block_key] = call
        if call.kind not in KINDS:
            self._unsupported.add(call.key)
            return [_unsupported(name)]
        if call.key in self._calls:
            return []
        self._calls[call.key] = call
        return [ItemDelta(call.key, KINDS[call.kind](call), done=False)]

    def feed(self, block_key: Key, fragment: str) -> None:
        """Add a fragment of the tool's input."""
        if call := self._by_block.get(block_key):
            call.fragments.append(fragment)

    def result(self, block_key: Key, block: dict[str, Any]) -> list[Delta]:
        """Read a result, which arrives in one block. Its use may be in an earlier message."""
        key = text_of(block.get("tool_use_id")) or f"result_{block_key}"
        kind = text_of(block.get("type")).removesuffix(RESULT_SUFFIX)
        if key in self._unsupported:
            return []
        call = self._calls.get(key) or AnthropicServerCall(key, kind)
        if call.kind not in KINDS:
            return [_unsupported(kind)]
        self._calls[key] = call
        call.result = block.get("content")
        call.is_error = block.get("is_error") is True or _error_of(call.result) != ""
        return self._finish(call, "failed" if call.is_error else "completed")

    def close(self, status: str) -> list[Delta]:
        """Close the uses that have no result yet: no more results will arrive."""
        return [
            delta for call in self._calls.values() if not call.done for delta in self._finish(call, status)
        ]

    def _finish(self, call: AnthropicServerCall, status: str) -> list[Delta]:
        if call.done:
            return []
        call.done = True
        call.input = call.input or _read_input("".join(call.fragments))
        call.container_id = self.container_id
        item = msgspec.structs.replace(KINDS[call.kind](call), status=status)
        return [ItemDelta(call.key, item, done=True)]


def _unsupported(name: str) -> DiagnosticDelta:
    return DiagnosticDelta(
        "server_tool_left_out",
        f"the upstream used its own tool {name!r}, which has no item type; it was left out",
    )


def _read_input(text: str) -> dict[str, Any]:
    try:
        return object_of(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _error_of(result: Any) -> str:
    return text_of(object_of(result).get("error_code"))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _web_search(call: AnthropicServerCall) -> Item:
    sources = [
        {"type": "url", "url": url, "title": text_of(each.get("title"))}
        for each in objects_of(call.result)
        if (url := text_of(each.get("url")))
    ]
    action = {"type": "search", "query": text_of(call.input.get("query"))}
    return WebSearchCall(action={**action, "sources": sources} if sources else action)


def _web_fetch(call: AnthropicServerCall) -> Item:
    return WebSearchCall(action={"type": "open_page", "url": text_of(call.input.get("url"))})


_CODE_FIELDS = {"code_execution": "code", "bash_code_execution": "command"}
"""The input field that contains the code. For the text editor, the whole input is shown."""


def _code(call: AnthropicServerCall) -> Item:
    field = _CODE_FIELDS.get(call.kind, "")
    code = text_of(call.input.get(field)) if field else (_json(call.input) if call.input else "")
    logs = _logs(object_of(call.result))
    files = [text_of(each.get("file_id")) for each in objects_of(object_of(call.result).get("content"))]
    extra: dict[str, Any] = {
        "code": code,
        "container_id": call.container_id,
        "outputs": [{"type": "logs", "logs": logs}] if logs else None,
    }
    return UnknownItem(type="code_interpreter_call", extra={**extra, "files": files} if files else extra)


def _logs(result: dict[str, Any]) -> str:
    """Return the output of the program, or else every field of the result."""
    if error := _error_of(result):
        return error
    if "stdout" in result or "stderr" in result:
        return text_of(result.get("stdout")) + text_of(result.get("stderr"))
    fields = {name: value for name, value in result.items() if name != "type"}
    return _json(fields) if fields else ""


def _mcp_call(call: AnthropicServerCall) -> Item:
    parts = [text_of(each.get("text")) for each in objects_of(call.result)]
    output = text_of(call.result) or "".join(parts)
    extra: dict[str, Any] = {
        "server_label": call.server,
        "name": call.name,
        "arguments": _json(call.input) if call.input else "{}",
        "output": None if call.result is None or call.is_error else output,
        "error": output if call.is_error else None,
    }
    return UnknownItem(type="mcp_call", extra=extra)


KINDS: dict[str, Callable[[AnthropicServerCall], Item]] = {
    "web_search": _web_search,
    "web_fetch": _web_fetch,
    "code_execution": _code,
    "bash_code_execution": _code,
    "text_editor_code_execution": _code,
    _MCP: _mcp_call,
}
"""How to build the item for each supported tool."""
