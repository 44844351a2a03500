"""The envelope around sealed reasoning: who may open it, and what is not an envelope."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from penstock.dialects.envelope import (
    MOST_BYTES,
    Envelope,
    foreign_to,
    key_of,
    seal,
    sealed_reasoning,
    seals_text,
    unseal,
)
from penstock.dialects.plan import Target
from penstock.protocol.request import ENCRYPTED_REASONING, CreateResponse
from penstock.stream.deltas import DiagnosticDelta, OpaqueReasoning

CLAUDE = Target(model="m", dialect="anthropic", vendor="anthropic", family="claude", key_fingerprint="k1")
GPT = Target(model="m", dialect="responses", vendor="openai", family="gpt", key_fingerprint="k1")


def encoded(value: Any) -> str:
    return "pk1." + urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


@pytest.mark.parametrize(
    "payload",
    [
        {"signature": "a+/=b", "thinking": "Grüße\n"},
        [{"type": "reasoning.encrypted", "data": "x"}],
        "text",
        *("x" * length for length in range(4)),  # every length of base64 padding
    ],
)
def test_a_payload_survives_sealing_unchanged(payload: Any) -> None:
    sealed = seal(CLAUDE, payload, attached="call")
    assert "=" not in sealed
    assert unseal(sealed) == Envelope("anthropic", payload, "anthropic", "claude", "k1", "call")


@pytest.mark.parametrize(
    ("change", "readable"),
    [
        ({}, True),
        ({"model": "another"}, True),
        ({"key_fingerprint": "k2"}, True),
        ({"dialect": "bedrock"}, False),
        ({"vendor": "vertex"}, False),
        ({"family": "gemini"}, False),
    ],
)
def test_only_the_same_dialect_vendor_and_family_can_read_it(change: dict[str, str], readable: bool) -> None:
    envelope = unseal(seal(CLAUDE, "x"))
    assert envelope is not None
    assert envelope.is_for(msgspec.structs.replace(CLAUDE, **change)) is readable


def test_encrypted_reasoning_of_responses_is_bound_to_the_key() -> None:
    envelope = unseal(seal(GPT, "x"))
    assert envelope is not None
    assert envelope.is_for(GPT)
    assert not envelope.is_for(msgspec.structs.replace(GPT, key_fingerprint="k2"))


def test_plain_reasoning_of_responses_is_not_bound_to_the_key() -> None:
    envelope = unseal(seal(GPT, {"content": []}))
    assert envelope is not None
    assert envelope.is_for(msgspec.structs.replace(GPT, key_fingerprint="k2"))


def test_an_envelope_names_what_its_reasoning_is_bound_to() -> None:
    sealed = seal(GPT, {"encrypted_content": "x"})
    assert foreign_to(GPT, sealed) == foreign_to(GPT, "") == ""
    assert foreign_to(msgspec.structs.replace(GPT, key_fingerprint="k2"), sealed) == "another key"
    assert foreign_to(CLAUDE, sealed) == foreign_to(GPT, "gAAA") == "another upstream"


def test_a_payload_is_sealed_for_its_block_or_call() -> None:
    assert sealed_reasoning(GPT, "x", block=1) == OpaqueReasoning(seal(GPT, "x"), block=1)
    assert sealed_reasoning(GPT, "x", attached="call", call=2) == OpaqueReasoning(
        seal(GPT, "x", attached="call"), call=2
    )


@pytest.mark.parametrize("payload", ["x" * MOST_BYTES, [0] * 21_000])
def test_a_payload_that_could_not_be_opened_again_is_reported(payload: Any) -> None:
    delta = sealed_reasoning(GPT, payload)
    assert isinstance(delta, DiagnosticDelta)
    assert delta.code == "reasoning_too_large"


@pytest.mark.parametrize(
    ("request_fields", "expected"),
    [
        ({}, False),
        ({"store": True}, False),
        ({"store": False}, True),
        ({"include": [ENCRYPTED_REASONING]}, True),
    ],
)
def test_plain_text_is_sealed_if_the_client_asks_for_it_or_the_response_is_not_stored(
    request_fields: dict[str, Any], expected: bool
) -> None:
    assert seals_text(CreateResponse(**request_fields)) is expected


@pytest.mark.parametrize(
    "foreign",
    [
        "",
        "gAAAAABo",
        "pk1.",
        "pk1.!!!",
        "pk1.e30",  # an object without the required fields
        "pk2." + encoded({"dialect": "chat", "payload": 1})[4:],
        encoded({"dialect": 5, "payload": 1}),
        encoded([1]),
    ],
)
def test_a_text_that_is_not_an_envelope_of_ours_is_not_opened(foreign: str) -> None:
    assert unseal(foreign) is None


def test_an_envelope_with_too_many_values_is_not_opened() -> None:
    """A client can forge one, and request limits do not look inside."""
    assert unseal(encoded({"dialect": "chat", "payload": [0] * 19_000})) is not None
    assert unseal(encoded({"dialect": "chat", "payload": [0] * 21_000})) is None
    assert key_of(encoded({"key": "k1", "payload": [0] * 21_000})) == ""


def test_the_key_is_known_without_the_rest_of_the_envelope() -> None:
    assert key_of(seal(GPT, {"encrypted_content": "x"})) == "k1"
    assert key_of(encoded({"key": "k1"})) == "k1"
    assert key_of("gAAA") == key_of(encoded({"key": 5})) == ""
