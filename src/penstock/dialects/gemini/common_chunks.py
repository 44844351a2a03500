"""The chunks that nearly all of a stream consists of: text or thoughts, and the usage so far.

These types list every field that such a chunk may have: those that the reader reads in it, and some that it
never reads. msgspec refuses a chunk with any other field, value or type, and the reader then reads it as
usual. So a field that the reader learns to read needs no change here, unless it is listed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from penstock.dialects.frames import CommonShape, common_reader

Count = Annotated[int, Meta(ge=0, lt=10**15)]


class _CamelShape(CommonShape, rename="camel"):
    """Its fields have `camelCase` names on the wire."""


class CommonGeminiPart(_CamelShape):
    text: str
    thought: bool | None = None


class CommonGeminiContent(_CamelShape):
    parts: list[CommonGeminiPart]
    role: str | None = None  # never read


class CommonGeminiCandidate(_CamelShape):
    content: CommonGeminiContent
    index: Literal[0] | None = None
    safety_ratings: list[Any] | None = None  # never read


class CommonGeminiUsage(_CamelShape):
    prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    total_token_count: Any = None  # never read
    cached_content_token_count: Count | None = None
    prompt_tokens_details: Any = None  # never read
    tool_use_prompt_token_count: Count | None = None
    tool_use_prompt_tokens_details: Any = None  # never read
    thoughts_token_count: Count | None = None
    candidates_tokens_details: Any = None  # never read
    cache_tokens_details: Any = None  # never read
    traffic_type: str | None = None
    service_tier: str | None = None


class CommonGeminiChunk(_CamelShape):
    candidates: tuple[CommonGeminiCandidate]
    usage_metadata: CommonGeminiUsage | None = None
    model_version: str | None = None
    create_time: str | None = None  # never read
    response_id: str | None = None


read_common = common_reader(CommonGeminiChunk)
