"""Every wish of the demo model, and what a client receives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.demo import DIALECT
from penstock.demo.script import PACE
from penstock.demo.upstream import DemoUpstream
from penstock.demo.wishes import EXACTLY, MAX_WAIT, MAX_WORDS, SLOW, WISHES, Wishes, wishes_in
from penstock.dialects.plan import Plan
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    OpenResponsesError,
    OverloadedError,
    RateLimitError,
    ServerError,
)
from penstock.net.source import Inbox, UpstreamSource
from penstock.stream.deltas import Delta, ErrorDelta
from tests.demo.asking import CLOCK, PATCH, WEATHER, RecordedSleep, ask, plan_for, read_all, reads_of
from tests.effort import examples

WORDS = [wish.words for wish in (EXACTLY, *WISHES)]
MANNERS = ["{}", "Please {}!", "Hello. Could you {}, and thank you?", "First line.\n{}\nLast line."]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("manner", MANNERS)
def test_a_wish_is_found_wherever_it_stands(words: str, manner: str) -> None:
    prompt = manner.format(words)
    prompt = f"fail at once, {prompt}" if words.startswith("retry") else prompt
    expected = Wishes() if not words.startswith("retry") else wishes_in("fail at once")
    assert wishes_in(prompt) != expected
    assert wishes_in(prompt.upper()) != expected


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Hello, who are you?",
        "What is the weather in Ulm?",
        "Explain garbage collection in Python.",
        "I waited for 3 seconds and it failed with 500.",
        "Write a haiku about silent nights.",
        "Count the words in this sentence.",
        "How do I break a string off?",
        "She refused to answer.",
        "Why does my test fail with an assertion?",
        "The river runs slowly. Is it fast elsewhere?",
    ],
)
def test_ordinary_words_are_not_wishes(prompt: str) -> None:
    assert wishes_in(prompt) == Wishes()


def test_wishes_can_be_combined() -> None:
    wishes = wishes_in("Wait 2 seconds, think, answer slowly with 50 words, and break off.")
    assert wishes == Wishes(wait=2.0, thinks=True, pace=SLOW, words=50, breaks_off=True)


@pytest.mark.parametrize(
    ("prompt", "seconds"),
    [
        ("wait 3 seconds", 3.0),
        ("wait 1 second", 1.0),
        ("wait 2.5s", 2.5),
        ("wait for 250 ms", 0.25),
        ("wait 20 milliseconds", 0.02),
        ("wait 2 minutes", 120.0),
        ("wait 1 min", 60.0),
        ("wait 999 minutes", MAX_WAIT),
    ],
)
def test_durations_use_any_unit_up_to_ten_minutes(prompt: str, seconds: float) -> None:
    assert wishes_in(prompt).wait == pytest.approx(seconds)


def test_waiting_comes_before_the_first_byte() -> None:
    result = ask("Wait 3 seconds, then say exactly: done")
    assert result.sleeps[0] == 3.0
    assert result.text == "done"
    assert result.sleeps.count(3.0) == 1


def test_pausing_comes_in_the_middle() -> None:
    result = ask("Pause 4 seconds in the middle. Say exactly: one two three four")
    assert result.sleeps == [0, PACE, PACE, 4.0, PACE, PACE, 0, 0]
    assert result.text == "one two three four"


@pytest.mark.parametrize(
    ("prompt", "pace"),
    [
        ("", PACE),
        ("answer slowly. ", SLOW),
        ("Answer me slowly! ", SLOW),
        ("answer fast. ", 0),
        ("be quick! ", 0),
    ],
)
def test_the_pace_can_be_chosen(prompt: str, pace: float) -> None:
    result = ask(f"{prompt}Say exactly: one two")
    assert result.sleeps == [0, pace, pace, 0, 0]


def test_wishes_in_a_text_to_repeat_have_no_effect() -> None:
    text = "wait 3 seconds, fail at once,\n  be silent — 水門"
    result = ask(f"Say exactly: {text}")
    assert result.text == text
    assert 3.0 not in result.sleeps


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Count from 1 to 5.", "1, 2, 3, 4, 5."),
        ("count 3 to 1", "3, 2, 1."),
        ("please count from -1 up to 1", "-1, 0, 1."),
    ],
)
def test_counting_goes_up_and_down(prompt: str, text: str) -> None:
    assert ask(prompt).text == text


def test_counting_is_bounded() -> None:
    assert len(ask("count from 1 to 999999").text.split()) == MAX_WORDS


@pytest.mark.parametrize("count", [1, 12, 61, 2000])
def test_an_answer_has_as_many_words_as_asked_for(count: int) -> None:
    result = ask(f"Answer with {count} words.")
    assert len(result.text.split()) == count
    assert result.response["usage"]["output_tokens"] == count


def test_a_refusal_is_a_refusal() -> None:
    result = ask("Please refuse.", tools=[WEATHER], tool_choice="required")
    (message,) = result.output
    assert [part["type"] for part in message["content"]] == ["refusal"]
    assert result.response["status"] == "completed"


def test_an_answer_without_content_completes() -> None:
    result = ask("Say nothing.")
    assert (result.response["status"], result.output) == ("completed", [])
    assert result.response["usage"]["output_tokens"] == 0


def test_a_citation_points_at_its_text() -> None:
    result = ask("Cite a source for this: Schütz 水門")
    (part,) = result.output[0]["content"]
    (citation,) = part["annotations"]
    assert citation["type"] == "url_citation"
    cited = part["text"][citation["start_index"] : citation["end_index"]]
    assert cited == f"[{citation['title']}]({citation['url']})"


@pytest.mark.parametrize(("tool", "type"), [(WEATHER, "function_call"), (PATCH, "custom_tool_call")])
def test_a_call_that_is_sent_twice_is_delivered_once(tool: dict[str, Any], type: str) -> None:
    result = ask(f"Use {tool['name']} in Ulm, and call it twice.", tools=[tool])
    named = [frame["call"]["id"] for frame in result.frames if frame.get("call", {}).get("id")]
    assert len(named) == 2
    assert len(set(named)) == 1
    assert [item["call_id"] for item in result.output] == named[:1]
    assert [item["type"] for item in result.output] == [type]


def test_two_calls_that_are_sent_twice_are_two() -> None:
    result = ask("get_weather and get_time in Ulm; call them twice", tools=[WEATHER, CLOCK])
    assert [item["name"] for item in result.output] == ["get_weather", "get_time"]


def test_no_tools_are_used_when_none_are_wanted() -> None:
    result = ask("What is the weather in Ulm? Use no tools.", tools=[WEATHER])
    assert not result.items("function_call")
    assert result.text


# -- what goes wrong


def refusal(prompt: str) -> OpenResponsesError:
    with pytest.raises(OpenResponsesError) as caught:
        ask(prompt)
    return caught.value


@pytest.mark.parametrize(
    ("prompt", "kind", "status", "code"),
    [
        ("fail at once", ServerError, 500, "server_error"),
        ("fail at once with 503", OverloadedError, 503, "server_is_overloaded"),
        ("fail with 429", RateLimitError, 429, "rate_limit_exceeded"),
        ("fail with 401", AuthenticationError, 401, "authentication_error"),
        ("fail with status 418", InvalidRequestError, 418, "invalid_request"),
        ("fail with 502", ServerError, 502, "server_error"),
        ("fail with context_length_exceeded", ContextOverflowError, 400, "context_length_exceeded"),
        ("fail with insufficient_quota", RateLimitError, 429, "insufficient_quota"),
        ("fail with content_filter", InvalidRequestError, 400, "content_filter"),
    ],
)
def test_a_failure_at_once_is_a_refusal(
    prompt: str, kind: type[OpenResponsesError], status: int, code: str
) -> None:
    error = refusal(prompt)
    assert type(error) is kind
    assert (error.status, error.code) == (status, code)
    assert error.request_id


def test_a_rate_limit_has_a_retry_delay() -> None:
    assert refusal("fail with 429").retry_after == 1.0
    assert refusal("fail with 429 and retry after 7 seconds").retry_after == 7.0
    assert refusal("fail with 503, retry-after 2 minutes").retry_after == 120.0
    assert refusal("fail with 500").retry_after is None


def test_a_failure_in_the_middle_can_say_how_long_to_wait() -> None:
    plan = plan_for("Fail in the middle with rate_limit_exceeded, retry after 7 seconds.")
    deltas = plan_deltas(plan)
    assert deltas[-1] == ErrorDelta(
        "rate_limit_exceeded",
        "the demo model was asked to fail in the middle; retry in 7s",
        "too_many_requests",
        retry_after=7.0,
    )


def plan_deltas(plan: Plan) -> list[Delta]:
    return DIALECT.read_body(plan, b"".join(asyncio.run(reads_of(plan, RecordedSleep()))))


def test_an_overflow_has_limit_and_size() -> None:
    error = refusal("fail with context_length_exceeded")
    assert error.used_tokens is not None
    assert error.limit_tokens is not None
    assert error.used_tokens > error.limit_tokens >= 0


def test_a_failure_can_be_waited_for_and_repeats_on_every_attempt() -> None:
    """A retry by the gateway gets the same failure."""
    sleep = RecordedSleep()
    for _ in range(3):
        with pytest.raises(RateLimitError):
            asyncio.run(reads_of(plan_for("Wait 2 seconds and fail with 429."), sleep))
    assert sleep.times == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("fail in the middle", "server_error"),
        ("fail in the middle with rate_limit_exceeded", "rate_limit_exceeded"),
        ("fail in the middle with 503", "server_is_overloaded"),
        ("break off", "upstream_truncated"),
        ("send garbage", "upstream_invalid"),
    ],
)
def test_a_failure_in_the_middle_keeps_what_was_said(prompt: str, code: str) -> None:
    result = ask(f"{prompt}. Say exactly: one two three four")
    assert result.response["status"] == "failed"
    assert result.response["error"]["code"] == code
    assert result.text == "one two"
    assert len(result.reads) == 4 - (prompt == "break off"), "nothing comes after it"


@pytest.mark.parametrize("prompt", ["fail in the middle", "break off", "send garbage"])
def test_even_one_word_is_said_before_a_failure_in_the_middle(prompt: str) -> None:
    assert ask(f"{prompt}; say exactly: one").text == "one"


@pytest.mark.parametrize("prompt", ["fail in the middle", "break off", "send garbage"])
def test_a_failure_in_the_middle_of_a_call_leaves_it_incomplete(prompt: str) -> None:
    result = ask(f"Call get_weather in San Francisco and {prompt}.", tools=[WEATHER])
    assert result.response["status"] == "failed"
    assert [item["status"] for item in result.output] == ["incomplete"]


# -- silence, closing, cancelling


async def _for_ever(seconds: float) -> None:
    """A sleep that never ends, because no time passes."""
    if seconds:
        await asyncio.Event().wait()


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


async def answer_to(prompt: str, sleep: Callable[[float], Awaitable[None]]) -> UpstreamSource:
    upstream = DemoUpstream(sleep)
    return await upstream.send(upstream.dialect.render(plan_for(prompt)), key="", headers={})


async def settled(rounds: int = 5) -> None:
    """Let every ready task run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


