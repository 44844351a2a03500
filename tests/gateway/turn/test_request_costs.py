"""The cost of a request before it reaches its upstream grows linearly with its size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from penstock.demo import DIALECT as DEMO
from penstock.demo.upstream import DemoUpstream
from penstock.dialects.plan import Dialect, Plan, Quirks, Target
from penstock.dialects.registry import rendered_dialect
from penstock.dialects.schemas import SIZE
from penstock.dialects.toolset import identities_of
from penstock.errors import DecodeError
from penstock.gateway.history.chains import named_items, public_request, read_items
from penstock.gateway.history.repeats import latest_outputs, without_repeats
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import (
    fingerprints,
    read_request,
    used_call_ids,
)
from penstock.protocol.large_json import has_more_values
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.wire import encode
from penstock.store.reasoning_memory import context_of, reasoning_by_call, restore_reasoning
from penstock.stream.diagnostics import OTHERS, Diagnostics
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tokens.counter import TokenCounter
from penstock.tokens.request_estimates import count_input, estimate_usage
from penstock.tokens.tokenizer import count
from tests.garbage import without_collector
from tests.gateway.request_lists import (
    ROWS,
    Row,
    doubling,
    doubling_parts,
    function,
    list_fields,
    with_schema,
)

ENTRIES = 280


DOUBLINGS = 2


MOST = 2.6**DOUBLINGS
"""Twice the entries may cost 2.6 times as much. On a busy machine two doublings distinguish linear from
quadratic cost."""


NOISE = 0.004
"""Seconds below which a ratio says nothing."""


TRIES = 12


EVERYTHING = Limits(input_items=10**6, tools=10**6, content_parts=10**6, body_values=10**8)


TARGETS: dict[str, tuple[Dialect, Target]] = {
    "chat": (
        rendered_dialect("chat"),
        Target("m", vendor="openrouter", family="m", quirks=Quirks(reasoning_details=True)),
    ),
    "chat with references inlined": (rendered_dialect("chat"), Target("m", vendor="moonshot")),
    "anthropic": (rendered_dialect("anthropic"), Target("claude-opus-4-7", dialect="anthropic")),
    "gemini": (rendered_dialect("gemini"), Target("gemini-3-pro", dialect="gemini")),
    "OpenAI's responses": (
        rendered_dialect("responses"),
        Target("gpt-5", vendor="openai", dialect="responses"),
    ),
    "responses": (rendered_dialect("responses"), Target("m", vendor="vllm", dialect="responses")),
    "demo": (DEMO, Target("demo", vendor="demo", dialect="demo")),
}


class Bill:
    """CPU time by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        except DecodeError:
            pass  # not every request can be rendered for every upstream; a refusal must be as cheap
        finally:
            self.seconds[name] = time.process_time() - began


def bill_for(body: dict[str, Any]) -> dict[str, float]:
    """Every step from the bytes of a request to the bytes that are sent."""
    data, bill = msgspec.json.encode({"model": "demo", **body}), Bill()
    with bill.step("read"):
        request = read_request(data, "", EVERYTHING)
    items = request.input if isinstance(request.input, list) else []
    with bill.step("identities"):
        tools, used = identities_of(request), used_call_ids(request)
        fingerprints(request)
    with bill.step("resolve"):
        stored = named_items(items)
        without_repeats(items, list(enumerate(items)))
        latest_outputs(items)
        asyncio.run(restore_reasoning((), "local", items))
    with bill.step("history"):
        read_items(stored)
        context_of(items)
        reasoning_by_call(items)
    with bill.step("echo"):
        response = response_for(request, id="resp_1", created_at=1)
        encode(response)
        encode(public_request(request))
        ResponseStreamStateMachine(response, clock=time.time, tools=tools, used_call_ids=used).start()
    with bill.step("count"):
        count_input(request, "gpt-4o", TokenCounter())
        estimate_usage(CreateResponse(input="x"), "gpt-4o", items, TokenCounter())
    for name, (dialect, target) in TARGETS.items():
        plan = Plan(request=request, target=target, tools=tools, used_call_ids=used)
        with bill.step(name):
            rendered = dialect.render(plan)
            encode(rendered.body)
            dialect.reader(plan)
            assert len(rendered.diagnostics) < 200
            assert sum(len(each.message) for each in rendered.diagnostics) < 100_000
            if dialect is DEMO:
                asyncio.run(DemoUpstream().send(rendered, key="", headers={}))
    return bill.seconds


