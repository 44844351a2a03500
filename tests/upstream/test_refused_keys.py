"""An upstream's 401 or 403 names the target and where the refused key comes from, and never the key."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import KINDS, AuthenticationError, PermissionDeniedError
from penstock.failures import classify
from penstock.upstream.attempts import FALLBACK, rule_for
from penstock.upstream.keys import KeyRing
from penstock.upstream.refused_keys import name_key
from tests.upstream.sending import KEY, OTHER, Clock, target

NAMED: dict[str, Any] = {"keys": (KEY, OTHER), "key_names": ("OPENAI_API_KEY", "SECOND_KEY")}

CASES: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "the first key": (NAMED, KEY, 'refused the key of target "test" (from OPENAI_API_KEY): no', False),
    "the second key": (NAMED, OTHER, 'refused the key of target "test" (from SECOND_KEY): no', False),
    "a key without a name": (
        {"keys": (KEY, OTHER)},
        OTHER,
        'the upstream refused key 2 of target "test": no',
        False,
    ),
    "the client's own key": (
        {"pass_key": True, "missing_key": "set OPENAI_API_KEY"},
        KEY,
        'refused your own key, which target "test" passes on (the gateway can use its own key instead: set',
        True,
    ),
    "the client's own key, where there are others": (
        {**NAMED, "pass_key": True},
        "sk-mine-123456",
        'refused your own key, which target "test" passes on: no',
        True,
    ),
    "no key": (
        {"missing_key": "set OPENAI_API_KEY"},
        "",
        'target "test" has no key, and the upstream requires one (set OPENAI_API_KEY): no',
        False,
    ),
    "no key, and the client may send one": (
        {"pass_key": True, "missing_key": "set OPENAI_API_KEY"},
        "",
        'target "test" has no key, and the upstream requires one (send a key, or set OPENAI_API_KEY): no',
        True,
    ),
    "a header instead of a key": (
        {**NAMED, "headers": {"Authorization": "Bearer x"}},
        KEY,
        'refused the header authorization of target "test" (targets.test.headers): no',
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refused_key_is_named_by_its_target_and_variable(case: str) -> None:
    settings, key, words, is_clients = CASES[case]
    used = target("http://127.0.0.1:1", **settings)
    keys = KeyRing(used.keys, clock=Clock(), names=used.key_names)
    error = AuthenticationError("no", request_id="req_1")
    name_key(error, key, keys, used, "authorization")
    assert words in error.message
    assert str(error) == f"{error.message} (request req_1)"
    assert error.code == ("authentication_error" if is_clients else "upstream_unauthorized")
    for secret in (KEY, OTHER, KEY[:8], "sk-mine"):
        assert secret not in str(error)


def forbidden(message: str, key: str = KEY, **settings: Any) -> PermissionDeniedError:
    """The named error of an upstream that answered 403 with this message."""
    used = target("http://127.0.0.1:1", **settings)
    error = PermissionDeniedError(message, status=403)
    name_key(error, key, KeyRing(used.keys, clock=Clock(), names=used.key_names), used, "authorization")
    assert error.code == "upstream_forbidden"
    return error


@pytest.mark.parametrize(
    "message",
    [
        "Your API key does not have permission to use this model",
        "You have insufficient permissions for this operation. Missing scopes: model.request",
        "user is not authorized to perform this action",
        "You don't have access to the model",
    ],
)
def test_a_403_about_keys_or_permissions_names_the_key(message: str) -> None:
    error = forbidden(message, **NAMED)
    expected = 'the upstream refused a request with the key of target "test" (from OPENAI_API_KEY): '
    assert (error.message, error.refused_key) == (expected + message, "OPENAI_API_KEY")


@pytest.mark.parametrize("settings", [{}, NAMED], ids=["no key", "a key"])
@pytest.mark.parametrize(
    "message", ["Country, region, or territory not supported", "origin not allowed", "no"]
)
def test_any_other_403_does_not_speak_of_a_key(message: str, settings: dict[str, Any]) -> None:
    error = forbidden(message, KEY if settings else "", **settings)
    assert error.message == f'the upstream refused the request of target "test" (403): {message}'
    assert error.refused_key == ""


@pytest.mark.parametrize("page", [b"<html><title>Access denied: no permission</title></html>", b""])
def test_a_403_with_a_web_page_only_names_the_target(page: bytes) -> None:
    message = classify(403, {}, page).message
    error = forbidden(message, **NAMED)
    assert (error.message, error.refused_key) == (f'target "test": {message}', "")


def test_a_403_without_a_key_says_what_to_do_if_it_asks_for_one() -> None:
    error = forbidden("Please use API Key or other credentials", "", missing_key="set GEMINI_API_KEY")
    assert error.message == (
        'the upstream refused the request of target "test" (403), which has no key (set GEMINI_API_KEY): '
        "Please use API Key or other credentials"
    )


@pytest.mark.parametrize("code", ["upstream_unauthorized", "upstream_forbidden"])
def test_a_key_of_another_gateway_is_not_taken_for_ours(code: str) -> None:
    used = target("http://127.0.0.1:1", **NAMED)
    error = KINDS[code]('the upstream refused the key of target "far" (from FAR_KEY): no', code=code)
    assert isinstance(error, AuthenticationError | PermissionDeniedError)
    name_key(error, KEY, KeyRing(used.keys, clock=Clock(), names=used.key_names), used, "authorization")
    assert error.message.startswith('target "test" reports: the upstream refused the key of target "far"')
    assert (error.code, error.refused_key) == (code, None)
    assert "OPENAI_API_KEY" not in error.message
    assert rule_for(error) is FALLBACK
