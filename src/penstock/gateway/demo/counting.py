"""The demo model's tokens: a word, or a piece of a long one.

What is counted is what is sent: each token of an answer is one frame of its stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from penstock.gateway.demo.request import DemoRequest, DemoTurn

IMAGE_TOKENS = 85
"""An image or a file, whatever its size."""

_LONGEST = 12
_COUNTED = 1_000_000
_USUAL_LENGTH = 6
_PIECE = re.compile(rf"\s*\S{{1,{_LONGEST}}}|\s+")


def pieces(text: str) -> list[str]:
    """The tokens of a text; joined, they are the text."""
    return _PIECE.findall(text)


def count(text: str) -> int:
    """How many tokens a text has; of a very long one an estimate, since nobody is to wait for the count."""
    counted = sum(1 for _ in _PIECE.finditer(text[:_COUNTED]))
    return counted + max(0, len(text) - _COUNTED) // _USUAL_LENGTH


def input_tokens(request: DemoRequest) -> int:
    """What the request is made of, the tools and the format included."""
    return _beginning(request) + _turns(request.turns)


def cached_tokens(request: DemoRequest) -> int:
    """What an earlier request of the same conversation had already: everything before the last answer."""
    answers = [index for index, turn in enumerate(request.turns) if turn.role == "assistant"]
    return _beginning(request) + _turns(request.turns[: answers[-1]]) if answers else 0


def _beginning(request: DemoRequest) -> int:
    declared = sum(
        count(f"{tool.name} {tool.description}") + count(json.dumps(tool.parameters))
        for tool in request.tools
    )
    schema = count(json.dumps(request.format.schema)) if request.format.schema else 0
    return sum(map(count, request.instructions)) + declared + schema


def _turns(turns: Sequence[DemoTurn]) -> int:
    return sum(count(turn.text) + IMAGE_TOKENS * len(turn.media) for turn in turns)
