"""What a stream may contain in each accent (decision 1)."""

from __future__ import annotations

import pytest

from penstock.protocol.content import Annotation, FileCitation, UnknownAnnotation, UrlCitation
from penstock.protocol.events import (
    AnnotationAddedEvent,
    Event,
    HostedToolEvent,
    OutputItemEvent,
    UnknownEvent,
)
from penstock.protocol.items import (
    Compaction,
    CustomToolCall,
    Item,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
    UnknownItem,
    WebSearchCall,
)
from penstock.protocol.tools import (
    CustomTool,
    FunctionTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolSearchTool,
    UnknownTool,
    WebSearchTool,
)
from penstock.stream.accents import ACCENTS
from penstock.stream.permissions import ORDER, Permissions, includes

PATCH = CustomToolCall(call_id="c", name="patch")
SHELL = ShellCall(call_id="c", action={})


@pytest.mark.parametrize(
    ("item", "tool"),
    [
        (WebSearchCall(), WebSearchTool()),
        (WebSearchCall(), UnknownTool(type="web_search_20250305")),
        (WebSearchCall(), UnknownTool(type="acme:web_search")),
        (UnknownItem(type="code_interpreter_call"), UnknownTool(type="code_execution_20250825")),
        (UnknownItem(type="file_search_call"), UnknownTool(type="file_search")),
        (UnknownItem(type="mcp_list_tools"), UnknownTool(type="mcp")),
        (UnknownItem(type="mcp_approval_request"), UnknownTool(type="mcp")),
        (UnknownItem(type="computer_call"), UnknownTool(type="computer_use_preview")),
        (UnknownItem(type="acme:x_search_call"), UnknownTool(type="x_search")),
        (UnknownItem(type="shell_call_output"), ShellTool()),
        (ToolSearchCall(), ToolSearchTool()),
        (SHELL, ShellTool()),
        (PATCH, CustomTool(name="patch")),
        (PATCH, NamespaceTool(name="n", tools=[CustomTool(name="patch")])),
    ],
)
def test_a_strict_client_gets_the_items_of_the_tools_that_it_declared(item: Item, tool: Tool) -> None:
    assert Permissions("openresponses", [FunctionTool(name="f"), tool]).item(item)
    assert not Permissions("openresponses", [FunctionTool(name="f")]).item(item)


@pytest.mark.parametrize(
    ("item", "tool"),
    [
        (PATCH, CustomTool(name="other")),
        (PATCH, FunctionTool(name="patch")),
        (LocalShellCall(call_id="c", action={}), ShellTool()),
        (WebSearchCall(), UnknownTool(type="file_search")),
        (UnknownItem(type="acme:note"), WebSearchTool()),
    ],
)
def test_a_strict_client_does_not_get_the_items_of_other_tools(item: Item, tool: Tool) -> None:
    assert not Permissions("openresponses", [tool]).item(item)
    for accent in ("copilot", "openai"):
        assert Permissions(accent, [tool]).item(item)


@pytest.mark.parametrize(
    "item", [Compaction(encrypted_content="x"), UnknownItem(type="image_generation_call")]
)
def test_items_that_need_no_tool_are_always_permitted(item: Item) -> None:
    assert all(Permissions(accent, []).item(item) for accent in ORDER)


@pytest.mark.parametrize(
    ("annotation", "accents"),
    [
        (UrlCitation(url="https://e.org"), ("openresponses", "copilot", "openai")),
        (FileCitation(file_id="f"), ("copilot", "openai")),
        (UnknownAnnotation(type="container_file_citation"), ("copilot", "openai")),
        (UnknownAnnotation(type="file_path"), ("copilot", "openai")),
        (UnknownAnnotation(type="char_location"), ()),
    ],
)
def test_citations_have_the_types_of_the_accent(annotation: Annotation, accents: tuple[str, ...]) -> None:
    permitted = [accent for accent in ORDER if Permissions(accent, []).citation(annotation)]
    assert permitted == list(accents)


@pytest.mark.parametrize(
    ("event", "accents"),
    [
        (UnknownEvent(type="response.web_search_call.searching", extra={"output_index": 0}), ORDER[2:]),
        (HostedToolEvent(type="response.web_search_call.searching"), ORDER[2:]),
        (UnknownEvent(type="response.shell_call_command.added", extra={"output_index": 0}), ORDER),
        (UnknownEvent(type="response.rate_limits.updated", extra={}), ORDER),
        (OutputItemEvent(item=WebSearchCall()), ORDER[1:]),
        (AnnotationAddedEvent(annotation=FileCitation(file_id="f")), ORDER[1:]),
        (AnnotationAddedEvent(annotation=None), ()),
    ],
)
def test_each_accent_permits_some_events(event: Event, accents: tuple[str, ...]) -> None:
    assert [accent for accent in ORDER if Permissions(accent, []).event(event)] == list(accents)


def test_each_accent_includes_the_stricter_ones() -> None:
    assert set(ORDER) == set(ACCENTS)
    assert includes("openai", "openresponses")
    assert includes("copilot", "copilot")
    assert not includes("openresponses", "copilot")
    assert not includes("copilot", "openai")
