"""Exports: one line of JSON for each response and conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.store import open_archive
from penstock.store.export import export_all, export_responses
from penstock.store.records import Closed, LoggedEvent, StoredConversation, StoredItem, Trace
from penstock.store.sqlite.store import SqliteStore
from tests.store.builders import Clock, closed, complete_turn, events, items, opened
from tests.store.sqlite.stores import use_store


def lines_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    found = list(lines)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)
    return [json.loads(line) for line in found]


def test_a_response_is_exported_with_everything_that_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    traces = [
        Trace("request", 1.0, b'{"model":"m"}'),
        Trace("read", 2.0, b"\xff\x00 cut anywh", 12),
        Trace("read", 3.0, b"", 7),
    ]

    async def body(store: SqliteStore) -> None:
        await complete_turn(store, "resp_0", tenant="anna")
        await store.open(opened("resp_1", "in_1", tenant="anna", previous="resp_0", conversation="conv_1"))
        store.log("resp_1", events(0, 2))
        store.trace("resp_1", traces)
        await store.close("resp_1", closed("resp_1", "out_1"), patience=30)

    use_store(path, body)
    missing: list[str] = []
    with open_archive(path) as archive:
        (record,) = lines_of(export_responses(archive, ["resp_1", "resp_no"], missing))
    assert missing == ["resp_no"]
    assert (record["object"], record["id"], record["tenant"]) == ("penstock.response", "resp_1", "anna")
    assert (record["status"], record["previous_response_id"]) == ("completed", "resp_0")
    assert (record["conversation"], record["background"], record["dropped_events"]) == ("conv_1", False, 0)
    assert [item["id"] for item in record["input"] + record["output"]] == ["in_1", "out_1"]
    assert record["verdict"] == {"ok": True}
    assert [(event["sequence"], event["event"]["delta"]) for event in record["events"]] == [
        (0, "x"),
        (1, "x"),
    ]
    request, read, empty = record["traces"]
    assert request == {"kind": "request", "time": 1.0, "size": 0, "data": {"model": "m"}}
    assert read == {"kind": "read", "time": 2.0, "size": 12, "base64": "/wAgY3V0IGFueXdo"}
    assert empty == {"kind": "read", "time": 3.0, "size": 7}, "bytes only where the gateway records them"


def test_everything_since_a_time_is_exported_responses_first(tmp_path: Path) -> None:
    path, clock = tmp_path / "store.db", Clock(50.0)

    async def body(store: SqliteStore) -> None:
        await store.create_conversation("anna", StoredConversation("conv_old", 1, b"{}"))
        for id, created_at in (("resp_old", 10), ("resp_new", 100)):
            await store.open(replace(opened(id), created_at=created_at))
            await store.close(id, closed(id), patience=30)
        clock.now = 100.0
        await store.create_conversation("anna", StoredConversation("conv_new", 2, b'{"a":"b"}'))
        await store.add_items("anna", "conv_new", items("msg_1"))

    use_store(path, body, clock=clock)
    with open_archive(path) as archive:
        assert [record["id"] for record in lines_of(export_all(archive, 0))] == [
            "resp_old",
            "resp_new",
            "conv_old",
            "conv_new",
        ]
        response, conversation = lines_of(export_all(archive, 100))
    assert response["id"] == "resp_new"
    assert conversation == {
        "object": "penstock.conversation",
        "id": "conv_new",
        "tenant": "anna",
        "created_at": 2,
        "changed_at": 100.0,
        "metadata": {"a": "b"},
        "items": [{"id": "msg_1", "text": ""}],
    }


@pytest.mark.parametrize(
    ("data", "exported"),
    [
        (b'{"a":\n[1,\r\n2]}', {"a": [1, 2]}),
        (b'{"a":"line\\nbreak"}', {"a": "line\nbreak"}),
        (b'{"a":', None),
        (b"", None),
        (b"\xff", None),
    ],
    ids=["newlines", "escaped newline", "cut", "empty", "not UTF-8"],
)
def test_stored_json_stays_on_one_line_and_invalid_json_is_null(
    tmp_path: Path, data: bytes, exported: object
) -> None:
    path = tmp_path / "store.db"

    async def body(store: SqliteStore) -> None:
        await store.open(opened("resp_1"))
        store.log("resp_1", [LoggedEvent(0, 1.0, data)])
        output: Sequence[StoredItem] = [StoredItem("out_1", data)]
        await store.close("resp_1", Closed(status="failed", response=data, output=tuple(output)), patience=30)

    use_store(path, body)
    with open_archive(path) as archive:
        (record,) = lines_of(export_all(archive, 0))
    assert (record["response"], record["output"]) == (exported, [exported])
    assert record["events"][0]["event"] == exported
    assert record["verdict"] is None
