"""Tools that Bedrock runs itself (Nova's): items to look at, and never a call that a client would run.

A use and its result are two blocks; here they are one item. A tool without an item type that clients know is
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
    """One use. `kind` is a row of `KINDS`; `result` is what the blocks of its result hold."""

    key: Key
    kind: str
    pieces: list[str] = []
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
        """A use begins: announced at once, so that a client can show that something goes on."""
        key = text_of(use.get("toolUseId")) or f"server_{block_key}"
        call = self._by_block[block_key] = BedrockServerCall(key, text_of(use.get("name")))
        if key in self._calls:
            return []
        self._calls[key] = call
        if call.kind not in KINDS:
            return [_left_out(call.kind)]
        return [ItemDelta(key, KINDS[call.kind](call), done=False)]

    def feed(self, block_key: Key, fragment: str) -> None:
        """A piece of the tool's input."""
        if call := self._by_block.get(block_key):
            call.pieces.append(fragment)

    def start_result(self, block_key: Key, result: dict[str, Any]) -> None:
        """A result begins. Its use may have been in an earlier answer."""
        key = text_of(result.get("toolUseId")) or f"result_{block_key}"
        kind = text_of(result.get("type")).removesuffix(_RESULT_SUFFIX)
        call = self._by_block[block_key] = self._calls.setdefault(key, BedrockServerCall(key, kind))
        call.failed = call.failed or result.get("status") == "error"

    def feed_result(self, block_key: Key, content: list[dict[str, Any]]) -> None:
        if call := self._by_block.get(block_key):
            call.result += content

    def end_result(self, block_key: Key) -> list[Delta]:
        call = self._by_block.get(block_key)
        return [] if call is None else self._done(call, "failed" if call.failed else "completed")

    def close(self, status: str) -> list[Delta]:
        """No more results come; what was asked of the tools is told nevertheless."""
        return [delta for call in self._calls.values() for delta in self._done(call, status)]

    def _done(self, call: BedrockServerCall, status: str) -> list[Delta]:
        if call.done or call.kind not in KINDS:
            return []
        call.done = True
        call.input = _read_input("".join(call.pieces))
        item = msgspec.structs.replace(KINDS[call.kind](call), status=status)
        return [ItemDelta(call.key, item, done=True)]


def _left_out(name: str) -> DiagnosticDelta:
    return DiagnosticDelta(
        "server_tool_left_out", f"the upstream used its own tool {name!r}; there is no item to show it as"
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
    """What a program wrote, or whatever else the tool says of what it did."""
    told = object_of(content.get("json"))
    if "stdOut" in told or "stdErr" in told:
        return text_of(told.get("stdOut")) + text_of(told.get("stdErr"))
    return text_of(content.get("text")) or msgspec.json.encode(told or content).decode()


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
"""The tools that have an item to be shown as, and how it is made."""
