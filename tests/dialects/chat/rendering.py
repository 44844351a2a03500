"""Renders requests for Chat Completions, and items to put into them."""

from __future__ import annotations

from typing import Any

from penstock.dialects.chat.render import render
from penstock.dialects.envelope import seal
from penstock.dialects.plan import Quirks, Target, UpstreamRequest
from tests.dialects.render_cases import (
    plan_for,
)


def rendered(request: dict[str, Any], *, quirks: Quirks | None = None, **target: Any) -> UpstreamRequest:
    return render(plan_for(request, quirks=quirks, **target))


def messages(request: dict[str, Any], *, quirks: Quirks | None = None, **target: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rendered(request, quirks=quirks, **target).body["messages"]
    return found


def reasoning(text: str = "", sealed: str | None = None) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": [], "content": content, "encrypted_content": sealed}


def sealed(payload: Any, *, attached: str = "block", **target: Any) -> str:
    return seal(Target(model="m", **target), payload, attached=attached)
