"""Tools that Bedrock runs itself (Nova's): they become items to display, never calls for the client to run.

A use and its result are two blocks; they become one item. A tool without an item type that clients know is
left out with a diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.items import Item, UnknownItem, WebSearchCall
from penstock.stream.deltas import Delta, DiagnosticDelta, ItemDelta, Key

_RESULT_SUFFIX = "_result"


class BedrockServerCall(Struct):
    """One use of a tool. `kind` is a key of `KINDS`; `result` is the content of the result blocks."""

    key: Key
    kind: str
    fragments: list[str] = []
    input: dict[str, Any] = {}
    result: list[dict[str, Any]] = []
    failed: bool = False
    done: bool = False


class BedrockServerTools:
    """The server tools of one answer."""

    def __init__(self) -> None:
        self._calls: dict[Key, BedrockServerCall] = {}
        self._by_block: dict[Key, BedrockServerCall] = {}

    def start(self, block_key: Key, use: dict[str, Any]) -> list[Delta]:
        """Announce a use at once, so that a client can show progress."""
        key = text_of(use.get("toolUseId")) or f"server_{block_key}"
        call = self._by_block[block_key] = BedrockServerCall(key, text_of(use.get("name")))
        if key in self._calls:
            return []
        self._calls[key] = call
        if call.kind not in KINDS:
            return [_unsupported(call.kind)]
        return [ItemDelta(key, KINDS[call.kind](call), done=False)]

    def feed(self, block_key: Key, fragment: str) -> None:
        """Add a fragment of the tool's input."""
        if call := self._by_block.get(block_key):
            call.fragments.append(fragment)

    def start_result(self, block_key: Key, result: dict[str, Any]) -> None:
        """Start a result. Its use may be in an earlier answer."""
        key = text_of(result.get("toolUseId")) or f"result_{block_key}"
        kind = text_of(result.get("type")).removesuffix(_RESULT_SUFFIX)
        call = self._by_block[block_key] = self._calls.setdefault(key, BedrockServerCall(key, kind))
        call.failed = call.failed or result.get("status") == "error"

    def feed_result(self, block_key: Key, content: list[dict[str, Any]]) -> None:
        if call := self._by_block.get(block_key):
            call.result += content

    def end_result(self, block_key: Key) -> list[Delta]:
        call = self._by_block.get(block_key)
        return [] if call is None else self._finish(call, "failed" if call.failed else "completed")

    def close(self, status: str) -> list[Delta]:
        """Close the uses that have no result yet: no more results will arrive."""
        return [delta for call in self._calls.values() for delta in self._finish(call, status)]

    def _finish(self, call: BedrockServerCall, status: str) -> list[Delta]:
        if call.done or call.kind not in KINDS:
            return []
        call.done = True
        call.input = _read_input("".join(call.fragments))
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


def _code(call: BedrockServerCall) -> Item:
    logs = "".join(_log(each) for each in call.result)
    return UnknownItem(
        type="code_interpreter_call",
        extra={
            "code": text_of(call.input.get("snippet")),
            "container_id": "",
            "outputs": [{"type": "logs", "logs": logs}] if logs else None,
        },
    )


def _log(content: dict[str, Any]) -> str:
    """Return the output of the program, or else the whole content."""
    fields = object_of(content.get("json"))
    if "stdOut" in fields or "stdErr" in fields:
        return text_of(fields.get("stdOut")) + text_of(fields.get("stdErr"))
    return text_of(content.get("text")) or msgspec.json.encode(fields or content).decode()


def _web_search(call: BedrockServerCall) -> Item:
    found = [object_of(each.get("json")) for each in call.result]
    pages = [page for each in found for page in [each, *objects_of(each.get("results"))]]
    sources = [{"type": "url", "url": url} for page in pages if (url := text_of(page.get("url")))]
    action = {"type": "search", "query": text_of(call.input.get("query"))}
    return WebSearchCall(action={**action, "sources": sources} if sources else action)


KINDS: dict[str, Callable[[BedrockServerCall], Item]] = {
    "nova_code_interpreter": _code,
    "nova_grounding": _web_search,
}
"""How to build the item for each supported tool."""
