"""The timeline of `penstock check --timeline`."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest

from penstock.cli.timeline import Timeline
from tests.cli import streams
from tests.cli.running import fresh, penstock


def drawn(events: list[Any], width: int = 100, unicode: bool = True, violations: tuple[int, ...] = ()) -> str:
    timeline = Timeline()
    for position, event in enumerate(events):
        timeline.add(position, event if isinstance(event, str) else json.dumps(event))
    for position in violations:
        timeline.mark(position)
    return "\n".join(timeline.draw(width, unicode)) + "\n"


def picture(text: str) -> str:
    return dedent(text).removeprefix("\n")


def test_every_item_has_a_lane_from_where_it_opened_to_where_it_closed() -> None:
    assert drawn([*streams.interleaved(), "[DONE]"]) == picture(
        """
        event                        0         10        20
        response                     ○▷──────────────────────✓■
        0 message msg_1                ├┼━━━┼┼┤
        1 function_call get_weather            ├─━─━─━─━─┼─┤
        2 function_call get_time                ├─━─━─━─━─┼─┤
        ✓ completed  ■ [DONE]  ○ created  ▷ in progress  ├ opened  ┤ closed  ━ delta
        ┼ part or text boundary  ─ open
        """
    )


def test_without_unicode_the_picture_is_the_same_in_ascii() -> None:
    assert drawn([*streams.interleaved(), "[DONE]"], unicode=False) == picture(
        """
        event                        0         10        20
        response                     CP----------------------KD
        0 message msg_1                [+===++]
        1 function_call get_weather            [-=-=-=-=-+-]
        2 function_call get_time                [-=-=-=-=-+-]
        K completed  D [DONE]  C created  P in progress  [ opened  ] closed  = delta
        + part or text boundary  - open
        """
    )


def test_violations_are_marked_under_their_column() -> None:
    lines = drawn(streams.announced_twice(), violations=(4, 8, 8, 9)).splitlines()
    lanes = {line[:27].strip(): line[29:] for line in lines}
    assert lanes["response"] == "○▷──────✓"
    assert lanes["violations"] == "    ▲   2▲"
    assert lanes["1 function_call get_weather"] == "    ├╌╌╌╌╌"


@pytest.mark.parametrize("count", [1, 50, 10_000])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_stream_of_any_length_fits_the_width(count: int, width: int) -> None:
    text = drawn(streams.hello(["x"] * count), width=width, violations=(count,) * 30)
    assert max(map(len, text.splitlines())) <= width
    assert "✓ completed" in text
    response, message = text.splitlines()[1:3]
    assert response.endswith("✓")
    assert "├" in message
    assert message.endswith("┤")


def test_a_compressed_picture_says_so() -> None:
    text = drawn(streams.hello(["x"] * 992), width=117)
    assert text.startswith("event            0         100       200       300")
    assert "(a column is up to 10 events)" in text
    assert "a column is" not in drawn(streams.hello())


def test_an_item_within_one_column_is_visible() -> None:
    short, item = streams.message("msg_1", 0, ["Hi"])
    more, other = streams.message("msg_2", 1, ["x"] * 2000)
    lines = drawn(streams.response([*short, *more], [item, other])).splitlines()
    assert lines[2] == "0 message msg_1  ╪"


def test_heartbeats_errors_and_endings_are_on_the_lane_of_the_response() -> None:
    beat = {"type": "response.in_progress"}
    assert "○▷♥♥!✗■" in drawn(
        [
            {"type": "response.created"},
            beat,
            beat,
            beat,
            {"type": "error"},
            {"type": "response.failed"},
            "[DONE]",
        ]
    )
    assert "○◷◷▷◐" in drawn(
        [
            {"type": "response.created"},
            {"type": "response.queued"},
            {"type": "response.queued"},
            beat,
            {"type": "response.incomplete"},
        ]
    )


def test_two_items_under_one_index_are_two_lanes() -> None:
    first, _ = streams.call("fc_1", 0, "one", ["{}"])
    second, _ = streams.call("fc_2", 0, "two", ["{}"])
    lines = drawn([*first, *second]).splitlines()
    assert lines[2].startswith("0 function_call one  ├━┼┤")
    assert lines[3].startswith("0 function_call two      ├━┼┤")


def test_an_item_announced_again_stays_in_its_lane() -> None:
    events, _ = streams.call("fc_1", 0, "one", ["{}"])
    lines = drawn([events[0], *events]).splitlines()
    assert lines[2] == "0 function_call one  ├├━┼┤"


def test_events_are_placed_by_index_when_they_have_no_id() -> None:
    events, _ = streams.call("fc_1", 0, "one", ["{}"])
    del events[1]["item_id"]
    assert "0 function_call one  ├━┼┤" in drawn(events)


def test_wide_characters_do_not_shift_the_lanes() -> None:
    narrow, _ = streams.call("fc_1", 0, "tenki", ["{}"])
    wide, _ = streams.call("fc_2", 1, "天気", ["{}"])
    lines = drawn([*narrow, *wide]).splitlines()
    assert lines[2].index("├") == len("0 function_call tenki  ")
    assert lines[3].index("├") == len("0 function_call tenki  ") + 4 - len("天気")


def test_a_long_label_is_shortened() -> None:
    events, _ = streams.call("fc_1", 0, "n" * 100, ["{}"])
    assert "0 function_call nnnnnnnnnnnnn…  ├━┼┤" in drawn(events, width=80)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "no JSON",
        "[]",
        "null",
        "{}",
        '{"type": 7}',
        '{"type": "response.output_item.added"}',
        '{"type": "response.output_item.added", "item": null, "output_index": true}',
        '{"type": "response.output_item.added", "item": {"id": 7, "type": [], "name": {}}}',
        '{"type": "response.output_item.done", "item": [], "output_index": -1}',
        '{"type": "x.delta", "item_id": "\\u001b[31m\\n", "output_index": 1e300}',
        '{"a":' + "[" * 100_000,
    ],
)
def test_any_frame_can_be_drawn(data: str) -> None:
    text = drawn([{"type": "response.created"}, data])
    assert text.startswith("event")
    assert "\033" not in text


def test_an_empty_stream_has_no_picture() -> None:
    assert Timeline().draw(100, True) == []


def test_the_command_draws_between_the_violations_and_the_verdict() -> None:
    result = penstock("check", "--timeline", "-", stdin=streams.as_sse(streams.announced_twice()))
    lines = result.stdout.splitlines()
    assert lines[0].startswith("call.duplicate")
    assert lines[4].startswith("event ")
    assert lines[-1] == "3 violations in 9 events"
    assert "├" in result.stdout


def test_the_command_draws_in_ascii_without_unicode() -> None:
    stream = streams.as_sse(streams.hello())
    result = fresh(
        "check", "--timeline", "-", stdin=stream, encoding="ascii", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert result.returncode == 0
    assert "0 message msg_1    [+===++]" in result.stdout


def test_the_command_fits_the_picture_to_the_terminal() -> None:
    stream = streams.as_sse(streams.hello(["x"] * 500))
    result = penstock("check", "--timeline", "-", stdin=stream, COLUMNS="60")
    assert max(map(len, result.stdout.splitlines())) <= 60
