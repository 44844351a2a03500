"""Reading and asserting what a reply contains: errors, items, calls and diagnostics."""

from __future__ import annotations

from typing import Any

from tests.gateway.running import Reply

Json = dict[str, Any]


def failed(reply: Reply, code: str) -> Json:
    """The error of a stream that failed: sent twice, in the order that all clients can read (ask E1)."""
    assert reply.status == 200
    assert reply.types[-2:] == ["error", "response.failed"]
    error: Json = reply.last["error"]
    assert error["code"] == code
    sent = reply.events[-2]
    assert (sent["code"], sent["message"]) == (error["code"], error["message"])
    assert (sent["error"]["code"], sent["error"]["message"]) == (error["code"], error["message"])
    assert reply.headers["x-request-id"] in error["message"]
    return error


def statuses(reply: Reply) -> list[str]:
    return [item.get("status", "") for item in reply.last["output"]]


def calls_in(response: Json) -> list[tuple[str, str]]:
    """The calls of a response: names and arguments."""
    return [
        (item["name"], item["arguments"]) for item in response["output"] if item["type"] == "function_call"
    ]


def call_ids(response: Json) -> list[str]:
    return [item["call_id"] for item in response["output"] if "call_id" in item]


def codes(response: Json) -> list[str]:
    """The codes of the response's diagnostics."""
    return [sent["code"] for sent in response.get("diagnostics", [])]


def said(response: Json) -> list[tuple[str, str]]:
    """The items of a response: types and texts."""
    return [(item["type"], _text_in(item)) for item in response["output"]]


def _text_in(item: Json) -> str:
    parts = [*item.get("summary", []), *(item.get("content") or [])]
    text = "".join(part.get("text", part.get("refusal", "")) for part in parts)
    return text + str(item.get("arguments") or item.get("input") or "")


def assert_begins(short: list[tuple[str, str]], whole: list[tuple[str, str]]) -> None:
    """Assert that each item of the short answer is the beginning of that of the whole one."""
    assert len(short) <= len(whole)
    for (kind, beginning), (whole_kind, text) in zip(short, whole, strict=False):
        assert kind == whole_kind
        assert text.startswith(beginning)
