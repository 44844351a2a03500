"""The demo model's tokens: a word, or a piece of a long word.

Each token of an answer is one frame of its stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from penstock.demo.request import DemoRequest, DemoTurn

IMAGE_TOKENS = 85
"""For an image or a file of any size."""

_MAX_TOKEN = 12
_MAX_COUNTED = 1_000_000
_AVERAGE_TOKEN = 6
_PIECE = re.compile(rf"\s*\S{{1,{_MAX_TOKEN}}}|\s+")


def pieces(text: str) -> list[str]:
    """Split a text into tokens; joined, they are the text again."""
    return _PIECE.findall(text)


def count(*texts: str) -> int:
    """Count the tokens of texts; beyond a million characters, estimate them."""
    tokens, exactly = 0, _MAX_COUNTED
    for text in texts:
        tokens += sum(1 for _ in _PIECE.finditer(text[:exactly]))
        tokens += max(0, len(text) - exactly) // _AVERAGE_TOKEN
        exactly = max(0, exactly - len(text))
    return tokens


def input_tokens(request: DemoRequest) -> int:
    """Count the tokens of the request, including tools and format."""
    return _counted(request, request.turns)


def cached_tokens(request: DemoRequest) -> int:
    """Count the tokens before the last answer: the previous request already had them."""
    answers = [index for index, turn in enumerate(request.turns) if turn.role == "assistant"]
    return _counted(request, request.turns[: answers[-1]]) if answers else 0


def _counted(request: DemoRequest, turns: Sequence[DemoTurn]) -> int:
    declared = [
        text
        for tool in request.tools
        for text in (f"{tool.name} {tool.description}", json.dumps(tool.parameters))
    ]
    schema = [json.dumps(request.format.schema)] if request.format.schema else []
    texts = [turn.text for turn in turns]
    images = sum(len(turn.media) for turn in turns)
    return count(*declared, *schema, *request.instructions, *texts) + IMAGE_TOKENS * images
