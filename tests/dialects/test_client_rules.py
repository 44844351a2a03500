"""What a client may not receive becomes the nearest thing that it may, or a diagnostic (decision 1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.dialects.client_rules import ClientRules, with_permitted_citations
from penstock.dialects.plan import Plan, Target
from penstock.dialects.registry import dialect
from penstock.dialects.responses.reader import ResponsesReader
from penstock.dialects.toolset import identities_of
from penstock.protocol.content import Annotation, FileCitation, OutputText, UnknownAnnotation, UrlCitation
from penstock.protocol.items import Item, Message, ShellCall, ToolSearchCall, UnknownItem, WebSearchCall
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.tools import (
    CustomTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolSearchTool,
    UnknownTool,
    WebSearchTool,
)
from penstock.protocol.wire import read, to_builtins
from penstock.sse import Frame
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    EventDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    TextDelta,
    ToolCallDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.permissions import ORDER, Permissions
from tests.dialects.recordings import FOLDERS, files, frames, needs_recordings, plan_for, translate
from tests.dialects.responses.stream_events import added, completed, custom, done
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import NOW, end, violations

SEARCHING = "response.web_search_call.searching"


def plan(accent: str, tools: list[Tool]) -> Plan:
    request = CreateResponse(model="m", tools=tools)
    return Plan(request=request, target=Target(model="m"), tools=identities_of(request), accent=accent)


def run(
    deltas: list[Delta], *tools: Tool, accent: str = "openresponses", ending: str = "finish"
) -> dict[str, Any]:
    """Return the last snapshot of these deltas, in the accent; check the stream in every accent that may
    read it."""
    made = plan(accent, list(tools))
    machine = ResponseStreamStateMachine(
        response_for(made.request, id="resp_1", created_at=NOW), clock=lambda: NOW, tools=made.tools
    )
    rules = ClientRules(made)
    events = machine.start()
    for delta in deltas:
        for permitted in rules.apply([delta]):
            events += machine.apply(permitted)
    for permitted in rules.apply([FinishDelta(FinishReason.STOP)]):
        events += machine.apply(permitted)
    events += end(machine, ending)
    permissions = Permissions(accent, made.request.tools or [])
    assert all(map(permissions.event, events))
    for reader in ORDER[ORDER.index(accent) :]:
        assert violations(events, reader) == []
    response: dict[str, Any] = to_builtins(ACCENTS[accent]()(events[-1]))["response"]
    return response


def diagnostics(response: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["code"], each["count"]) for each in response.get("diagnostics", [])]


def of_item(item: Item, event: str = SEARCHING) -> list[Delta]:
    return [ItemDelta(0, item, done=False), EventDelta(event, {}, key=0), ItemDelta(0, item, done=True)]


# Items of tools that the vendor runs


def test_an_item_that_the_client_did_not_ask_for_is_left_out_with_a_diagnostic() -> None:
    response = run([*of_item(WebSearchCall(action={"query": "q"})), TextDelta("x")])
    assert [item["type"] for item in response["output"]] == ["message"]
    assert diagnostics(response) == [("undeclared_item", 1)]
    assert "'web_search_call'" in response["diagnostics"][0]["message"]


def test_an_item_that_the_client_asked_for_has_its_vendors_prefix() -> None:
    response = run(of_item(WebSearchCall()), WebSearchTool())
    assert [item["type"] for item in response["output"]] == ["openai:web_search_call"]
    assert diagnostics(response) == []


def test_an_image_is_always_delivered() -> None:
    image = UnknownItem(type="image_generation_call", extra={"result": "iVBO"})
    response = run([ItemDelta(0, image, done=True)])
    assert [item["type"] for item in response["output"]] == ["openai:image_generation_call"]


@pytest.mark.parametrize("accent", ["copilot", "openai"])
def test_other_clients_get_items_that_they_did_not_declare(accent: str) -> None:
    response = run(of_item(WebSearchCall()), accent=accent)
    assert [item["type"] for item in response["output"]] == ["web_search_call"]


@pytest.mark.parametrize(("accent", "passed"), [("openresponses", 0), ("copilot", 0), ("openai", 1)])
def test_events_of_a_hosted_tool_are_sent_in_the_openai_accent_only(accent: str, passed: int) -> None:
    rules = ClientRules(plan(accent, [WebSearchTool()]))
    events = [each for each in rules.apply(of_item(WebSearchCall())) if isinstance(each, EventDelta)]
    assert len(events) == passed


def test_events_of_a_declared_tool_are_sent_in_every_accent() -> None:
    deltas = of_item(ShellCall(call_id="c", action={}), "response.shell_call_command.added")
    for accent in ORDER:
        assert ClientRules(plan(accent, [ShellTool()])).apply(deltas) == deltas


def test_events_without_an_item_are_passed_on() -> None:
    delta = EventDelta("response.rate_limits.updated", {})
    assert ClientRules(plan("openresponses", [])).apply([delta]) == [delta]


# Calls that the client could run


def test_a_call_to_an_undeclared_tool_becomes_a_function_call() -> None:
    shell = ShellCall(call_id="call_1", action={"commands": ["ls"]})
    response = run(of_item(shell, "response.shell_call_command.added"))
    (call,) = response["output"]
    assert (call["type"], call["name"], call["call_id"]) == ("function_call", "shell", "call_1")
    assert json.loads(call["arguments"]) == {"commands": ["ls"]}
    assert diagnostics(response) == [("undeclared_tool", 1)]


def test_a_call_that_was_cut_off_stays_incomplete() -> None:
    shell = ShellCall(call_id="call_1", action={"commands": ["rm"]})
    response = run([ItemDelta(0, shell, done=False)], ending="fail")
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("function_call", "incomplete")
    ]


@pytest.mark.parametrize(
    ("execution", "tools", "expected"),
    [
        ("server", [], []),
        ("client", [], ["function_call"]),
        ("server", [ToolSearchTool()], ["openai:tool_search_call"]),
        ("client", [ToolSearchTool(execution="client")], ["tool_search_call"]),
        (None, [ToolSearchTool()], ["openai:tool_search_call"]),
        (None, [ToolSearchTool(execution="client")], ["tool_search_call"]),
    ],
)
def test_a_search_for_tools_depends_on_who_runs_it(
    execution: str | None, tools: list[Tool], expected: list[str]
) -> None:
    search = ToolSearchCall(call_id="call_1", arguments={"query": "q"})
    search = replace(search, execution=execution) if execution else search
    response = run([ItemDelta(0, search, done=True)], *tools)
    assert [item["type"] for item in response["output"]] == expected


CALL: dict[str, Any] = {"key": 0, "id": "call_1", "type": "custom"}


@pytest.mark.parametrize(
    "deltas",
    [
        [ToolCallDelta(**CALL, name="patch", arguments='a"\n', whole=True)],
        [ToolCallDelta(**CALL, name="patch"), ToolCallDelta(**CALL, arguments='a"\n', whole=True)],
        [
            ToolCallDelta(**CALL, name="patch", arguments="a"),
            ToolCallDelta(key=0, type="custom", arguments='"\n'),
            ToolCallDelta(key=0, type="custom", whole=True),
        ],
        [
            ToolCallDelta(key=0, type="custom", arguments='a"'),
            ToolCallDelta(**CALL, name="patch", arguments='a"\n', whole=True),
        ],
        [  # without an end
            ToolCallDelta(**CALL, name="patch", arguments="a"),
            ToolCallDelta(key=0, type="custom", arguments='"\n'),
        ],
    ],
)
def test_an_undeclared_custom_call_becomes_a_function_call(deltas: list[Delta]) -> None:
    response = run(deltas)
    (call,) = response["output"]
    assert (call["type"], call["name"], call["call_id"]) == ("function_call", "patch", "call_1")
    assert json.loads(call["arguments"]) == {"input": 'a"\n'}
    assert diagnostics(response) == [("undeclared_tool", 1)]
    for tool in (CustomTool(name="patch"), NamespaceTool(name="n", tools=[CustomTool(name="patch")])):
        assert ClientRules(plan("openai", [tool])).apply(deltas) == deltas
    (call,) = run(deltas, CustomTool(name="patch"))["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", 'a"\n')


def test_an_undeclared_custom_call_that_an_upstream_repeats_is_a_repeat_for_every_client() -> None:
    """The repeat has another item id, as some gateways send it (ask B4)."""
    call, again = custom("a"), custom("a", id="other")
    sent = [added(0, call), done(0, call), added(1, again), done(1, again), completed(call, again)]
    for accent in ORDER:
        reader = ResponsesReader(plan(accent, []))
        deltas = [delta for event in sent for delta in reader.feed(Frame(None, json.dumps(event)))]
        found = dict(diagnostics(run(deltas, accent=accent)))
        assert found == {"undeclared_tool": 1, "repeated_call": 1}, accent


@pytest.mark.parametrize(("whole", "expected"), [(None, ""), ({"a": 1}, {"a": 1})])
def test_an_undeclared_custom_call_without_text(whole: Any, expected: Any) -> None:
    (call,) = run([ToolCallDelta(**CALL, name="patch", arguments=whole, whole=True)])["output"]
    assert json.loads(call["arguments"]) == ({"input": ""} if expected == "" else expected)


def test_a_call_that_never_has_a_name_is_reported() -> None:
    rules = ClientRules(plan("openresponses", []))
    piece = ToolCallDelta(key=0, type="custom", arguments="x")
    finish = FinishDelta(FinishReason.LENGTH)
    assert rules.apply([piece]) == []
    assert rules.apply([finish]) == [replace(piece, type=None), finish]


# Citations

PAGE = UnknownAnnotation(type="page", extra={"url": "https://e.org/b", "title": "B", "end_index": 1})
RESULT = UnknownAnnotation(type="search_result_location", extra={"source": "https://e.org/c", "title": 1})
CITATIONS: list[Annotation] = [
    FileCitation(file_id="f"),
    UrlCitation(url="https://e.org/a"),
    UnknownAnnotation(type="char_location", extra={"source": "a document"}),
    PAGE,
    RESULT,
]


@pytest.mark.parametrize(
    ("accent", "types", "lost"),
    [
        ("openresponses", ["url_citation"] * 3, 2),
        ("openai", ["file_citation", "url_citation", "url_citation", "url_citation"], 1),
        ("copilot", ["file_citation", "url_citation", "url_citation", "url_citation"], 1),
    ],
)
def test_citations_are_of_types_that_the_client_knows_and_lost_ones_are_counted(
    accent: str, types: list[str], lost: int
) -> None:
    deltas: list[Delta] = [TextDelta("x"), *(AnnotationDelta(each) for each in CITATIONS)]
    response = run(deltas, accent=accent)
    annotations = response["output"][0]["content"][0]["annotations"]
    assert [each["type"] for each in annotations] == types
    assert (annotations[-2]["url"], annotations[-2]["title"], annotations[-2]["end_index"]) == (
        "https://e.org/b",
        "B",
        1,
    )
    assert (annotations[-1]["url"], annotations[-1]["title"]) == ("https://e.org/c", "")
    assert diagnostics(response) == [("citation_left_out", lost)]


def test_a_whole_response_of_another_accent_has_only_permitted_citations() -> None:
    message = Message(id="msg_1", role="assistant", content=[OutputText(text="x", annotations=CITATIONS)])
    made = response_for(CreateResponse(model="m"), id="resp_1", created_at=NOW)
    made = replace(made, output=[message, WebSearchCall(id="ws_1")])
    strict = to_builtins(with_permitted_citations(made, "openresponses"))
    annotations = strict["output"][0]["content"][0]["annotations"]
    assert [each["url"] for each in annotations] == [f"https://e.org/{name}" for name in "abc"]
    assert diagnostics(strict) == [("citation_left_out", 2)]
    assert with_permitted_citations(replace(made, output=[]), "openresponses") == replace(made, output=[])


# For every input

TOOL_SETS = st.lists(
    st.sampled_from(
        [
            WebSearchTool(),
            ShellTool(),
            CustomTool(name="patch"),
            CustomTool(name="other"),
            UnknownTool(type="mcp"),
            *strategies.TOOLS,
        ]
    ),
    max_size=3,
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(strategies.deltas, max_size=20), TOOL_SETS, st.sampled_from(ORDER), strategies.ENDINGS)
def test_whatever_the_upstream_sends_the_stream_contains_only_what_its_accent_permits(
    deltas: list[Delta], tools: list[Tool], accent: str, ending: str
) -> None:
    run(deltas, *tools, accent=accent, ending=ending)


DECLARED: list[Tool] = [
    read(each, UnknownTool)
    for each in (
        {"type": "file_search"},
        {"type": "code_interpreter"},
        {"type": "mcp", "server_label": "s"},
        {"type": "computer_use_preview"},
    )
]


@needs_recordings
@pytest.mark.parametrize("file", files(FOLDERS["responses"]))
def test_a_recording_is_lawful_for_a_strict_client_with_and_without_its_tools(file: str) -> None:
    without = plan_for(file, "responses")
    declared: list[Tool] = [
        *(without.request.tools or []),
        *(WebSearchTool(), ShellTool(), ToolSearchTool(), *DECLARED),
    ]
    request = replace(without.request, tools=declared)
    with_tools = replace(without, request=request, tools=identities_of(request))
    for given_plan in (without, with_tools):
        translate(dialect("responses"), replace(given_plan, accent="openresponses"), frames(file))
