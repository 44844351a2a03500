"""Reads reasoning and tool calls that a model writes as text. Opt-in per model; nothing is guessed.

A tag may be split across deltas, so the end of the text is held back while it could be the start of a tag.
Code, between backticks or in a fenced block, is always text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.dialects.plan import Plan
from penstock.lenient import object_of, parse_json, text_of
from penstock.stream.deltas import Delta, DiagnosticDelta, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.tools.families import family_of
from penstock.tools.identity import flat
from penstock.tools.jsontext import ObjectScanner

ParameterTypes = Mapping[str, Mapping[str, Any]]
"""The properties of each tool's schema, by the upstream's name of the tool."""


class Splitter:
    """Splits text into text, reasoning and calls."""

    def __init__(self, plan: Plan) -> None:
        quirks = plan.target.quirks
        self._think = ThinkTags() if quirks.think_tags else None
        self._tools = ToolMarkup(_parameter_types(plan)) if quirks.tool_markup else None

    @classmethod
    def for_plan(cls, plan: Plan) -> Splitter | None:
        """Return a splitter if the target's quirks need one."""
        quirks = plan.target.quirks
        return cls(plan) if quirks.think_tags or quirks.tool_markup else None

    def feed(self, text: str) -> list[Delta]:
        return self._through_tools(self._think.feed(text) if self._think else [TextDelta(text)])

    def flush(self) -> list[Delta]:
        """Return what is held back: something other than text follows, or the stream ends."""
        deltas = self._through_tools(self._think.flush() if self._think else [])
        return deltas + (self._tools.flush() if self._tools else [])

    def reasoning_is_separate(self) -> None:
        """Note that the upstream separates reasoning itself: the text does not start with reasoning."""
        if self._think is not None:
            self._think.decided = True

    def _through_tools(self, pieces: list[Delta]) -> list[Delta]:
        if self._tools is None:
            return pieces
        deltas: list[Delta] = []
        for piece in pieces:
            deltas += self._tools.feed(piece.text) if isinstance(piece, TextDelta) else [piece]
        return deltas


class _Code:
    """Tracks whether the current position of a Markdown text is inside code."""

    def __init__(self) -> None:
        self.inline = False
        self.fenced = False
        self.line_is_blank = True
        self._run = 0
        """Backticks at the end so far. Their meaning is known when the run of backticks ends."""
        self._run_starts_line = False

    def feed(self, text: str) -> None:
        for match in _MARKS.finditer(text):
            mark = match[0]
            if mark[0] == "`":
                self._run_starts_line = self._run_starts_line if self._run else self.line_is_blank
                self._run += len(mark)
                self.line_is_blank = False
                continue
            self.end_run()
            if mark == "\n":
                # Inline code ends with its line: a stray backtick must not hide every tag after it.
                self.inline, self.line_is_blank = False, True
            elif not mark.isspace():
                self.line_is_blank = False

    def end_run(self) -> None:
        """End a run of backticks: something else follows, such as a tag."""
        run, self._run = self._run, 0
        if run >= len("```") and self._run_starts_line:
            self.fenced = not self.fenced
        elif run:
            self.inline = not self.inline


_MARKS = re.compile(r"\n|[^\S\n]+|`+|[^`\s]+")


def _held_from(text: str, tags: tuple[str, ...]) -> int:
    """Return the offset from which the end of `text` could be the start of a tag."""
    for offset in range(max(0, len(text) - max(map(len, tags))), len(text)):
        if any(tag.startswith(text[offset:]) for tag in tags):
            return offset
    return len(text)


