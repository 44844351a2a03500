"""The demo model's texts: markdown of every common kind, about the message itself.

The same request always gets the same answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import islice
from zlib import crc32

from penstock.demo.request import DemoRequest, DemoTurn
from penstock.demo.wishes import MAX_WORDS, Wishes

_MAX_EXCERPT = 80
_MAX_QUOTE = 4000
"""Characters of a tool's output, or of instructions, that are quoted."""
_MAX_QUOTES = 32
"""Outputs, instructions, images and memories in an answer, so that it does not grow with the request."""
_WORD = re.compile(r"[^\W_]+")
_GREETING = re.compile(r"\s*(?:hello|hi|hey|good (?:morning|evening|day))\b", re.IGNORECASE)

_OFFER = (
    "Also try: “count from 1 to 5”, “think about it”, “wait 3 seconds”, “fail in the middle”, “be silent”; "
    "or declare a tool and ask for what it does."
)

_SENTENCE = """
water runs where the land lets it and the gate decides how much of it may pass while the wheel below turns
slow or fast without a care for the river that it came from
"""
_FILLER = _SENTENCE.split()


def answer(request: DemoRequest, wishes: Wishes) -> str:
    """Return the text of the answer."""
    if wishes.exactly is not None:
        return wishes.exactly
    if wishes.counts is not None:
        return counted(*wishes.counts)
    if wishes.words:
        return filled(wishes.words)
    if wishes.quotes_instructions:
        return _instructions(request)
    if request.has_result:
        return _results(request)
    return _about(request)


def counted(first: int, last: int) -> str:
    step = 1 if last >= first else -1
    numbers = range(first, last + step, step)[:MAX_WORDS]
    return ", ".join(map(str, numbers)) + "."


def filled(count: int) -> str:
    """Return exactly this many words, in sentences and paragraphs."""
    words: list[str] = []
    for number in range(count):
        word = _FILLER[number % len(_FILLER)]
        sentence_ends = number % 12 == 11 or number == count - 1
        words.append((word.capitalize() if number % 12 == 0 else word) + ("." if sentence_ends else ""))
    paragraphs = [" ".join(words[start : start + 60]) for start in range(0, count, 60)]
    return "\n\n".join(paragraphs)


def excerpt(text: str, length: int = _MAX_EXCERPT) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.lstrip()[: length * 4].split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def quoted(text: str) -> str:
    shown = text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 1] + "…"
    return "\n".join(f"> {line}".rstrip() for line in shown.splitlines() or [""])


def _instructions(request: DemoRequest) -> str:
    later = [turn.text for turn in request.turns if turn.role == "system" and turn.text]
    instructions = [*request.instructions, *later][:_MAX_QUOTES]
    if not instructions:
        return "I was given no instructions."
    return "My instructions are:\n\n" + "\n\n".join(map(quoted, instructions))


def _results(request: DemoRequest) -> str:
    """Quote the tool outputs, which shows that the model received them."""
    paragraphs: list[str] = []
    outputs = _last_outputs(request.turns)
    for turn in outputs[:_MAX_QUOTES]:
        named = f"The tool `{excerpt(turn.tool)}`" if turn.tool else "The tool"
        if turn.text or not turn.media:
            paragraphs += [f"{named} says:", quoted(turn.text or "(nothing)")]
        paragraphs += [f"{named} gave me {each}." for each in turn.media[:_MAX_QUOTES]]
    if len(outputs) > _MAX_QUOTES:
        paragraphs.append(f"There are {len(outputs) - _MAX_QUOTES} more outputs.")
    return "\n\n".join(paragraphs) or "The tool says nothing."


def _last_outputs(turns: Sequence[DemoTurn]) -> list[DemoTurn]:
    """Return the tool outputs at the end. An output without a known call arrives as a user message."""
    outputs: list[DemoTurn] = []
    for turn in reversed(turns):
        if turn.role == "system":
            continue
        if turn.role != "tool":
            return outputs[::-1] or [turn]
        outputs.append(turn)
    return outputs[::-1]


def _about(request: DemoRequest) -> str:
    prompt = request.prompt
    if request.verbosity == "low":
        return _echo(prompt)
    sections = [_heading(prompt), _greeting(prompt), _facts(request)]
    draw = crc32(prompt.encode("utf-8", "surrogatepass"))
    if request.verbosity == "high" or draw % 3 == 0:
        sections.append(_table(prompt))
    if request.verbosity == "high" or draw % 3 != 0:
        sections.append(_code(prompt))
    sections += ["Letters of all kinds arrive whole: *Schütz*, *écluse*, *шлюз*, 水門, 🌊.", _OFFER]
    return "\n\n".join(section for section in sections if section)


