"""Choose the tools that a prompt asks for, and make their arguments."""

from __future__ import annotations

import json
from hashlib import sha256

from msgspec import Struct

from penstock.demo.hints import Hints, words_of
from penstock.demo.request import DemoRequest, DemoTool
from penstock.demo.schema import make

MAX_CALLS = 8
MAX_VALUE = 200_000
"""Characters of a value made for a schema; a schema can ask for any length."""
_MAX_TITLE = 300
_MAX_DESCRIPTION = 300
"""Characters of a description that are compared with the prompt."""
_MIN_WORDS = 2
"""Words of a description that must be in the prompt. A single word would match too often."""

_FEW_TOOLS = 20
"""With more tools than this, as in an editor's agent, most prompts contain a word of some tool's name.
Then only a complete name selects a tool."""

_COMMON_WORDS = """
a about add all an and any are as at be by call can create current data do find for from function get give
given has have help how if in into is it its list look make me mcp more my new of on one or please read return
returns run set show some tell tells that the their them then there this to tool tools up update use used
user using value want was what when where which will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that do not show which tool is meant."""


class DemoCall(Struct, frozen=True):
    id: str
    name: str
    arguments: str
    custom: bool = False
    problem: str = ""
    """Why the arguments may not match the schema."""


def calls_for(request: DemoRequest, hints: Hints) -> list[DemoCall]:
    tools = _choose_tools(request, hints)
    if not request.parallel_calls:
        tools = tools[:1]
    if request.max_calls is not None:
        tools = tools[: max(0, request.max_calls)]
    return [_call(request, tool, index, hints) for index, tool in enumerate(tools[:MAX_CALLS])]


def _choose_tools(request: DemoRequest, hints: Hints) -> list[DemoTool]:
    if request.has_result or request.tool_mode == "none":
        return []
    if request.tool_mode == "tool":
        return [tool for tool in request.tools if tool.name == request.tool_name]
    found = _named(request.tools, hints)
    if not found and len(request.tools) <= _FEW_TOOLS:
        found = _described(request.tools, hints)
    return found or (request.tools[:1] if request.tool_mode == "required" else [])


def _named(tools: list[DemoTool], hints: Hints) -> list[DemoTool]:
    """Return the tools that the prompt names, in the order of the prompt.

    A complete name always counts. Among a few tools, a single word of the name counts too, if it is not a
    common one.
    """
    prompt = f" {' '.join(words_of(hints.prompt))} "
    places: list[tuple[int, DemoTool]] = []
    for tool in tools:
        words = words_of(tool.title[:_MAX_TITLE])
        complete = [prompt.find(f" {' '.join(words)} ")] if words else []
        single = [word for word in words if word not in _COMMON] if len(tools) <= _FEW_TOOLS else []
        partial = [prompt.find(f" {form} ") for word in single for form in _forms(word)]
        if found := [place for place in (*complete, *partial) if place >= 0]:
            places.append((min(found), tool))
    return [tool for _, tool in sorted(places, key=lambda found: found[0])]


def _described(tools: list[DemoTool], hints: Hints) -> list[DemoTool]:
    """Return the tool whose description shares the most words with the prompt."""
    best, most = None, _MIN_WORDS - 1
    for tool in tools:
        words = {word for word in words_of(tool.description[:_MAX_DESCRIPTION]) if len(word) > 3} - _COMMON
        score = sum(1 for word in words if hints.words & _forms(word))
        if score > most:
            best, most = tool, score
    return [best] if best else []


def _forms(word: str) -> set[str]:
    """Return the singular and plural of a word."""
    return {word, f"{word}s", word.removesuffix("s")} if len(word) > 2 else {word}


def _call(request: DemoRequest, tool: DemoTool, index: int, hints: Hints) -> DemoCall:
    id = _call_id(request, index)
    if tool.custom:
        text = hints.quoted[0] if hints.quoted else request.prompt[:MAX_VALUE]
        return DemoCall(id, tool.name, text, custom=True)
    made = make(tool.parameters, hints)
    arguments = made.value if isinstance(made.value, dict) else {}
    written = json.dumps(arguments, ensure_ascii=False)
    problem = made.problem
    if len(written) > MAX_VALUE:
        problem, written = "the arguments would be too long", "{}"
    if problem:
        problem = f"the arguments may not match the schema of {tool.title[:_MAX_TITLE]!r}: {problem}"
    return DemoCall(id, tool.name, written, problem=problem)


def _call_id(request: DemoRequest, index: int) -> str:
    """Return an id that is unique in the conversation and the same whenever the request is repeated."""
    seed = f"{len(request.turns)} {index} {request.prompt}"
    return f"call_{sha256(seed.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