class ThinkTags:
    """Extracts reasoning from the text (quirk C28, ask C7).

    If the chat template has already written the opening tag, the text starts inside the reasoning, and only
    the closing tag shows it. So text that does not start with a tag is held until a closing tag, or something
    else, decides what it is: with this quirk, late text is better than text of the wrong kind.
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
        """Line breaks after a tag belong to the tag."""

    def feed(self, text: str) -> list[Delta]:
        text, self._rest = self._rest + text, ""
        deltas: list[Delta] = []
        position = 0
        for match in self._PATTERN.finditer(text):
            deltas += self._emit(text[position : match.start()])
            position = match.end()
            deltas += self._tag(match[0])
        held = position + _held_from(text[position:], self.TAGS)
        self._rest = text[held:]
        return deltas + self._emit(text[position:held])

    def flush(self) -> list[Delta]:
        deltas = self._decide(is_reasoning=False)
        rest, self._rest = self._rest, ""
        return deltas + self._emit(rest)

    def _tag(self, tag: str) -> list[Delta]:
        self._code.end_run()
        deltas: list[Delta] = []
        if tag.startswith("</"):
            if self._code.inline or (self.decided and not self._depth):
                return self._emit(tag)
            deltas = self._decide(is_reasoning=not self._depth)
            self._depth = max(0, self._depth - 1)
        else:
            # A tag in the middle of a line is mentioned, not used.
            if self._code.inline or (self._code.fenced and not self._depth) or not self._code.line_is_blank:
                return self._emit(tag)
            deltas = self._decide(is_reasoning=False)
            self._depth += 1
        self._after_tag = True
        self._code = _Code()
        return deltas

    def _emit(self, text: str) -> list[Delta]:
        """Return text as the current kind, or hold it until that is decided."""
        if self._after_tag:
            text = text.lstrip("\r\n")
        if not text:
            return []
        self._after_tag = False
        self._code.feed(text)
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
    """Extracts tool calls from the text (ask B13): `<tool_call>` around JSON, or `<function=…>`."""

    OPENERS: dict[str, str] = {"<tool_call>": "</tool_call>", "<function=": "</function>"}
    """The opening and closing tags of a call."""
    _PATTERN = re.compile("|".join(OPENERS))

    def __init__(self, types: ParameterTypes) -> None:
        self._types = types
        self._rest = ""
        self._code = _Code()
        self._blank: list[str] = []
        """White space at the end so far: it is text only if no call follows."""
        self._after_call = False
        self._opener = ""
        self._body: list[str] = []
        self._scanner = ObjectScanner()
        self._calls = 0

    def feed(self, text: str) -> list[Delta]:
        text, self._rest = self._rest + text, ""
        deltas: list[Delta] = []
        while text:
            consumed, more = self._read_call(text) if self._opener else self._read_text(text)
            deltas += more
            if not consumed:
                break
            text = text[consumed:]
        self._rest = text
        return deltas

    def flush(self) -> list[Delta]:
        rest, self._rest = self._rest, ""
        if self._opener:
            # The closing tag may have been a stop sequence, which upstreams do not send.
            self._body.append(rest)
            return self._call(closer="")
        deltas = self._text(rest)
        blank, self._blank = "".join(self._blank), []
        return [*deltas, TextDelta(blank)] if blank and not self._after_call else deltas

    def _read_text(self, text: str) -> tuple[int, list[Delta]]:
        """Read text up to the next call; return how many characters were consumed, and the deltas."""
        deltas: list[Delta] = []
        position = 0
        for match in self._PATTERN.finditer(text):
            deltas += self._text(text[position : match.start()])
            position = match.end()
            self._code.end_run()
            if not (self._code.inline or self._code.fenced):
                self._opener, self._body, self._scanner = match[0], [], ObjectScanner()
                return position, deltas
            deltas += self._text(match[0])
        held = position + _held_from(text[position:], tuple(self.OPENERS))
        return held, deltas + self._text(text[position:held])

    def _read_call(self, text: str) -> tuple[int, list[Delta]]:
        """Read the inside of a call, up to its closing tag."""
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
            unread = DiagnosticDelta(
                "tool_markup_unread", "a tool call in the text could not be parsed; it was sent as text"
            )
            return [unread, *self._text(opener + body + closer)]
        name, arguments = read
        self._calls += 1
        self._blank, self._after_call = [], True
        return [ToolCallDelta(key=f"markup {self._calls}", name=name, arguments=arguments, whole=True)]

    def _text(self, text: str) -> list[Delta]:
        self._code.feed(text)
        stripped = text.rstrip()
        blank, self._blank = self._blank, [text[len(stripped) :]]
        if not stripped:
            blank.append(text)
            self._blank = blank
            return []
        self._after_call = False
        return [TextDelta("".join(blank) + stripped)]


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
    """Convert a parameter to its type. All are written as plain text; only the schema has their types."""
    if type in (None, "string") or (isinstance(type, list) and "string" in type):
        return text
    try:
        return parse_json(text.strip())
    except ValueError:
        return text


def _parameter_types(plan: Plan) -> ParameterTypes:
    types: dict[str, Mapping[str, Any]] = {}
    for namespace, tool in flat(plan.request.tools or ()):
        family = family_of(tool)
        if family is not None:
            identity = plan.tools.declared(family.name(tool), namespace, family.type)
            name = family.name(tool) if identity is None else identity.upstream_name
            types.setdefault(name, object_of(family.declare(tool).parameters.get("properties")))
    return types
