"""The events that nearly all of a stream consists of: the deltas of text, reasoning, arguments and input.

This type lists every field that such an event has. msgspec refuses an event with any other field, value or
type, and the reader then reads it as usual.
"""

from __future__ import annotations

from typing import Literal

from penstock.dialects.frames import CommonShape, common_reader


class CommonDeltaEvent(CommonShape, kw_only=True):
    """Fields are in the order in which OpenAI sends them, which is how msgspec finds them fastest."""

    type: Literal[
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    ]
    sequence_number: int | None = None  # never read
    item_id: str = ""
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str
    logprobs: tuple[()] | None = None
    obfuscation: str | None = None  # never read


read_common = common_reader(CommonDeltaEvent)
