"""Reasoning and tool calls that a model writes as text. Opt-in per model; nothing here guesses.

A tag may be split over deltas, so the end of the text is held back while it could be the beginning of one.
What stands in code, between backticks or in a fenced block, is text whatever it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.dialects.plan import Plan
from penstock.lenient import object_of, parse_json, text_of
from penstock.protocol.tools import FunctionTool, NamespaceTool, Tool
from penstock.stream.deltas import Delta, DiagnosticDelta, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.tools.jsontext import ObjectScanner

ParameterTypes = Mapping[str, Mapping[str, Any]]
"""The properties of each tool's schema, by the name that the upstream knows."""


class Splitter:
    """Text in; text, reasoning and calls out."""

    def __init__(self, plan: Plan) -> None:
        quirks = plan.target.quirks
        self._think = ThinkTags() if quirks.think_tags else None
        self._tools = ToolMarkup(_parameter_types(plan)) if quirks.tool_markup else None

    @classmethod
    def wanted_by(cls, plan: Plan) -> Splitter | None:
        quirks = plan.target.quirks
        return cls(plan) if quirks.think_tags or quirks.tool_markup else None

    def feed(self, text: str) -> list[Delta]:
        return self._through_tools(self._think.feed(text) if self._think else [TextDelta(text)])

    def flush(self) -> list[Delta]:
        """What is held back, because something else comes or because nothing does."""
        told = self._through_tools(self._think.flush() if self._think else [])
        return told + (self._tools.flush() if self._tools else [])

    def reasoning_came_apart(self) -> None:
        """The upstream tells reasoning and text apart itself: the text has no reasoning in front."""
        if self._think is not None:
            self._think.decided = True

    def _through_tools(self, pieces: list[Delta]) -> list[Delta]:
        if self._tools is None:
            return pieces
        told: list[Delta] = []
        for piece in pieces:
            told += self._tools.feed(piece.text) if isinstance(piece, TextDelta) else [piece]
        return told


class _Code:
    """Where in Markdown a text is, as far as tags are concerned."""

    def __init__(self) -> None:
        self.inline = False
        self.fenced = False
        self.line_is_blank = True
        self._run = 0
        """Backticks at the end so far. What they do is known when the run of them is over."""
        self._run_begins_line = False

    def pass_over(self, text: str) -> None:
        for match in _MARKS.finditer(text):
            mark = match[0]
            if mark[0] == "`":
                self._run_begins_line = self._run_begins_line if self._run else self.line_is_blank
                self._run += len(mark)
                self.line_is_blank = False
                continue
            self.end_run()
            if mark == "\n":
                # Code ends with its line: a stray backtick must not hide every tag behind it.
                self.inline, self.line_is_blank = False, True
            elif not mark.isspace():
                self.line_is_blank = False

    def end_run(self) -> None:
        """Something else than a backtick comes, such as a tag."""
        run, self._run = self._run, 0
        if run >= len("```") and self._run_begins_line:
            self.fenced = not self.fenced
        elif run:
            self.inline = not self.inline


_MARKS = re.compile(r"\n|[^\S\n]+|`+|[^`\s]+")


def _held_from(text: str, tags: tuple[str, ...]) -> int:
    """From where on `text` could be the beginning of a tag."""
    for place in range(max(0, len(text) - max(map(len, tags))), len(text)):
        if any(tag.startswith(text[place:]) for tag in tags):
            return place
    return len(text)


class ThinkTags:
    """Takes reasoning out of the text (quirk C28, ask C7).

    Where a chat template has already written the opening tag, the text begins in the middle of the reasoning
    and only the closing tag shows it. So text that does not begin with a tag waits until a closing tag, or
    something else, decides what it was: with this quirk on, the wrong kind is worse than late.
    """

    TAGS = ("<think>", "</think>", "<thinking>", "</thinking>", "<thought>", "</thought>")
    _PATTERN = re.compile("|".join(TAGS))

    def __init__(self) -> None:
        self.decided = False
        self._waiting: list[str] = []
        self._depth = 0
        self._rest = ""
        self._code = _Code()
        self._after_tag = False
        """Line breaks behind a tag belong to the tag."""

    def feed(self, text: str) -> list[Delta]:
        text, self._rest = self._rest + text, ""
        told: list[Delta] = []
        taken = 0
        for match in self._PATTERN.finditer(text):
            told += self._take(text[taken : match.start()])
            taken = match.end()
            told += self._tag(match[0])
        held = taken + _held_from(text[taken:], self.TAGS)
        self._rest = text[held:]
        return told + self._take(text[taken:held])

    def flush(self) -> list[Delta]:
        told = self._decide(is_reasoning=False)
        rest, self._rest = self._rest, ""
        return told + self._take(rest)

    def _tag(self, tag: str) -> list[Delta]:
        self._code.end_run()
        told: list[Delta] = []
        if tag.startswith("</"):
            if self._code.inline or (self.decided and not self._depth):
                return self._take(tag)
            told = self._decide(is_reasoning=not self._depth)
            self._depth = max(0, self._depth - 1)
        else:
            # A tag in the middle of a line is spoken of and not used.
            if self._code.inline or (self._code.fenced and not self._depth) or not self._code.line_is_blank:
                return self._take(tag)
            told = self._decide(is_reasoning=False)
            self._depth += 1
        self._after_tag = True
        self._code = _Code()
        return told

    def _take(self, text: str) -> list[Delta]:
        """Text of the kind that it is now."""
        if self._after_tag:
            text = text.lstrip("\r\n")
        if not text:
            return []
        self._after_tag = False
        self._code.pass_over(text)
        if self._depth:
            return [ReasoningDelta(text)]
        if self.decided:
            return [TextDelta(text)]
        self._waiting.append(text)
        return []

    def _decide(self, *, is_reasoning: bool) -> list[Delta]:
        waiting, self._waiting, self.decided = "".join(self._waiting), [], True
        if not waiting.strip():
            return []
        return [ReasoningDelta(waiting) if is_reasoning else TextDelta(waiting)]


