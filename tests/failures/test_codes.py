"""The tables of error codes agree with each other and with the exceptions."""

from __future__ import annotations

import re

import pytest

from penstock.errors import KINDS
from penstock.failures.codes import CODES, ERROR_TYPES, MESSAGES, NOT_THE_REQUEST, STATUSES, TYPES


def test_every_code_has_an_error_type_and_an_exception() -> None:
    codes = {*CODES.values(), *TYPES.values(), *STATUSES.values(), *(code for code, _ in MESSAGES)}
    assert codes == set(ERROR_TYPES)
    assert set(KINDS) == set(ERROR_TYPES)


def test_a_word_is_in_one_table_only() -> None:
    def plain(word: str) -> str:
        return re.sub(r"[^a-z0-9]", "", word.lower())

    words = [plain(word) for word in (*CODES, *TYPES)]
    assert len(set(words)) == len(words), "two spellings of one word would hide a contradiction"


def first_match(message: str) -> str | None:
    return next((code for code, pattern in MESSAGES if pattern.search(message)), None)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        # Texts that several patterns match: the earlier table row is the more specific one.
        ("Too many tokens: 5000 in your prompt", "context_length_exceeded"),
        ("Too many tokens per minute", "rate_limit_exceeded"),
        ("You exceeded your current quota; see our rate limits", "insufficient_quota"),
        ("Rate limit reached: the model is overloaded", "rate_limit_exceeded"),
        ("The model `gpt-9` does not exist or you have no access token", "model_not_found"),
        ("The model is temporarily unavailable", "server_is_overloaded"),
        ("Missing API key", "authentication_error"),
        ("Blocked by our content filtering policy", "content_filter"),
        ("Something else", None),
    ],
)
def test_the_most_specific_text_decides(message: str, code: str | None) -> None:
    assert first_match(message) == code


def test_a_status_of_a_proxy_never_blames_the_request() -> None:
    assert NOT_THE_REQUEST.items() <= STATUSES.items()
    assert {ERROR_TYPES[code] for code in NOT_THE_REQUEST.values()} == {"server_error"}


@pytest.mark.parametrize("code", [code for code, type in ERROR_TYPES.items() if type == "too_many_requests"])
def test_only_rate_limits_and_quotas_are_too_many_requests(code: str) -> None:
    assert code in ("rate_limit_exceeded", "insufficient_quota", "budget_exceeded")
