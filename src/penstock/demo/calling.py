"""Which tools a prompt calls for, and what they are called with."""

from __future__ import annotations

import json
from hashlib import sha256

from msgspec import Struct

from penstock.demo.request import DemoRequest, DemoTool
from penstock.demo.schema.hints import Hints, words_of
from penstock.demo.schema.making import make

MOST_CALLS = 8
LONGEST_ANSWER = 200_000
"""Characters of a value that is made for a schema, which may hold or ask for any."""
_TITLE = 300
_DESCRIPTION = 300
"""Characters of a description that are compared: where a tool is told apart from the others."""
_ENOUGH_WORDS = 2
"""Words of a description that must be in the prompt: one is in every prompt."""

_FEW = 20
"""With more tools than these, as an editor's agent has, some word of theirs is in every prompt: then only the
whole name of one counts."""

_COMMON_WORDS = """
a about add all an and any are as at be by call can create current data do find for from function get give
given has have help how if in into is it its list look make me mcp more my new of on one or please read return
returns run set show some tell tells that the their them then there this to tool tools up update use used
user using value want was what when where which will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that tell nothing about which tool is meant."""


class DemoCall(Struct, frozen=True):
    id: str
    name: str
    arguments: str
    custom: bool = False
    problem: str = ""
    """What is not as it should be about the arguments."""


def calls_for(request: DemoRequest, hints: Hints) -> list[DemoCall]:
    tools = _called_for(request, hints)
    if not request.parallel_calls:
        tools = tools[:1]
    if request.max_calls is not None:
        tools = tools[: max(0, request.max_calls)]
    return [_call(request, tool, index, hints) for index, tool in enumerate(tools[:MOST_CALLS])]


def _called_for(request: DemoRequest, hints: Hints) -> list[DemoTool]:
    if request.has_result or request.tool_mode == "none":
        return []
    if request.tool_mode == "tool":
        return [tool for tool in request.tools if tool.name == request.tool_name]
    found = _named(request.tools, hints)
    if not found and len(request.tools) <= _FEW:
        found = _described(request.tools, hints)
    return found or (request.tools[:1] if request.tool_mode == "required" else [])


def _named(tools: list[DemoTool], hints: Hints) -> list[DemoTool]:
    """The tools whose names are in the prompt, in the order in which it speaks of them.

    The whole name is enough, whatever its words; else, among a few tools, a word of it that is not every
    tool's.
    """
    prompt = f" {' '.join(words_of(hints.prompt))} "
    places: list[tuple[int, DemoTool]] = []
    for tool in tools:
        words = words_of(tool.title[:_TITLE])
        whole = [prompt.find(f" {' '.join(words)} ")] if words else []
        single = [word for word in words if word not in _COMMON] if len(tools) <= _FEW else []
        telling = [prompt.find(f" {form} ") for word in single for form in _forms(word)]
        if found := [place for place in (*whole, *telling) if place >= 0]:
            places.append((min(found), tool))
    return [tool for _, tool in sorted(places, key=lambda found: found[0])]


def _described(tools: list[DemoTool], hints: Hints) -> list[DemoTool]:
    """The one tool whose description has most of the prompt's words."""
    best, most = None, _ENOUGH_WORDS - 1
    for tool in tools:
        words = {word for word in words_of(tool.description[:_DESCRIPTION]) if len(word) > 3} - _COMMON
        score = sum(1 for word in words if hints.words & _forms(word))
        if score > most:
            best, most = tool, score
    return [best] if best else []


def _forms(word: str) -> set[str]:
    """One and many."""
    return {word, f"{word}s", word.removesuffix("s")} if len(word) > 2 else {word}


def _call(request: DemoRequest, tool: DemoTool, index: int, hints: Hints) -> DemoCall:
    id = _call_id(request, index)
    if tool.custom:
        written = hints.quoted[0] if hints.quoted else request.prompt[:LONGEST_ANSWER]
        return DemoCall(id, tool.name, written, custom=True)
    made = make(tool.parameters, hints)
    arguments = made.value if isinstance(made.value, dict) else {}
    written = json.dumps(arguments, ensure_ascii=False)
    fits = made.fits and len(written) <= LONGEST_ANSWER
    problem = "" if fits else f"no arguments were found that fit the schema of {tool.title[:_TITLE]!r}"
    return DemoCall(id, tool.name, written if len(written) <= LONGEST_ANSWER else "{}", problem=problem)


def _call_id(request: DemoRequest, index: int) -> str:
    """Another one for every call of a conversation, and the same one for the same request."""
    seed = f"{len(request.turns)} {index} {request.prompt}"
    return f"call_{sha256(seed.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
