"""The options of `penstock serve` and the configuration file: both become one `Settings`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.options import OptionError, ServeOptions, reloaded_settings, settings_from
from penstock.gateway.settings import ModelRoute, RouteStep, Settings
from penstock.upstream.target import UpstreamTarget

FILE = """
default_model = "mine"
[server]
host = "127.0.0.2"
port = 1234
log_level = "debug"
[targets.upstream]
base_url = "http://127.0.0.1:1/v1"
[models.mine]
target = "upstream"
"""


def read(file: Path | None = None, /, **options: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "sk-openai", "MY_KEY": "sk-mine ", "EMPTY": " "}
    return settings_from(ServeOptions(**options), file, environment)


def only_target(**options: Any) -> UpstreamTarget:
    (target,) = read(**options).targets
    return target


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    path.write_text(FILE)
    return path


def test_options_override_the_file_and_the_rest_of_it_stays(file: Path) -> None:
    settings = read(file, port=0, store="none", record=True)
    assert (settings.host, settings.port, settings.log_level) == ("127.0.0.2", 0, "debug")
    assert (settings.store, settings.record, settings.default_model) == ("none", True, "mine")
    assert read(file).port == 1234
    assert read() == Settings()


def test_variables_override_the_file_and_options_override_variables(file: Path) -> None:
    environment = {"PENSTOCK_HOST": "127.0.0.3", "PENSTOCK_PORT": " 0 "}
    settings = settings_from(ServeOptions(), file, environment)
    assert (settings.host, settings.port) == ("127.0.0.3", 0)
    assert settings_from(ServeOptions(), None, environment).host == "127.0.0.3"
    settings = settings_from(ServeOptions(host="127.0.0.4", port=5), file, environment)
    assert (settings.host, settings.port) == ("127.0.0.4", 5)
    settings = settings_from(ServeOptions(), file, {"PENSTOCK_HOST": "", "PENSTOCK_PORT": ""})
    assert (settings.host, settings.port) == ("127.0.0.2", 1234)


@pytest.mark.parametrize("text", ["x", "-1", "65536", "80 80", "٣"])
def test_a_variable_that_is_not_a_port_is_refused_unless_an_option_overrides_it(text: str) -> None:
    with pytest.raises(OptionError, match="PENSTOCK_PORT: must be a number from 0 to 65535"):
        settings_from(ServeOptions(), None, {"PENSTOCK_PORT": text})
    assert settings_from(ServeOptions(port=1), None, {"PENSTOCK_PORT": text}).port == 1


def test_an_upstream_without_models_takes_every_name() -> None:
    settings = read(upstream="http://127.0.0.1:8999")
    assert settings.passthrough == "upstream"
    assert settings.route_of("anything") == ModelRoute(name="anything", steps=(RouteStep("upstream"),))


def test_named_models_are_routed_and_the_first_is_the_default(file: Path) -> None:
    settings = read(upstream="http://127.0.0.1:8999", models=("a", "b"))
    assert (list(settings.models), settings.default_model, settings.passthrough) == (["a", "b"], "a", "")
    merged = read(file, upstream="http://127.0.0.1:8999", models=("a",))
    assert (list(merged.models), merged.default_model) == (["mine", "a"], "mine")
    (target,) = merged.targets  # the option replaces the target of the same name
    assert target.base_url == "http://127.0.0.1:8999"


def test_a_vendors_key_goes_to_the_vendor_only() -> None:
    assert only_target(preset="openai").keys == ("sk-openai",)
    assert only_target(upstream="https://api.openai.com/v1").keys == ("sk-openai",)
    elsewhere = only_target(preset="openai", upstream="https://elsewhere.example/v1")
    assert (elsewhere.keys, elsewhere.pass_key) == ((), True)
    named = only_target(
        preset="openai", upstream="https://elsewhere.example/v1", api_key_env="OPENAI_API_KEY"
    )
    assert (named.keys, named.pass_key) == (("sk-openai",), False)
    assert only_target(upstream="http://127.0.0.1:1", api_key_env="MY_KEY").keys == ("sk-mine",)


def test_an_address_of_a_vendor_brings_its_preset() -> None:
    """Its quirks are needed there, whether or not the preset is named."""
    found = only_target(upstream="https://api.anthropic.com/v1")
    assert (found.name, found.dialect, found.key_header) == ("anthropic", "anthropic", "x-api-key")
    unknown = only_target(upstream="http://127.0.0.1:8999/v1")
    assert (unknown.name, unknown.preset, unknown.dialect) == ("upstream", "", "chat")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"models": ("m",)}, "--upstream URL or --preset NAME"),
        ({"dialect": "chat"}, "add --upstream URL"),
        ({"api_key_env": "MY_KEY"}, "add --upstream URL"),
        ({"preset": "nobody"}, '--preset: there is no preset called "nobody"'),
        ({"preset": "azure"}, "--upstream https://"),
        ({"upstream": "ftp://x"}, "--upstream: "),
        ({"upstream": "http://[::1"}, "--upstream: "),
        ({"upstream": "http://127.0.0.1:1", "models": ("demo",)}, "--model: demo"),
        ({"upstream": "http://127.0.0.1:1", "api_key_env": "UNSET"}, "UNSET"),
        ({"upstream": "http://127.0.0.1:1", "api_key_env": "EMPTY"}, "EMPTY"),
        ({"host": "0.0.0.0"}, "penstock keys create"),
        ({"host": "::"}, "penstock keys create"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_that_cannot_work_name_the_option(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(**options)
    assert words in str(caught.value)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text", "environment", "source"),
    [
        ({"host": "0.0.0.0"}, "", {}, "--host"),
        ({}, "", {"PENSTOCK_HOST": "0.0.0.0"}, "PENSTOCK_HOST"),
        ({}, '[server]\nhost = "0.0.0.0"\n', {}, "penstock.toml: server.host"),
    ],
)
def test_an_address_that_needs_keys_is_reported_with_its_source(
    tmp_path: Path, options: dict[str, Any], text: str, environment: dict[str, str], source: str
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=f"{source} 0.0.0.0: anyone who can reach"):
        settings_from(ServeOptions(**options), path, environment)


@pytest.mark.parametrize("has_file", [True, False])
def test_an_invalid_proxy_variable_is_not_an_error_of_the_file_or_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1")
    path = tmp_path / "penstock.toml"
    path.write_text('[targets.far]\nbase_url = "https://far.example/v1"\n')
    options = ServeOptions() if has_file else ServeOptions(upstream="https://far.example/v1")
    with pytest.raises((ConfigError, OptionError), match=r"^HTTPS_PROXY: a socks5 proxy is not supported"):
        settings_from(options, path if has_file else None, {})


def test_with_keys_the_gateway_may_be_exposed(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(f'[[keys]]\nname = "a"\nhash = "sha256:{"ab" * 32}"\n')
    assert read(path, host="0.0.0.0").host == "0.0.0.0"


def test_a_reload_reports_every_problem_as_one_of_the_settings(file: Path) -> None:
    """The options were right when the gateway started: now the file contradicts them."""
    with pytest.raises(ConfigError, match="penstock keys create") as caught:
        reloaded_settings(ServeOptions(host="0.0.0.0"), file, {})
    assert (caught.value.file, caught.value.line) == (str(file), 0)
    with pytest.raises(ConfigError, match="the options"):
        reloaded_settings(ServeOptions(dialect="chat"), None, {})
    file.write_text("prot = 1\n")
    with pytest.raises(ConfigError) as caught:
        reloaded_settings(ServeOptions(), file, {})
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("options", "names", "missing"),
    [
        ({"preset": "openai"}, ("OPENAI_API_KEY",), "set OPENAI_API_KEY"),
        ({"preset": "openai", "api_key_env": "MY_KEY"}, ("MY_KEY",), "set MY_KEY"),
        ({"preset": "anthropic"}, (), "set ANTHROPIC_API_KEY"),
        ({"upstream": "http://127.0.0.1:1"}, (), "start the gateway with --api-key-env NAME"),
    ],
)
def test_a_target_knows_the_variable_of_its_key(
    options: dict[str, Any], names: tuple[str, ...], missing: str
) -> None:
    target = only_target(**options)
    assert (target.key_names, target.missing_key) == (names, missing)
    assert len(target.keys) == len(names)


def test_addresses_with_passwords_may_be_in_files(tmp_path: Path) -> None:
    urls = {"PENSTOCK_STORE": "postgresql://me:secret@db/penstock", "PENSTOCK_REDIS": "redis://:secret@cache"}
    environment = {"OPENAI_API_KEY_FILE": str(tmp_path / "key")}
    (tmp_path / "key").write_text("sk-in-a-file\n")
    for name, url in urls.items():
        (tmp_path / name).write_text(f"{url}\n")
        environment[f"{name}_FILE"] = str(tmp_path / name)
    settings = settings_from(ServeOptions(preset="openai"), None, environment)
    assert [settings.store, settings.redis] == list(urls.values())
    assert settings.targets[0].keys == ("sk-in-a-file",)
    (tmp_path / "key").unlink()
    with pytest.raises(ConfigError, match="OPENAI_API_KEY_FILE: names a file that cannot be read"):
        settings_from(ServeOptions(preset="openai"), None, environment)