def steeper(make: Callable[[int], dict[str, Any]], entries: int) -> dict[str, float]:
    """The steps whose cost grows faster than the request. The best of several measurements counts, and only
    what seems to grow too fast is measured again."""
    small: dict[str, float] = {}
    large: dict[str, float] = {}
    found: dict[str, float] = {}
    with without_collector():  # it visits all objects of the process, which would distort the measurement
        for _ in range(TRIES):
            for best, size in ((small, entries), (large, entries * 2**DOUBLINGS)):
                for name, seconds in bill_for(make(size)).items():
                    best[name] = min(best.get(name, seconds), seconds)
            found = {
                name: round(seconds / small[name], 2)
                for name, seconds in large.items()
                if seconds > NOISE and seconds > MOST * small[name]
            }
            if not found:
                break
    return found


@pytest.fixture(scope="module")
def warm() -> None:
    """The first request pays for what is loaded and compiled once."""
    bill_for(ROWS[0].make(1))


@pytest.mark.e2e
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_twice_the_entries_cost_about_twice(row: Row) -> None:
    assert steeper(row.make, ENTRIES) == {}


def test_every_list_of_a_request_is_measured() -> None:
    assert {name for row in ROWS for name in row.covers} == list_fields()


def test_references_of_many_tools_share_one_bound() -> None:
    """Each of them could be expanded as far as one alone."""
    tools = [function(f"f{number}", parameters=doubling(30)) for number in range(40)]
    request = read_request(msgspec.json.encode({"model": "m", "input": "x", "tools": tools}), "", Limits())
    for name in ("anthropic", "gemini", "chat with references inlined"):
        dialect, target = TARGETS[name]
        rendered = dialect.render(Plan(request=request, target=target, tools=identities_of(request)))
        assert str(rendered.body).count("'properties'") < 10 * SIZE


def test_the_demo_model_gives_up_on_a_schema_that_doubles_itself() -> None:
    """It ends: to join every path through these definitions would take years."""
    request = read_request(
        msgspec.json.encode({"model": "m", **with_schema(doubling_parts(60))}), "", Limits()
    )
    dialect, target = TARGETS["demo"]
    rendered = dialect.render(Plan(request=request, target=target, tools=identities_of(request)))
    asyncio.run(DemoUpstream().send(rendered, key="", headers={}))


def test_a_large_definition_is_not_written_once_for_each_reference() -> None:
    large = {"type": "string", "enum": ["x" * 100_000]}
    properties = {f"p{number}": {"$ref": "#/$defs/large"} for number in range(1000)}
    schema = {"type": "object", "properties": properties, "$defs": {"large": large}}
    request = read_request(msgspec.json.encode({"model": "m", **with_schema(schema)}), "", Limits())
    dialect, target = TARGETS["gemini"]
    rendered = dialect.render(Plan(request=request, target=target, tools=identities_of(request)))
    assert len(encode(rendered.body)) < 10_000_000


@pytest.mark.parametrize("name", ["chat", "anthropic", "gemini", "demo"])
def test_arguments_that_would_become_too_many_values_stay_text(name: str) -> None:
    """They are in a string, so no limit of the request counts them."""
    arguments = '{"a":[' + ",".join(["[]"] * 300_000) + "]}"
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    request = read_request(msgspec.json.encode({"model": "m", "input": [call]}), "", Limits())
    dialect, target = TARGETS[name]
    rendered = dialect.render(Plan(request=request, target=target, tools=identities_of(request)))
    assert "odd_arguments" in {each.code for each in rendered.diagnostics}
    data = encode(rendered.body)
    assert data.count(b"[]") == 300_000
    assert not has_more_values(data, 1000)


def test_an_error_does_not_list_every_tool() -> None:
    tools = [{"type": f"hosted{number}"} for number in range(1000)]
    body = {"model": "m", "input": "x", "tools": tools, "tool_choice": "required"}
    request = read_request(msgspec.json.encode(body), "", Limits())
    dialect, target = TARGETS["chat"]
    with pytest.raises(DecodeError) as refused:
        dialect.render(Plan(request=request, target=target, tools=identities_of(request)))
    assert len(str(refused.value)) < 1000


def test_diagnostics_of_one_code_are_counted_together_after_a_few() -> None:
    diagnostics = Diagnostics()
    for number in range(1000):
        diagnostics.report("unanswered_call", f"the call {number} has no output")
        diagnostics.report("orphan_output", "x" * 1_000_000)
    by_code = [each for each in diagnostics.entries if each.code == "unanswered_call"]
    assert len(by_code) < 20
    assert by_code[-1].message == OTHERS
    assert sum(each.count for each in by_code) == 1000
    assert sum(len(each.message) for each in diagnostics.entries) < 10_000


@pytest.mark.parametrize("word", ["word ", "line\n", "x", "水 "])
def test_a_long_text_has_as_many_tokens_in_pieces(word: str) -> None:
    short = word * (100_000 // len(word))
    assert abs(count("o200k_base", short * 4) - 4 * count("o200k_base", short)) <= 8
