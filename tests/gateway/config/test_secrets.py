"""Secrets in `penstock.toml`: they come from environment variables, and no error repeats them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.file import read_settings
from penstock.gateway.http.access import key_digest
from tests.gateway.config.reading import LOCAL, errors, read

SECRETS = [
    "sk-proj-abcDEF123",
    "sk_live_51Hxyz",
    "gsk_AbCdEfGh1234567890",
    "hf_abcdefghijkl",
    "AIzaSyA1234567890",
    "AKIAIOSFODNN7EXAMPLE",
    "0123456789abcdef0123456789abcdef",
    "deadbeefdeadbeef1234",
    "xai-1234",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "Bearer abc",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("passing", ["", "pass_key = true\n"])
def test_a_key_in_the_file_is_an_error_that_does_not_repeat_it(secret: str, passing: str) -> None:
    (error,) = errors(LOCAL + passing + f'keys = ["{secret}"]')
    assert "put it into a variable" in error
    assert secret not in error


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "my_key", "AWS_BEARER_TOKEN_BEDROCK", "KEY2", "MyToken"])
def test_an_unset_variable_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"variable {name} is unset"):
        read_settings(LOCAL + f'keys = ["{name}"]', file="", environment={})


def test_a_variable_may_have_any_name_if_it_is_set() -> None:
    (target,) = read(LOCAL + 'keys = ["sk_live_51Hxyz"]', sk_live_51Hxyz="the key").targets
    assert target.keys == ("the key",)


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Cookie"])
def test_a_secret_header_names_a_variable(header: str) -> None:
    text = LOCAL + f'[targets.local.headers]\n{header} = "Bearer %s"'
    (error,) = errors(text % "planted")
    assert error.startswith(f"4: targets.local.headers.{header}: is a secret")
    assert "planted" not in error
    (target,) = read(text % "${CUSTOMER_TOKEN}").targets
    assert target.headers == {header: "Bearer customer-secret"}


def test_a_secret_anywhere_else_is_not_repeated() -> None:
    secret = "pk_planted-0123456789"
    for line in ("keys = %s", "pass_key = %s", "idle_timeout = %s", "ca_file = %s", "headers = %s"):
        assert secret not in "".join(errors(LOCAL + line % f'"{secret}"'))
    assert secret not in "".join(errors(f'[targets.x]\nbase_url = "{secret}"'))
    assert secret not in "".join(errors(f'[targets.x]\nbase_url = ["{secret}"]'))
    assert secret not in "".join(errors(f'[[keys]]\nname = "a"\nhash = "{secret}"'))
    assert secret not in "".join(errors(f'[limits]\nbody_bytes = "{secret}"'))


def test_a_dollar_can_be_escaped() -> None:
    (target,) = read(LOCAL + '[targets.local.headers]\nprice = "5$$ and $CUSTOMER_TOKEN"').targets
    assert target.headers == {"price": "5$ and customer-secret"}


def test_a_password_of_a_proxy_comes_from_the_environment() -> None:
    (target,) = read(LOCAL + 'proxy = "http://me:$CUSTOMER_TOKEN@proxy:3128"').targets
    assert target.proxy == "http://me:customer-secret@proxy:3128"
    assert "customer-secret" not in repr(target)


def test_values_of_variables_are_treated_as_secrets() -> None:
    text = '[targets.a]\nbase_url = "http://127.0.0.1:1"\nproxy = "http://me:$PASS@127.0.0.1:2"\n'
    text += 'headers.x-tenant = "$TENANT"\nheaders.x-route = "to ${ROUTE}, $$5"\nheaders.x-title = "a word"\n'
    environment = {"TENANT": "tenant-1", "ROUTE": "route-1", "PASS": "word-of-pass", "OTHER": "other-one"}
    (target,) = read_settings(text, file="penstock.toml", environment=environment).targets
    assert target.headers["x-route"] == "to route-1, $5"
    assert set(target.secrets) == {"tenant-1", "route-1", "word-of-pass"}
    assert "tenant-1" not in repr(target)


def test_every_secret_may_be_in_a_file(tmp_path: Path) -> None:
    names = ("MODEL_KEY", "CUSTOMER", "STORE_PASSWORD", "METRICS_TOKEN", "GROQ_API_KEY")
    environment: dict[str, str] = {}
    for name in names:
        (tmp_path / name).write_text(f"secret of {name}\n")
        environment[f"{name}_FILE"] = str(tmp_path / name)
    text = '[server]\nmetrics_token_env = "METRICS_TOKEN"\n'
    text += '[store]\nurl = "postgresql://penstock:$STORE_PASSWORD@db/penstock"\n'
    text += LOCAL + 'keys = ["MODEL_KEY"]\nheaders = { X-Customer = "$CUSTOMER" }\n'
    text += '[targets.groq]\npreset = "groq"\n'
    settings = read_settings(text, file="", environment=environment)
    local, groq = settings.targets
    assert (local.keys, groq.keys) == (("secret of MODEL_KEY",), ("secret of GROQ_API_KEY",))
    assert local.headers == {"X-Customer": "secret of CUSTOMER"}
    assert local.secrets == ("secret of CUSTOMER",), "it is masked"
    assert "secret%20of%20STORE_PASSWORD" in settings.store
    assert settings.metrics_digest == key_digest("secret of METRICS_TOKEN")


def test_a_file_that_cannot_be_read_is_reported_with_the_line(tmp_path: Path) -> None:
    text = LOCAL + 'keys = ["MODEL_KEY"]\nheaders = { X-Customer = "$CUSTOMER" }'
    environment = {"MODEL_KEY_FILE": str(tmp_path / "no"), "CUSTOMER_FILE": str(tmp_path / "no")}
    with pytest.raises(ConfigError) as caught:
        read_settings(text, file="", environment=environment)
    key, header = (str(error) for error in caught.value.errors)
    assert "keys[0]: the environment variable MODEL_KEY_FILE names a file that cannot be read" in key
    assert "headers.X-Customer: the environment variable CUSTOMER_FILE names a file" in header
