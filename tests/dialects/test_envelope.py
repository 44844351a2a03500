"""The envelope around sealed reasoning: who may open it, and what is not an envelope."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec
import pytest

from penstock.dialects.envelope import Envelope, key_of, seal, unseal
from penstock.dialects.plan import Target

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
