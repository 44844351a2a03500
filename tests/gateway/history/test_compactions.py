"""Compactions in the input of a request: opened for their tenant, and otherwise left out."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.dialects.envelope import seal
from penstock.dialects.plan import Target
from penstock.gateway.history.compactions import Summary, expand, wants_compaction
from penstock.gateway.history.sealing import Sealer
from penstock.gateway.settings import Limits
from penstock.gateway.turn.requests import read_request
from penstock.protocol.request import CreateResponse

SEALER = Sealer("the secret of these tests")


TRIGGER = {"type": "compaction_trigger"}


QUESTION = {"type": "message", "role": "user", "content": "where is the lamp?"}


# Compactions in the input


def item_of(tenant: str, summary: str, sealer: Sealer = SEALER) -> dict[str, str]:
    data = msgspec.json.encode(Summary(summary, "m", 1))
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": sealer.seal(tenant, data)}


def request_of(*items: Any) -> CreateResponse:
    return read_request(json.dumps({"model": "m", "input": items}).encode(), "", Limits())


def test_unreadable_compactions_are_left_out() -> None:
    theirs = seal(Target(model="claude", dialect="anthropic"), {"type": "compaction", "text": "theirs"})
    other = item_of("local", "of another gateway", Sealer("another"))
    changed = item_of("local", "ours")
    changed["encrypted_content"] = changed["encrypted_content"][:-3] + "AAA"
    request, diagnostics = expand(
        request_of(
            QUESTION,
            other,
            item_of("local", "ours"),
            {"type": "compaction", "encrypted_content": theirs},
            changed,
            item_of("bob", "another tenant's"),
            QUESTION,
        ),
        SEALER,
        "local",
    )
    assert isinstance(request.input, list)
    assert [item.type for item in request.input] == ["message", "message", "compaction", "message"]
    assert [(each.code, each.count) for each in diagnostics] == [("compaction_unreadable", 3)]


def test_a_request_without_compactions_is_unchanged() -> None:
    request = request_of(QUESTION)
    assert expand(request, SEALER, "local") == (request, [])
    assert expand(CreateResponse(input="text"), SEALER, "local") == (CreateResponse(input="text"), [])


def test_only_a_trigger_at_the_end_asks_for_a_compaction() -> None:
    """An earlier trigger was answered in an earlier turn of the chain."""
    answered, _ = expand(request_of(QUESTION, TRIGGER, item_of("local", "ours"), QUESTION), SEALER, "local")
    assert not wants_compaction(answered)
    assert isinstance(answered.input, list)
    assert [item.type for item in answered.input] == ["message"] * 3
    asked, _ = expand(request_of(TRIGGER, QUESTION, TRIGGER), SEALER, "local")
    assert wants_compaction(asked)
    assert not wants_compaction(CreateResponse(input="text"))
    assert not wants_compaction(CreateResponse(input=[]))
