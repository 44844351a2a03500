"""Checking and translating files: the same results as on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.inspector import check
from penstock.inspector.columns import StreamColumns
from penstock.stream.accents import ACCENTS
from tests.cli import streams
from tests.cli.running import penstock
from tests.dialects.chat_streams import chunk
from tests.dialects.format_samples import STREAMS, sse
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import frames
from tests.inspector.sites import API, Json, Site, with_site

LAWFUL = streams.as_sse(streams.hello())
DOUBLED = streams.as_sse(streams.announced_twice())


async def posted(site: Site, path: str, data: bytes, status: int = 200) -> Json:
    caller = await site.call(f"{API}/{path}", method="POST", data=data)
    assert caller.status == status, caller.body
    found: Json = caller.json
    return found


def test_a_lawful_stream_is_drawn() -> None:
    async def scenario(site: Site) -> None:
        for data, format in ((LAWFUL, "sse"), (streams.as_lines(streams.hello()), "ndjson")):
            found = await posted(site, "check", data)
            assert (found["kind"], found["format"]) == ("responses", format)
            assert found["sentence"] == f"A lawful stream of {len(streams.hello())} events."
            assert found["violations"] == []
            assert found["status"] == "completed"
            assert found["turn"]["timed"] is False
            assert [lane["type"] for lane in found["turn"]["lanes"]] == ["message"]
            assert len(found["turn"]["events"]["sequence"]) == len(streams.hello())
            assert found["output"][0]["type"] == "message"

    with_site(scenario)


def test_violations_are_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "doubled.sse"
    file.write_bytes(DOUBLED)
    result = penstock("check", "--json", str(file))
    expected = [(each["rule"], each["message"]) for each in json.loads(result.stdout)["violations"]]

    async def scenario(site: Site) -> None:
        found = await posted(site, "check?accent=openresponses", DOUBLED)
        assert [(each["rule"], each["message"]) for each in found["violations"]] == expected != []
        first = found["violations"][0]
        assert (first["rule"], first["sequence"]) == ("call.duplicate", 4)
        assert first["clients"]
        assert first["title"]

    with_site(scenario)


def test_a_cut_stream_has_the_output_so_far() -> None:
    async def scenario(site: Site) -> None:
        found = await posted(site, "check", streams.as_sse(streams.hello()[:-2], done=False))
        assert {each["sequence"] for each in found["violations"]} == {None}
        assert found["status"] == ""
        assert found["output"][0]["type"] == "message"

    with_site(scenario)


@pytest.mark.parametrize("accent", ACCENTS)
def test_the_accent_that_a_stream_breaks_least_is_used(accent: str) -> None:
    thinking = frames(chunk({"reasoning_content": "Hm."}), *text("Hi"), STOP)

    async def scenario(site: Site) -> None:
        translated = await posted(site, f"translate?dialect=chat&accent={accent}", thinking)
        found = await posted(site, "check", translated["sse"].encode())
        assert found["violations"] == []
        assert [lane["type"] for lane in found["turn"]["lanes"]] == ["reasoning", "message"]

    with_site(scenario)


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "responses"])
def test_a_stream_of_another_api_is_recognised_and_translated(name: str) -> None:
    async def scenario(site: Site) -> None:
        found = await posted(site, "check", sse(name, done=True))
        assert (found["kind"], found["turn"], found["violations"]) == (name, None, [])
        assert found["sentence"].startswith("This looks like ")
        if not found["dialect"]:
            assert (await posted(site, "translate", sse(name, done=True), 400))["error"]["param"] == "dialect"
            return
        translated = await posted(site, f"translate?dialect={found['dialect']}", sse(name, done=True))
        assert translated["kind"] == "responses"
        assert translated["violations"] == []
        assert translated["sse"].endswith("data: [DONE]\n\n")
        assert isinstance(translated["repairs"], list)
        by_itself = await posted(site, "translate", sse(name, done=True))
        assert by_itself["sentence"] == translated["sentence"]

    with_site(scenario)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "The file is empty."),
        (b" \n\n", "The file is empty."),
        (b"hello", "No events were found in 5 bytes"),
        (b"\x00\xff" * 100, "No events were found in 200 bytes"),
        (b"{\n}", "this is one JSON document"),
        (b"<script>alert(1)</script>", "No events were found"),
    ],
)
def test_anything_else_is_unknown(data: bytes, sentence: str) -> None:
    async def scenario(site: Site) -> None:
        found = await posted(site, "check", data)
        assert (found["kind"], found["turn"]) == ("unknown", None)
        assert found["sentence"].startswith(sentence)
        await posted(site, "translate", data, 400)
        await posted(site, "translate?dialect=chat", data, 400 if data == b"{\n}" else 200)

    with_site(scenario)


def test_a_file_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "LARGEST", 1000)

    async def scenario(site: Site) -> None:
        for path in ("check", "translate"):
            found = await posted(site, path, b"x" * 1001, 413)
            assert "32 MB" in found["error"]["message"]
        await posted(site, "check", b"x" * 1000)

    with_site(scenario)


def test_what_would_take_much_more_memory_than_the_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MOST_EVENTS", 5)
    monkeypatch.setattr(check, "LARGEST_TRANSLATION", 100)

    async def scenario(site: Site) -> None:
        found = await posted(site, "check", LAWFUL, 413)
        assert "more than 5 events" in found["error"]["message"]
        found = await posted(site, "translate", sse("chat", done=True), 413)
        assert "64 MB" in found["error"]["message"]

    with_site(scenario)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("MOST_LINES", b"data:\n" * 11, "more than 10 lines"),
        ("MOST_LINES", b"\r" * 11, "more than 10 lines"),
        ("MOST_EVENTS", b"{}\n" * 11, "more than 10 events"),
        ("MOST_EVENTS", b"[" + b"{}," * 11 + b"{}]", "more than 10 events"),
    ],
)
def test_small_lines_and_frames_are_counted(
    name: str, data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, name, 10)

    async def scenario(site: Site) -> None:
        assert message in (await posted(site, "translate?dialect=chat", data, 413))["error"]["message"]
        if name == "MOST_LINES":
            assert message in (await posted(site, "check", data, 413))["error"]["message"]

    with_site(scenario)


def test_lines_are_counted_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_pieces", lambda *_: pytest.fail("read"))
    with pytest.raises(RequestRefused):
        check.checked(b"data:\n" * (check.MOST_LINES + 1), "auto")


def test_items_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MOST_ITEMS", 3)
    added = b'data: {"type":"response.output_item.added","output_index":%d,"item":{"id":"msg_%d"}}\n\n'

    async def scenario(site: Site) -> None:
        data = b"".join(added % (number, number) for number in range(4))
        assert "more than 3 items" in (await posted(site, "check", data, 413))["error"]["message"]

    with_site(scenario)


def test_a_long_stream_is_read_as_a_whole_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, bool]] = []
    original = check._checked_in
    broken = DOUBLED * 3
    monkeypatch.setattr(check, "COMPARED", len(DOUBLED))

    def noted(data: bytes, accent: str, exchange: Exchange | None) -> check.CheckedStream:
        read.append((accent, len(data) == len(broken)))
        return original(data, accent, exchange)

    monkeypatch.setattr(check, "_checked_in", noted)
    assert check.checked(broken, "auto")["violations"]
    assert sum(is_whole for _, is_whole in read) <= 2
    assert [accent for accent, is_whole in read if not is_whole] == [*ACCENTS]


def test_the_beginning_of_a_long_stream_decides_on_its_accent(monkeypatch: pytest.MonkeyPatch) -> None:
    thinking = frames(chunk({"reasoning_content": "Hm."}), *text(*"Hello, this is a long answer."), STOP)

    async def scenario(site: Site) -> None:
        first, *others = ACCENTS
        for accent in others:
            translated = await posted(site, f"translate?dialect=chat&accent={accent}", thinking)
            stream = translated["sse"].encode()
            if (await posted(site, f"check?accent={first}", stream))["violations"]:
                break
        monkeypatch.setattr(check, "COMPARED", len(stream) * 3 // 4)
        found = await posted(site, "check", stream)
        assert (found["violations"], found["accent"]) == ([], accent)

    with_site(scenario)


def test_wrong_options_are_refused() -> None:
    async def scenario(site: Site) -> None:
        await posted(site, "check?accent=english", LAWFUL, 400)
        await posted(site, "translate?dialect=latin", LAWFUL, 400)

    with_site(scenario)


def test_nothing_is_stored() -> None:
    async def scenario(site: Site) -> None:
        await posted(site, "check", LAWFUL)
        await posted(site, "translate", sse("chat", done=True))
        assert (await site.gateway.store.stats()).responses == 0
        assert (await site.call("/v1/turns")).json["data"] == []

    with_site(scenario)


def test_the_rest_is_not_read_for_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = 0
    original = StreamColumns.add

    async def scenario(site: Site) -> None:
        caller = site.calling(f"{API}/check", method="POST", data=LAWFUL * 2000)
        loop = asyncio.get_running_loop()

        def add(self: StreamColumns, *args: object) -> None:
            nonlocal pieces
            pieces += 1
            if pieces == 1:
                loop.call_soon_threadsafe(caller.disconnect)
            original(self, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(StreamColumns, "add", add)
        await caller.task
        assert caller.body == b""
        assert pieces < 2000 * len(streams.hello())

    with_site(scenario)


def test_running_streams_go_on_while_a_file_is_checked() -> None:
    async def scenario(site: Site) -> None:
        caller = site.calling(f"{API}/check", method="POST", data=LAWFUL * 500)
        turns = 0
        while not caller.task.done():
            await site.ask(stream=True)
            turns += 1
        assert caller.status == 200
        assert turns > 1

    with_site(scenario)
