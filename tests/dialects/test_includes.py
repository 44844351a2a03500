"""The values of `include`: each is honoured or explained, by every dialect."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.responses import ResponseIncludable

from penstock.dialects.includes import ALWAYS, LOGPROBS, SPECIFIED, unsupported_includes
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from tests.dialects.render_cases import dropped, plan_for

KNOWN: tuple[str, ...] = get_args(ResponseIncludable)
LOGPROB_DIALECTS = {"chat", "gemini", "responses"}


@pytest.mark.parametrize("dialect", sorted(RENDERED))
@pytest.mark.parametrize("name", [*KNOWN, "something.new"])
def test_every_value_is_honoured_or_explained(dialect: str, name: str) -> None:
    found = rendered_dialect(dialect).render(plan_for({"include": [name]}, dialect=dialect))
    is_honoured = name in ALWAYS or (name == LOGPROBS and dialect in LOGPROB_DIALECTS)
    assert dropped(found) == (set() if is_honoured else {f"include: {name}"})


@pytest.mark.parametrize("name", KNOWN)
def test_openai_gets_every_value(name: str) -> None:
    plan = plan_for({"include": [name]}, dialect="responses", vendor="openai")
    found = rendered_dialect("responses").render(plan)
    assert name in found.body["include"]
    assert found.diagnostics == []


def test_what_an_upstream_supports_is_not_reported() -> None:
    request: Any = read({"include": [*KNOWN]}, CreateResponse)
    assert unsupported_includes(request, KNOWN) == []
    assert len(unsupported_includes(request, SPECIFIED)) == len({*KNOWN} - ALWAYS - SPECIFIED)
