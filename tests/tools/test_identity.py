from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.items import FunctionCall, ShellCall
from penstock.protocol.tools import (
    AllowedTools,
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolReference,
    ToolSearchTool,
    UnknownTool,
    WebSearchTool,
)
from penstock.tools.identity import ToolIdentityMap

declared_names = st.text(max_size=80) | st.sampled_from(
    ["search", "se arch", "se.arch", "shell", "2fa", "a" * 64, "a" * 70]
)
typed_tools: st.SearchStrategy[Tool] = st.sampled_from(
    [LocalShellTool(), ShellTool(), ApplyPatchTool(), ToolSearchTool(execution="client")]
)


@st.composite
def declared_tools(draw: st.DrawFn) -> list[Tool]:
    flat: list[Tool] = draw(
        st.lists(
            st.builds(FunctionTool, name=declared_names)
            | st.builds(CustomTool, name=declared_names)
            | typed_tools,
            max_size=8,
        )
    )
    spaces = draw(st.lists(declared_names, max_size=3))
    return [
        *flat,
        *(NamespaceTool(name=name, tools=[FunctionTool(name=draw(declared_names))]) for name in spaces),
    ]


@given(declared_tools())
def test_the_map_is_a_bijection_with_valid_upstream_names(tools: list[Tool]) -> None:
    identities = ToolIdentityMap(tools)
    upstream_names = [identity.upstream_name for identity in identities]
    assert len(set(upstream_names)) == len(upstream_names)
    for identity in identities:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", identity.upstream_name)
        assert identities.called(identity.upstream_name) == identity
        assert identities.declared(identity.name, identity.namespace, identity.type) == identity
    assert list(ToolIdentityMap(tools)) == list(identities)


@given(declared_tools(), st.data())
def test_only_the_beginning_of_a_declared_name_may_grow(tools: list[Tool], data: st.DataObject) -> None:
    identities = ToolIdentityMap(tools)
    names = {identity.upstream_name for identity in identities}
    for name in names:
        piece = name[: data.draw(st.integers(1, len(name)))]
        assert identities.may_grow(piece) == (piece not in names)
        assert not identities.may_grow(name + "!")


def test_a_namespace_is_flattened_and_restored() -> None:
    identities = ToolIdentityMap(
        [
            NamespaceTool(name="mcp__docs", tools=[FunctionTool(name="search")]),
            NamespaceTool(name="mcp__git", tools=[FunctionTool(name="search"), CustomTool(name="commit")]),
            FunctionTool(name="search"),
        ]
    )
    docs = identities.called("mcp__docs__search")
    assert docs is not None
    assert (docs.namespace, docs.name) == ("mcp__docs", "search")
    assert identities.called("search", "mcp__git") == identities.called("mcp__git__search")
    commit = identities.called("mcp__git__commit")
    assert commit is not None
    assert commit.type == "custom"
    assert identities.called("commit") is None


def test_of_two_declarations_with_one_name_the_first_counts() -> None:
    identities = list(ToolIdentityMap([CustomTool(name="patch"), FunctionTool(name="patch")]))
    assert [(identity.type, identity.upstream_name) for identity in identities] == [("custom", "patch")]


def test_names_with_the_same_upstream_form_get_numbers() -> None:
    tools: list[Tool] = [FunctionTool(name=name) for name in ("a.b", "a b", "a_b", "", "x" * 70, "x" * 71)]
    names = [identity.upstream_name for identity in ToolIdentityMap(tools)]
    assert names[:4] == ["a_b", "a_b_2", "a_b_3", "tool"]
    assert len(set(names)) == 6


def test_a_hosted_tool_has_no_identity_and_is_known_by_its_name() -> None:
    tools: list[Tool] = [
        UnknownTool(type="web_search_preview_2025_03_11"),
        UnknownTool(type="acme:lookup", name="look_up"),
        ShellTool(environment={"type": "container_auto"}),
    ]
    identities = ToolIdentityMap(tools)
    assert list(identities) == []
    for name in ("web_search", "web_search_preview", "web_search_preview_2025_03_11", "look_up", "shell"):
        assert identities.is_hosted(name)
    assert not identities.is_hosted("local_shell")


def test_a_typed_tool_and_a_function_with_its_name_are_two_tools() -> None:
    identities = ToolIdentityMap([FunctionTool(name="shell"), ShellTool(), ShellTool()])
    assert [(each.type, each.upstream_name) for each in identities] == [
        ("function", "shell"),
        ("shell", "shell_2"),
    ]
    assert identities.upstream_name_of(ShellCall(call_id="a", action={})) == "shell_2"
    assert identities.upstream_name_of(FunctionCall(call_id="a", name="shell")) == "shell"


def test_the_name_of_an_undeclared_earlier_call_is_made_valid() -> None:
    identities = ToolIdentityMap()
    call = FunctionCall(call_id="a", name="2 fa" * 30, namespace="n.s")
    assert identities.upstream_name_of(call) == ("n_s__" + "2_fa" * 30)[:64]
    assert identities.upstream_name_of(FunctionCall(call_id="a", name="2fa")) == "_2fa"


def test_the_tools_of_a_search_have_the_names_of_the_map() -> None:
    found: list[Tool] = [NamespaceTool(name="n", tools=[FunctionTool(name="a b")]), WebSearchTool()]
    assert ToolIdentityMap([FunctionTool(name="n__a_b"), *found]).upstream_names(found) == ["n__a_b_2"]


def test_the_tool_choice_limits_what_the_model_may_call() -> None:
    tools: list[Tool] = [
        FunctionTool(name="a"),
        CustomTool(name="b"),
        NamespaceTool(name="n", tools=[FunctionTool(name="a")]),
    ]

    def allowed(choice: object) -> list[str]:
        identities = ToolIdentityMap(tools, choice)  # type: ignore[arg-type]
        return [identity.upstream_name for identity in identities if identities.allows(identity)]

    function_a = ToolReference(type="function", name="a")
    assert allowed("auto") == allowed("required") == allowed(function_a) == ["a", "b", "n__a"]
    assert allowed("none") == allowed(AllowedTools(tools=[function_a], mode="none")) == []
    assert allowed(AllowedTools(tools=[function_a])) == ["a", "n__a"]
    in_namespace = ToolReference(type="function", name="a", namespace="n")
    assert allowed(AllowedTools(tools=[in_namespace])) == ["n__a"]
    assert allowed(AllowedTools(tools=[ToolReference(type="custom", name="b")])) == ["b"]
    tools.append(ShellTool())
    assert allowed(AllowedTools(tools=[ToolReference(type="shell")])) == ["shell"]
