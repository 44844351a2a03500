"""Token counts of Chat Completions, wherever a vendor reports them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.stream.deltas import (
    UsageDelta,
)
from tests.dialects.chat_streams import DONE, answer, chunk, of, read

USAGE: dict[str, tuple[list[dict[str, Any]], tuple[int, int, int, int]]] = {
    # chunks, (input, output, cached, reasoning)
    "in a chunk of its own": (
        [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}],
        (3, 2, 0, 0),
    ),
    "with the finish": (
        [chunk(finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 2})],
        (3, 2, 0, 0),
    ),
    "cumulative": (
        [chunk(usage={"prompt_tokens": 3, "completion_tokens": each}) for each in (1, 2, 3)],
        (3, 3, 0, 0),
    ),
    "Groq": ([chunk(x_groq={"usage": {"prompt_tokens": 3, "completion_tokens": 2}})], (3, 2, 0, 0)),
    "zeros after the real one (quirk C6)": (
        [
            chunk(usage={"prompt_tokens": 3, "completion_tokens": 2}),
            chunk(usage={"prompt_tokens": 0, "completion_tokens": 0}),
        ],
        (3, 2, 0, 0),
    ),
    "OpenAI's details": (
        [
            chunk(
                usage={
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "total_tokens": 17,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 5},
                }
            )
        ],
        (9, 8, 4, 5),
    ),
    "DeepSeek": (
        [chunk(usage={"prompt_tokens": 9, "completion_tokens": 8, "prompt_cache_hit_tokens": 4})],
        (9, 8, 4, 0),
    ),
    "Moonshot": (
        [chunk(usage={"prompt_tokens": 9, "completion_tokens": 8, "cached_tokens": 4})],
        (9, 8, 4, 0),
    ),
    "xAI (quirk C7)": (
        [
            chunk(
                usage={
                    "prompt_tokens": 12,
                    "completion_tokens": 1,
                    "total_tokens": 303,
                    "completion_tokens_details": {"reasoning_tokens": 290},
                }
            )
        ],
        (12, 291, 0, 290),
    ),
    "reasoning beyond the output": (
        [
            chunk(
                usage={
                    "prompt_tokens": 57,
                    "completion_tokens": 10,
                    "total_tokens": 67,
                    "completion_tokens_details": {"reasoning_tokens": 37},
                }
            )
        ],
        (57, 47, 0, 37),
    ),
    "other names": (
        [
            chunk(
                usage={
                    "input_tokens": 3,
                    "output_tokens": 2,
                    "output_tokens_details": {"reasoning_tokens": 1},
                }
            )
        ],
        (3, 2, 0, 1),
    ),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage_is_read_from_every_place(name: str) -> None:
    chunks, expected = USAGE[name]
    usage = answer(chunk({"content": "a"}), *chunks, DONE)["usage"]
    details = (
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )
    assert (usage["input_tokens"], usage["output_tokens"], *details) == expected
    assert usage["total_tokens"] == expected[0] + expected[1]


@pytest.mark.parametrize("usage", [None, {}, [], {"cost": 1}, {"prompt_tokens": "3"}, {"prompt_tokens": -1}])
def test_missing_or_invalid_usage_gives_no_delta(usage: Any) -> None:
    assert of(read(chunk({"content": "a"}, usage=usage)), UsageDelta) == []


@pytest.mark.parametrize(
    "cached",
    [
        {"num_cached_tokens": 5},
        {"num_cached_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}},
        {"prompt_tokens_details": {"num_cached_tokens": 5}},
        {"prompt_token_details": {"cached_tokens": 5}},
        {"prompt_tokens_details": None, "num_cached_tokens": 5},
    ],
)
def test_cached_tokens_are_read_in_each_form_that_mistral_has_used(cached: dict[str, Any]) -> None:
    usage = answer(
        chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1, **cached}), DONE
    )
    assert usage["usage"]["input_tokens_details"]["cached_tokens"] == 5


@pytest.mark.parametrize(
    "written",
    [
        {"prompt_tokens_details": {"cache_write_tokens": 5}},
        {"input_tokens_details": {"cache_write_tokens": 5}},
        {"prompt_tokens_details": {"cache_creation_tokens": 5}},
        {"cache_creation_input_tokens": 5},
    ],
)
def test_cache_writes_are_counted(written: dict[str, Any]) -> None:
    usage = answer(
        chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1, **written}), DONE
    )
    assert usage["usage"]["input_tokens_details"]["cache_write_tokens"] == 5