def _echo(prompt: str) -> str:
    return f"You said: “{excerpt(prompt)}”." if prompt.strip() else "You said nothing."


def _heading(prompt: str) -> str:
    return f"## {excerpt(prompt)}" if prompt.strip() else "## Hello"


def _greeting(prompt: str) -> str:
    hello = "Hello! " if _GREETING.match(prompt) else ""
    return (
        f"{hello}I am the **demo model**: built in, offline, and deterministic. "
        "I know nothing about the world, but a little about your message:"
    )


def _facts(request: DemoRequest) -> str:
    facts = [each for facts_of in _FACTS for each in facts_of(request)]
    return "\n".join(f"- {fact}" for fact in facts)


def _size(request: DemoRequest) -> list[str]:
    words = len(request.prompt.split())
    return [f"it has {words} word{'' if words == 1 else 's'} and {len(request.prompt)} characters"]


def _turn_number(request: DemoRequest) -> list[str]:
    count = sum(turn.role == "user" for turn in request.turns)
    return [f"it is message {count} of our conversation"] if count > 1 else []


def _media(request: DemoRequest) -> list[str]:
    last = next((turn for turn in reversed(request.turns) if turn.role == "user"), None)
    return [f"I see {excerpt(each, 400)}" for each in (last.media[:_MAX_QUOTES] if last else [])]


def _tools(request: DemoRequest) -> list[str]:
    names = [f"`{excerpt(tool.title)}`" for tool in request.tools[:8]]
    if not names:
        return []
    more = f" and {len(request.tools) - 8} more" if len(request.tools) > 8 else ""
    return [f"I could call {', '.join(names)}{more}; name what you need, and I will"]


def _memories(request: DemoRequest) -> list[str]:
    return [f"I remember that I thought about “{each}”" for each in _remembered(request)]


def _remembered(request: DemoRequest) -> list[str]:
    every = (each for turn in request.turns for each in turn.remembered)
    return [excerpt(each) for each in islice(every, _MAX_QUOTES)]


_FACTS: tuple[Callable[[DemoRequest], list[str]], ...] = (_size, _turn_number, _media, _tools, _memories)


def _table(prompt: str) -> str:
    words = list(dict.fromkeys(_WORD.findall(prompt[:2000])))
    longest = sorted(words, key=len, reverse=True)[:3]
    if not longest:
        return ""
    rows = [f"| {word[:40]} | {len(word)} |" for word in longest]
    return "\n".join(["| word | letters |", "|---|---:|", *rows])


def _code(prompt: str) -> str:
    literal = json.dumps(excerpt(prompt, 40), ensure_ascii=False)
    return f'```python\nmessage = {literal}\nprint(len(message.split()), "words")\n```'


# -- thinking

_LENGTHS = {"minimal": 1, "low": 2, "medium": 3, "high": 5, "xhigh": 7, "max": 9, "ultra": 11}
"""Number of sentences by effort."""

EFFORTS = ("none", *_LENGTHS)


def thought(request: DemoRequest) -> str:
    """Return the reasoning; more effort makes it longer."""
    prompt = request.prompt
    sentences = [
        f"The user says “{excerpt(prompt)}”.",
        f"That is a message of {len(prompt.split())} words.",
        *(f"I remember that I thought about “{each}”." for each in _remembered(request)),
        "I know nothing of the world, so the answer can only be about the message itself.",
        f"There are {len(request.tools)} tools that I could call.",
        "Is there a wish in it that I must grant?",
        "If there is, it comes first.",
        "If there is none, I count words and letters.",
        "A heading, a list and some code will show how markdown arrives.",
        "That should do.",
    ]
    return " ".join(sentences[: _LENGTHS.get(request.effort, 3)])


def summaries(request: DemoRequest) -> list[str]:
    """Return the parts of a reasoning summary; a detailed summary has two."""
    parts = [f"**Reading the message**\n\nIt says “{excerpt(request.prompt)}”."]
    if request.summary == "detailed":
        parts.append("**Finding an answer**\n\nIt can only be about the message itself.")
    return parts


REFUSAL = "I am sorry, but I was asked to refuse, and so I do."
SOURCE_TEXT = "\n\nSource: "
SOURCE_TITLE = "Open Responses"
SOURCE_URL = "https://www.openresponses.org"
