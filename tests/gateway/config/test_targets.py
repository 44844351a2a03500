"""`[targets]` in `penstock.toml`: addresses, keys, certificates, quirks and timeouts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.plan import Quirks
from tests.gateway.config.reading import LOCAL, PAGE, errors, read


@pytest.mark.parametrize("name", ["ca_file", "client_cert"])
def test_a_file_that_is_not_a_certificate_is_an_error(name: str) -> None:
    (error,) = errors(f'{LOCAL}{name} = "{PAGE}"')
    assert error.startswith(f"3: targets.local.{name}: cannot be used: ")


def test_a_client_key_needs_a_client_certificate() -> None:
    (error,) = errors(f'{LOCAL}client_key = "{PAGE}"')
    assert error == "3: targets.local.client_key: also needs client_cert"


def test_the_key_of_a_preset_is_used_if_it_is_set() -> None:
    text = '[targets.a]\npreset = "openai"\n'
    assert read(text).targets[0].keys == ("sk-openai",)
    assert read(text, OPENAI_API_KEY=" ").targets[0].keys == ()
    assert read(text + "keys = []").targets[0].keys == ()


@pytest.mark.parametrize("url", ["https://elsewhere.example/v1", "https://api.openai.com.evil.example/v1"])
def test_the_key_of_a_preset_is_not_sent_to_another_address_by_default(url: str) -> None:
    text = f'[targets.a]\npreset = "openai"\nbase_url = "{url}"\n'
    (error,) = errors(text)
    assert error.startswith("3: targets.a.base_url: is not OpenAI's own address")
    assert read(text + 'keys = ["OPENAI_API_KEY"]').targets[0].keys == ("sk-openai",)
    assert read(text + "keys = []").targets[0].keys == ()
    assert read(text + "pass_key = true").targets[0].keys == ()
    assert read(text, OPENAI_API_KEY="").targets[0].keys == ()


@pytest.mark.parametrize("url", ["https://api.openai.com/v1/", "http://127.0.0.1:9000/v1"])
def test_the_key_of_a_preset_goes_to_its_vendor_and_to_this_machine(url: str) -> None:
    assert read(f'[targets.a]\npreset = "openai"\nbase_url = "{url}"').targets[0].keys == ("sk-openai",)


def test_a_preset_with_a_placeholder_uses_its_key_at_the_given_address() -> None:
    text = '[targets.a]\npreset = "azure"\nbase_url = "https://me.openai.azure.com/openai/v1"'
    (target,) = read(text, AZURE_OPENAI_API_KEY="azure-key").targets
    assert (target.keys, target.key_header, target.dialect) == (("azure-key",), "api-key", "responses")


def test_a_target_that_passes_keys_may_have_none_set() -> None:
    (target,) = read(LOCAL + 'pass_key = true\nkeys = ["NOT_SET", "SPARE_KEY"]').targets
    assert (target.pass_key, target.keys) == (True, ("sk-or-2",))


@pytest.mark.parametrize(
    ("text", "names", "missing"),
    [
        ('preset = "openai"', ("OPENAI_API_KEY",), "set OPENAI_API_KEY"),
        ('preset = "mistral"', (), "set MISTRAL_API_KEY"),
        (
            'preset = "openai"\nkeys = ["SPARE_KEY", "OPENAI_API_KEY"]',
            ("SPARE_KEY", "OPENAI_API_KEY"),
            "a.keys",
        ),
        ('preset = "openai"\nkeys = ["SPARE_KEY", "SPARE_KEY"]', ("SPARE_KEY",), "a.keys"),
        (
            'base_url = "http://127.0.0.1:1"',
            (),
            "add the name of the key's variable to targets.a.keys",
        ),
    ],
)
def test_a_target_knows_the_variables_of_its_keys(text: str, names: tuple[str, ...], missing: str) -> None:
    (target,) = read(f"[targets.a]\n{text}\n").targets
    assert target.key_names == names
    assert len(target.keys) == len(names)
    assert target.missing_key.endswith(missing)


@pytest.mark.parametrize(
    ("dialect", "header"),
    [("chat", "bearer"), ("responses", "bearer"), ("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")],
)
def test_each_dialect_has_its_own_key_header(dialect: str, header: str) -> None:
    assert read(LOCAL + f'dialect = "{dialect}"').targets[0].key_header == header
    assert read(LOCAL + f'dialect = "{dialect}"\nkey_header = "bearer"').targets[0].key_header == "bearer"


def test_every_quirk_can_be_set() -> None:
    flipped: dict[str, Any] = {
        name: not value if isinstance(value, bool) else "template" if name == "effort" else "field"
        for name, value in ((name, getattr(Quirks(), name)) for name in Quirks.__struct_fields__)
    }
    lines = "\n".join(
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {str(value).lower()}"
        for name, value in flipped.items()
    )
    assert read(f"{LOCAL}[targets.local.quirks]\n{lines}").targets[0].quirks == Quirks(**flipped)


def test_no_time_limit_is_zero_or_off() -> None:
    (target,) = read(LOCAL + 'connect_timeout = 0\nfirst_byte_timeout = "off"\nidle_timeout = "90s"').targets
    assert (target.connect_timeout, target.first_byte_timeout, target.idle_timeout) == (None, None, 90)