class ToolMarkup:
    """Takes tool calls out of the text (ask B13): `<tool_call>` around JSON, or `<function=…>`."""

    OPENERS: dict[str, str] = {"<tool_call>": "</tool_call>", "<function=": "</function>"}
    """What begins a call, and what ends it."""
    _PATTERN = re.compile("|".join(OPENERS))

    def __init__(self, types: ParameterTypes) -> None:
        self._types = types
        self._rest = ""
        self._code = _Code()
        self._blank: list[str] = []
        """White space at the end so far: text only if no call follows."""
        self._after_call = False
        self._opener = ""
        self._body: list[str] = []
        self._scanner = ObjectScanner()
        self._calls = 0

    def feed(self, text: str) -> list[Delta]:
        text, self._rest = self._rest + text, ""
        told: list[Delta] = []
        while text:
            taken, more = self._gather(text) if self._opener else self._pass(text)
            told += more
            if not taken:
                break
            text = text[taken:]
        self._rest = text
        return told

    def flush(self) -> list[Delta]:
        rest, self._rest = self._rest, ""
        if self._opener:
            # The closing tag may have been a stop sequence, which upstreams leave out.
            self._body.append(rest)
            return self._call(closer="")
        told = self._text(rest)
        blank, self._blank = "".join(self._blank), []
        return [*told, TextDelta(blank)] if blank and not self._after_call else told

    def _pass(self, text: str) -> tuple[int, list[Delta]]:
        """Text up to the next call. Returns how much of it is dealt with."""
        told: list[Delta] = []
        taken = 0
        for match in self._PATTERN.finditer(text):
            told += self._text(text[taken : match.start()])
            taken = match.end()
            self._code.end_run()
            if not (self._code.inline or self._code.fenced):
                self._opener, self._body, self._scanner = match[0], [], ObjectScanner()
                return taken, told
            told += self._text(match[0])
        held = taken + _held_from(text[taken:], tuple(self.OPENERS))
        return held, told + self._text(text[taken:held])

    def _gather(self, text: str) -> tuple[int, list[Delta]]:
        """The inside of a call, up to the tag that ends it."""
        closer = self.OPENERS[self._opener]
        end = text.find(closer)
        if end < 0:
            held = _held_from(text, (closer,))
            self._add(text[:held])
            return held, []
        self._add(text[:end])
        if self._scanner.is_object and not self._scanner.ended:
            self._add(closer)  # inside a string of the JSON
            return end + len(closer), []
        return end + len(closer), self._call(closer)

    def _add(self, text: str) -> None:
        self._body.append(text)
        self._scanner.feed(text)

    def _call(self, closer: str) -> list[Delta]:
        opener, body, self._opener = self._opener, "".join(self._body), ""
        read = _read_json(body) if opener == "<tool_call>" else None
        if read is None:
            read = _read_function(body if opener == "<tool_call>" else opener + body, self._types)
        if read is None:
            unread = DiagnosticDelta("tool_markup_unread", "a tool call in the text could not be read")
            return [unread, *self._text(opener + body + closer)]
        name, arguments = read
        self._calls += 1
        self._blank, self._after_call = [], True
        return [ToolCallDelta(key=f"markup {self._calls}", name=name, arguments=arguments, whole=True)]

    def _text(self, text: str) -> list[Delta]:
        self._code.pass_over(text)
        shown = text.rstrip()
        before, self._blank = self._blank, [text[len(shown) :]]
        if not shown:
            before.append(text)
            self._blank = before
            return []
        self._after_call = False
        return [TextDelta("".join(before) + shown)]


def _read_json(body: str) -> tuple[str, Any] | None:
    try:
        call = object_of(parse_json(body))
    except ValueError:
        return None
    name = text_of(call.get("name"))
    arguments = call.get("arguments", call.get("parameters", {}))
    return (name, arguments if isinstance(arguments, str | dict) else {}) if name else None


_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>(.*?)(?:</function>\s*)?", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\s]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)


def _read_function(body: str, types: ParameterTypes) -> tuple[str, Any] | None:
    found = _FUNCTION.fullmatch(body)
    if found is None:
        return None
    properties = types.get(found[1], {})
    return found[1], {
        name: _typed(text, object_of(properties.get(name)).get("type"))
        for name, text in _PARAMETER.findall(found[2])
    }


def _typed(text: str, type: Any) -> Any:
    """Parameters are written bare. Only the tool's schema knows which of them are no strings."""
    if type in (None, "string") or (isinstance(type, list) and "string" in type):
        return text
    try:
        return parse_json(text.strip())
    except ValueError:
        return text


def _parameter_types(plan: Plan) -> ParameterTypes:
    types: dict[str, Mapping[str, Any]] = {}

    def gather(tools: Iterable[Tool], namespace: str | None) -> None:
        for tool in tools:
            if isinstance(tool, NamespaceTool):
                gather(tool.tools, tool.name if namespace is None else f"{namespace}.{tool.name}")
            elif isinstance(tool, FunctionTool):
                identity = plan.tools.declared(tool.name, namespace)
                name = tool.name if identity is None else identity.upstream_name
                types.setdefault(name, object_of(object_of(tool.parameters).get("properties")))

    gather(plan.request.tools or (), None)
    return types
