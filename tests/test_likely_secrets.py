"""What looks like a secret is masked, and nothing else."""

from __future__ import annotations

import pytest

from penstock.likely_secrets import mask_likely_secrets

LIKELY = {
    "Incorrect API key provided: sk-proj-abc123DEF456. See": "Incorrect API key provided: [key]. See",
    "sk-of-the-mill-owner": "[key]",
    "the key sk-proj-****6789 is disabled": "the key [key] is disabled",
    "got Bearer abc.def123456": "got Bearer [key]",
    "POST https://x.example/v1?key=AbCd&alt=sse failed": "POST https://x.example/v1?key=[key]&alt=sse failed",
    "api_key: 'a1b2c3d4e5f6'": "api_key: '[key]'",
    '{"access-token": "a1b2c3d4e5f6"}': '{"access-token": "[key]"}',
    "http://miller:flour@mill.example/v1": "http://[key]@mill.example/v1",
    "ghp_a1b2c3d4e5f6g7 and AIzaSyA1234567890abcdefghij": "[key] and [key]",
    "session eyJhbGciOiJI.eyJzdWIiOiIx.c2ln ended": "session [key] ended",
}


@pytest.mark.parametrize(("text", "masked"), LIKELY.items(), ids=LIKELY.keys())
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_likely_secrets(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is required",
        "max_tokens: 100000 is too large",
        "token: authentication failed",
        "Unknown parameter: 'x-api-key'",
        "hf_hub_download failed for task-completion",
        "the keys are in https://x.example/keys?page=2",
    ],
)
def test_ordinary_words_about_keys_are_not_masked(text: str) -> None:
    assert mask_likely_secrets(text) == text
