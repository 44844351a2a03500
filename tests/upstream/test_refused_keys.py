"""An upstream's 401 or 403 names the target and where the refused key comes from, and never the key."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import AuthenticationError, PermissionDeniedError
from penstock.upstream.keys import KeyRing
from penstock.upstream.refused_keys import name_key
from tests.upstream.sending import KEY, OTHER, Clock, target

NAMED = {"keys": (KEY, OTHER), "key_names": ("OPENAI_API_KEY", "SECOND_KEY")}

CASES: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "the first key": (NAMED, KEY, 'refused the key of target "test" (from OPENAI_API_KEY): no', False),
    "the second key": (NAMED, OTHER, 'refused the key of target "test" (from SECOND_KEY): no', False),
    "a key without a name": (
        {"keys": (KEY, OTHER)},
        OTHER,
        'of target "test" (from key 2): no',
        False,
    ),
    "the client's own key": (
        {"pass_key": True, "missing_key": "set OPENAI_API_KEY"},
        KEY,
        'refused your own key, which target "test" passes on (to use a key of the gateway, set OPENAI',
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
        'target "test" has no key, and the upstream requires one (to use a key of the gateway, set OPENAI',
        False,
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


def test_a_key_without_permission_is_named_as_well() -> None:
    used = target("http://127.0.0.1:1", **NAMED)
    error = PermissionDeniedError("not this model")
    name_key(error, KEY, KeyRing(used.keys, clock=Clock(), names=used.key_names), used, "authorization")
    assert error.message == (
        'the upstream does not permit this with the key of target "test" (from OPENAI_API_KEY): '
        "not this model"
    )
    assert error.code == "upstream_forbidden"
