"""`penstock.toml`: every setting, and the errors for what is wrong in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import settings as effort

from penstock.dialects.presets import PRESETS
from penstock.errors import ConfigError
from penstock.gateway.config.file import LIMITS, SERVER, TELEMETRY, TOP, find_config, load_settings
from penstock.gateway.config.keys import KEY
from penstock.gateway.config.models import MODEL
from penstock.gateway.config.routing import ROUTING
from penstock.gateway.config.targets import TARGET
from penstock.gateway.settings import Limits, ModelRoute, RouteStep, Routing, Settings
from tests.effort import examples
from tests.gateway.config.documents import DOCUMENTS, WRONG, written_document
from tests.gateway.config.reading import ENVIRONMENT, PAGE, errors, read, read_or_errors


def example(folder: Path) -> Settings:
    """The example of the documentation, in a folder with the files that it names."""
    authority = trustme.CA()
    certificate = authority.issue_cert("client.example")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "client.pem")
    certificate.private_key_pem.write_to_path(folder / "client.key")
    own = authority.issue_cert("gateway.internal")
    own.cert_chain_pems[0].write_to_path(folder / "gateway.pem")
    own.private_key_pem.write_to_path(folder / "gateway.key")
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    file = folder / "penstock.toml"
    file.write_text(found[1])
    return load_settings(file, ENVIRONMENT)


def test_an_empty_file_is_the_default() -> None:
    assert read("") == Settings()


def test_the_web_page_can_be_turned_off() -> None:
    assert read("[server]\ninspector = false").inspector is False
    assert read("[server]\ninspector = true") == Settings()


def test_the_example_in_the_documentation_is_read_as_documented(tmp_path: Path) -> None:
    settings = example(tmp_path)
    assert settings.default_model == "fast"
    assert (settings.tls_cert, settings.tls_key) == (
        str(tmp_path / "gateway.pem"),
        str(tmp_path / "gateway.key"),
    )
    assert settings.passthrough == "router"
    assert settings.allowed_origins == ("https://app.example", "http://localhost:3000")
    assert settings.limits == Limits()
    assert settings.routing == Routing()
    assert [target.spread_keys for target in settings.targets] == [True, False, True]
    claude, router, local = settings.targets
    assert (claude.dialect, claude.keys, claude.key_header) == ("anthropic", ("sk-ant",), "x-api-key")
    assert claude.base_url == PRESETS["anthropic"].base_url
    assert router.keys == ("sk-or-1", "sk-or-2")
    assert router.headers == {"X-Title": "Penstock", "X-Customer": "customer-secret"}
    assert router.proxy == ""
    assert router.quirks.reasoning_details
    assert not router.quirks.parallel_tool_calls
    assert router.quirks.effort == PRESETS["openrouter"].quirks.effort
    assert (router.connect_timeout, router.first_byte_timeout, router.idle_timeout) == (10, 600, 600)
    assert (local.dialect, local.keys, local.proxy) == ("chat", (), None)
    assert local.ca_file == str(tmp_path / "ca.pem")
    assert local.client_key == str(tmp_path / "client.key")
    assert settings.models == {
        "fast": ModelRoute(name="fast", steps=(RouteStep("local", "qwen3-32b"),)),
        "best": ModelRoute(
            name="best",
            steps=(RouteStep("claude", "claude-opus-4-7"), RouteStep("router", "anthropic/claude-opus-4.7")),
        ),
        "fastest": ModelRoute(
            name="fastest",
            steps=(
                RouteStep("local", "qwen3-32b", 3.0),
                RouteStep("router", "qwen/qwen3-32b", is_alternative=True),
                RouteStep("claude", "claude-haiku-4-5"),
            ),
        ),
    }
    assert settings.aliases == {"gpt-5": "best", "claude-sonnet-4-5": "fast"}
    assert settings.accents == {"my-agent/": "openai"}
    (override,) = settings.overrides
    assert (override.id, override.facts.window, override.facts.image_input) == ("fast", 128_000, False)
    key, operator = settings.keys
    assert (key.name, key.digest.hex()[:8], key.accent) == ("laptop", "9f86d081", "openai")
    assert (key.admin, operator.admin) == (False, True)


def test_the_example_has_every_setting() -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    for name in {*TOP, *SERVER, *LIMITS, *ROUTING, *TELEMETRY, *TARGET, *MODEL, *KEY}:
        assert re.search(rf"(?m)^{name} =|^\[+{name}|^\[targets\.\w+\.{name}\]", found[1]), name


def test_a_certificate_that_cannot_be_used_is_an_error_with_its_line(tmp_path: Path) -> None:
    example(tmp_path)
    file = tmp_path / "tls.toml"
    file.write_text('[server]\nport = 1\ntls_cert = "gateway.pem"\ntls_key = "client.key"\n')
    with pytest.raises(ConfigError) as caught:
        load_settings(file, {})
    assert (caught.value.line, caught.value.message[:32]) == (3, "server.tls_cert: cannot be used ")


def test_a_certificate_needs_its_key_and_both_must_exist() -> None:
    missing = "there is no such file; a relative path starts at the configuration's folder"
    assert errors('[server]\ntls_cert = "nowhere.pem"\ntls_key = "nowhere.key"\n') == [
        f"2: server.tls_cert: {missing}",
        f"3: server.tls_key: {missing}",
    ]
    assert "2: server.tls_key: also needs tls_cert" in errors('[server]\ntls_key = "nowhere.key"\n')
    assert "2: server.tls_cert: also needs tls_key" in errors('[server]\ntls_cert = "nowhere.pem"\n')


def test_every_limit_can_be_set() -> None:
    assert set(LIMITS) == set(Limits.__struct_fields__)


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_error_has_its_line_and_a_remedy(text: str, message: str) -> None:
    (error,) = errors(text)
    assert error.startswith(message)


def test_all_errors_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """\
default_model = "nothing"
[aliases]
a = "b"
b = "a"
[targets.one]
base_url = "ftp://x"
dialekt = "chat"
keys = ["NOT_SET", "OPENAI_API_KEY", "NOR_THIS"]
[models.m]
targets = ["one", "two"]
"""
    assert [error.partition(" ")[0] for error in errors(text)] == [
        "1:",
        "3:",
        "4:",
        "6:",
        "7:",
        "8:",
        "8:",
        "10:",
    ]
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert (caught.value.line, caught.value.file) == (1, "penstock.toml")


def test_the_file_is_the_named_one_or_in_the_working_folder_or_the_users_settings(tmp_path: Path) -> None:
    here, config, home = tmp_path / "here", tmp_path / "config", tmp_path / "home"
    environment = {"XDG_CONFIG_HOME": str(config), "HOME": str(home)}
    here.mkdir()
    assert find_config(here, environment) is None
    for folder, setting in ((home / ".config", {"HOME": str(home)}), (config, environment)):
        (folder / "penstock").mkdir(parents=True)
        (folder / "penstock" / "penstock.toml").touch()
        assert find_config(here, setting) == folder / "penstock" / "penstock.toml"
    assert (
        find_config(here, {"XDG_CONFIG_HOME": "relative", "HOME": str(home)})
        == home / ".config/penstock/penstock.toml"
    )
    (here / "penstock.toml").touch()
    assert find_config(here, environment) == here / "penstock.toml"
    assert find_config(here, {}) == here / "penstock.toml"
    assert find_config(here, {**environment, "PENSTOCK_CONFIG": " "}) == here / "penstock.toml"
    named = tmp_path / "named.toml"
    assert find_config(here, {**environment, "PENSTOCK_CONFIG": str(named)}) == named
    assert find_config(here, {"PENSTOCK_CONFIG": "other.toml"}) == here / "other.toml"


def test_a_file_that_cannot_be_read_is_an_error_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"toml: cannot be read: No such file") as caught:
        load_settings(tmp_path / "penstock.toml", {})
    assert caught.value.line == 0
    (tmp_path / "penstock.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_settings(tmp_path / "penstock.toml", {})
    (tmp_path / "penstock.toml").write_bytes(b"\xef\xbb\xbf[server]\r\nport = 1\r\n")
    assert load_settings(tmp_path / "penstock.toml", {}).port == 1


@given(DOCUMENTS)
@effort(max_examples=examples(400))
def test_any_document_is_read_or_has_errors_with_lines(document: dict[str, object]) -> None:
    text = written_document(document)
    settings, found = read_or_errors(text)
    assert settings is not None or found
    assert all(1 <= each.line <= len(document) for each in found)
