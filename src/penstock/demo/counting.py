"""The demo model's tokens: a word, or a piece of a long one.

What is counted is what is sent: each token of an answer is one frame of its stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from penstock.demo.request import DemoRequest, DemoTurn

IMAGE_TOKENS = 85
"""An image or a file, whatever its size."""

_LONGEST = 12
_COUNTED = 1_000_000
_USUAL_LENGTH = 6
_PIECE = re.compile(rf"\s*\S{{1,{_LONGEST}}}|\s+")


def pieces(text: str) -> list[str]:
    """The tokens of a text; joined, they are the text."""
    return _PIECE.findall(text)


def count(*texts: str) -> int:
    """How many tokens texts have; of very long ones an estimate, since nobody is to wait for the count."""
    tokens, exactly = 0, _COUNTED
    for text in texts:
        tokens += sum(1 for _ in _PIECE.finditer(text[:exactly]))
        tokens += max(0, len(text) - exactly) // _USUAL_LENGTH
        exactly = max(0, exactly - len(text))
    return tokens


def input_tokens(request: DemoRequest) -> int:
    """What the request is made of, the tools and the format included."""
    return _counted(request, request.turns)


def cached_tokens(request: DemoRequest) -> int:
    """What an earlier request of the same conversation had already: everything before the last answer."""
    answers = [index for index, turn in enumerate(request.turns) if turn.role == "assistant"]
    return _counted(request, request.turns[: answers[-1]]) if answers else 0


def _counted(request: DemoRequest, turns: Sequence[DemoTurn]) -> int:
    declared = [
        text
        for tool in request.tools
        for text in (f"{tool.name} {tool.description}", json.dumps(tool.parameters))
    ]
    schema = [json.dumps(request.format.schema)] if request.format.schema else []
    said = [turn.text for turn in turns]
    images = sum(len(turn.media) for turn in turns)
    return count(*declared, *schema, *request.instructions, *said) + IMAGE_TOKENS * images
