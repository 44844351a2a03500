"""Requests rendered for Gemini."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from penstock.dialects.envelope import seal
from penstock.dialects.gemini.render import render
from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from tests.dialects.render_cases import (
    plan_for,
    user,
)

MODEL = "gemini-3-flash-preview"


OLD = "gemini-2.5-flash"


ALL = Quirks(files=True)


PIXEL_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


SIGNATURE = "c2lnbmVk"


def planned(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> Plan:
    plan = plan_for(request, quirks=quirks, dialect="gemini", vendor="gemini")
    return structs.replace(plan, target=structs.replace(plan.target, model=model))


def rendered(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> UpstreamRequest:
    return render(planned(request, model, quirks))


def body(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> dict[str, Any]:
    return rendered(request, model, quirks).body


def config(request: dict[str, Any], model: str = MODEL) -> dict[str, Any]:
    result: dict[str, Any] = body(request, model).get("generationConfig", {})
    return result


def signed(part: str, signature: str = SIGNATURE, summary: str = "", **payload: Any) -> dict[str, Any]:
    """Return a reasoning item as the reader seals it."""
    target = Target(model=MODEL, dialect="gemini", vendor="gemini")
    attached = {"functionCall": "call", "executableCode": "item"}.get(part, "block")
    sealed = seal(target, {"thoughtSignature": signature, "part": part, **payload}, attached=attached)
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "summary": parts, "encrypted_content": sealed}


def part(content: dict[str, Any], quirks: Quirks = ALL) -> dict[str, Any]:
    result: dict[str, Any] = body({"input": [user([content])]}, quirks=quirks)["contents"][0]["parts"][0]
    return result