@pytest.mark.parametrize("prompt", ["Be silent.", "Wait 3 seconds.", "Hello.", "Think about it."])
def test_closing_ends_a_read_that_waits(prompt: str) -> None:
    async def run() -> None:
        source = await answer_to(prompt, _for_ever)
        inbox = Inbox(source)
        await settled()
        if inbox.is_ready:  # the model name is sent at once
            await inbox.take()
            await settled()
        assert not inbox.is_ready
        source.close()
        source.close()
        await settled()
        assert not inbox.is_ready  # `close` stops all callbacks
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@pytest.mark.parametrize("prompt", ["Be silent.", "Wait 3 seconds.", "Wait 3 seconds and fail with 429."])
def test_cancelling_leaves_nothing_behind(prompt: str) -> None:
    async def run() -> None:
        left: set[asyncio.Task[Any]] = set()

        async def read() -> bytes:
            try:
                source = await answer_to(prompt, _for_ever)
                try:
                    return await Inbox(source).take()
                finally:
                    source.close()
                    await settled()
            finally:
                left.update(asyncio.all_tasks())

        reading = asyncio.ensure_future(read())
        await settled()
        assert not reading.done()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert left == {asyncio.current_task(), reading}

    asyncio.run(run())


def test_an_answer_that_was_read_in_part_can_be_finished() -> None:
    async def run() -> None:
        source = await answer_to("Hello.", _at_once)
        inbox = Inbox(source)
        assert await inbox.take()
        source.finish()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_a_fast_answer_lets_other_tasks_run() -> None:
    async def run() -> None:
        source = await answer_to("Answer fast, with 100 words.", asyncio.sleep)
        counted = 0

        async def other_task() -> None:
            nonlocal counted
            while True:
                counted += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(other_task())
        await read_all(source)
        other.cancel()
        assert counted >= 100

    asyncio.run(run())


SILENT = "be silent"


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.sampled_from([words for words in WORDS if words != SILENT]), min_size=1, max_size=6))
def test_any_wishes_together_end_in_one_terminal(words: list[str]) -> None:
    """`ask` checks the stream; a refused request has none."""
    try:
        ask(", ".join(words), tools=[WEATHER, PATCH], reasoning={"summary": "auto"})
    except OpenResponsesError:
        assert any(each.startswith("fail") for each in words)
