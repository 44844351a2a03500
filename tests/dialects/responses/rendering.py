"""Renders requests for Responses endpoints, and items to put into them."""

from __future__ import annotations

from typing import Any

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Quirks, Target, UpstreamRequest
from penstock.dialects.responses.render import render
from tests.dialects.render_cases import (
    PIXEL,
    plan_for,
)

OPENAI: dict[str, Any] = {
    "vendor": "openai",
    "dialect": "responses",
    "family": "gpt",
    "key_fingerprint": "k",
    "quirks": Quirks(system_first=False, developer_role=True),
}


OTHER: dict[str, Any] = {"vendor": "lmstudio", "dialect": "responses", "family": "gpt-oss"}


def rendered(request: dict[str, Any], target: dict[str, Any] = OPENAI) -> UpstreamRequest:
    return render(plan_for(request, **target))


def items(
    input_items: list[dict[str, Any]], target: dict[str, Any] = OPENAI, **request: Any
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rendered({"input": input_items, **request}, target).body["input"]
    return found


def message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def sealed(payload: Any, target: dict[str, Any]) -> str:
    return seal(Target(model="m", **target), payload)


def reasoning(encrypted: str | None = None, text: str = "") -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else None
    summary = [{"type": "summary_text", "text": "S."}]
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": summary,
        "content": content,
        "encrypted_content": encrypted,
    }


IMAGE = {"type": "input_image", "image_url": PIXEL, "detail": "low"}
