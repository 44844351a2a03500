"""Requests rendered for Anthropic."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from penstock.dialects.anthropic.render import render
from penstock.dialects.envelope import seal
from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from tests.dialects.render_cases import (
    plan_for,
    user,
)

MODEL = "claude-sonnet-4-6"


ALL = Quirks(files=True)


def planned(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL, **target: Any) -> Plan:
    plan = plan_for(request, quirks=quirks, **{"dialect": "anthropic", "vendor": "anthropic", **target})
    return structs.replace(plan, target=structs.replace(plan.target, model=model))


def rendered(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> UpstreamRequest:
    return render(planned(request, model, quirks))


def body(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> dict[str, Any]:
    return rendered(request, model, quirks).body


def thought(payload: Any, text: str = "", attached: str = "block", **target: str) -> dict[str, Any]:
    to = structs.replace(Target(model=MODEL, dialect="anthropic", vendor="anthropic"), **target)
    content = [{"type": "reasoning_text", "text": text}] if text else []
    sealed = seal(to, payload, attached=attached)
    return {"type": "reasoning", "summary": [], "content": content, "encrypted_content": sealed}


def signed(text: str, signature: str) -> dict[str, Any]:
    return thought({"type": "thinking", "signature": signature}, text)


def block(part: dict[str, Any], quirks: Quirks = ALL) -> dict[str, Any]:
    result: dict[str, Any] = body({"input": [user([part])]}, quirks=quirks)["messages"][0]["content"][0]
    return result
