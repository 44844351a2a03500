"""The endpoint of a command: URL, preset, key and overrides."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.cli import UsageError
from penstock.cli.endpoint import DEFAULT_URL
from penstock.client.client import OpenResponsesClient
from penstock.dialects.presets import PRESETS
from penstock.models import directory
from tests.cli.endpoints import endpoint

KEY = "sk-test-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("EMPTY", " ")
    monkeypatch.setenv("BROKEN", "a\nb")
    monkeypatch.delenv("NOT_SET", raising=False)


def test_the_default_is_the_local_gateway_without_a_key() -> None:
    found = endpoint()
    assert (found.display_url, found.key_variable, found.is_default) == (DEFAULT_URL, "", True)
    assert found.config.key is not None
    assert found.config.key() == ""


def test_a_key_comes_from_its_variable_and_is_trimmed() -> None:
    found = endpoint("--base-url", "http://127.0.0.1:1/v1?token=secret", "--api-key-env", "MY_KEY")
    assert found.config.key is not None
    assert found.config.key() == KEY
    assert (found.key_variable, found.is_default) == ("MY_KEY", False)
    assert found.display_url == "http://127.0.0.1:1/v1"  # the query may contain a key


def test_a_preset_sets_url_and_key_variable() -> None:
    found = endpoint("--preset", "openai")
    assert (found.display_url, found.key_variable) == (PRESETS["openai"].base_url, "OPENAI_API_KEY")
    assert endpoint("--preset", "openai", "--api-key-env", "MY_KEY").key_variable == "MY_KEY"


def test_a_vendor_with_a_header_of_its_own_gets_no_bearer_token() -> None:
    found = endpoint("--preset", "anthropic", responses=False)
    assert found.config.key is None
    assert found.config.headers["x-api-key"] == KEY
    assert "anthropic-version" in found.config.headers


def test_a_preset_with_a_url_per_customer_uses_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRESETS["azure"].key_variable, KEY)
    url = "https://mine.openai.azure.com/openai/v1"
    assert endpoint("--preset", "azure", "--base-url", url).display_url == url


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "anthropic"], "start the gateway with `penstock serve --preset anthropic`"),
        (["--preset", "opnai"], "--preset: .*openai"),
        (["--preset", "azure"], "add your URL: --base-url https://{resource}"),
        (["--preset", "openai", "--base-url", "http://x"], "use --base-url or --preset, not both"),
        (["--preset", "openai", "--api-key-env", "NOT_SET"], "NOT_SET is unset or empty"),
        (["--api-key-env", "EMPTY"], "--api-key-env: the variable EMPTY is unset or empty"),
        (["--api-key-env", "BROKEN"], "BROKEN is not a valid key"),
        (["--base-url", "ftp://x"], "--base-url: .*starts with http"),
        (["--base-url", "http://me:secret@x"], "use --api-key-env NAME instead"),
        (["--override", "nonsense"], "--override: an override must have the form"),
    ],
)
def test_wrong_options_are_refused_before_a_request(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        endpoint(*arguments)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "is_probed"), [("http://127.0.0.1:1/v1", True), ("http://example.org/v1", False)]
)
def test_only_a_local_server_is_probed_for_loaded_models(
    url: str, is_probed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: dict[str, Any] = {}
    monkeypatch.setattr(directory, "ModelDirectory", lambda _client, **options: created.update(options))
    client = cast(OpenResponsesClient, object())
    endpoint("--base-url", url, "--override", "m = window:32k").directory(client)
    assert (created["fetcher"] is client) is is_probed
    assert [override.id for override in created["overrides"]] == ["m"]


def test_presets_with_an_additional_responses_api_use_chat_completions_by_default() -> None:
    assert {row.dialect for row in PRESETS.values() if row.also_responses} == {"chat"}
