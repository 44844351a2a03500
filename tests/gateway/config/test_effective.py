"""The settings with which a gateway would start, and their origins."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.cli.config_show import as_toml
from penstock.errors import ConfigError
from penstock.gateway.config.effective import EffectiveSetting, SettingOrigin, effective_settings
from penstock.gateway.config.file import LIMITS, SERVER, TELEMETRY, load_settings, read_settings
from penstock.gateway.config.options import OptionError, ServeOptions
from penstock.gateway.config.routing import ROUTING
from penstock.gateway.config.store import STORE
from penstock.gateway.config.targets import TARGET
from penstock.gateway.config.values import dotted
from penstock.gateway.settings import Settings

SECRET = "sk-planted-0123456789"
ENVIRONMENT = {"HOME": "/home/anna", "ONE": SECRET, "GROQ_API_KEY": SECRET, "TOKEN": SECRET}
FILE = f"""\
default_model = "fast"
[server]
metrics = "[::1]:9464"
metrics_token_env = "TOKEN"
store = "none"
[limits]
client_timeout = "off"
[targets.groq]
preset = "groq"
quirks.images = false
[targets.mine]
base_url = "http://127.0.0.1:8000/v1?key={SECRET}"
keys = ["ONE", "OTHER"]
pass_key = true
proxy = "http://anna:{SECRET}@proxy.example:3128"
headers = {{ x-title = "{SECRET}", x-token = "Bearer $ONE" }}
[targets.inside]
base_url = "http://127.0.0.1:8001/v1"
proxy = "http://$ONE@proxy.example:3128"
[targets.direct]
base_url = "http://127.0.0.1:8002/v1"
proxy = ""
[models.fast]
target = "groq"
limits = "window:200k"
[models.slow]
target = "mine/large"
[aliases]
"*" = "fast"
[accents]
"my-agent/" = "openai"
[[keys]]
name = "laptop"
hash = "sha256:{"9f" * 32}"
previous_hash = "sha256:{"8e" * 32}"
previous_expires = 2027-01-31
"""


def settings_of(text: str, folder: Path, **options: object) -> dict[str, EffectiveSetting]:
    file = folder / "penstock.toml"
    file.write_text(text)
    given = ServeOptions(**options)  # type: ignore[arg-type]
    found = effective_settings(given, Path("penstock.toml") if text else None, ENVIRONMENT)
    return {dotted((*each.table, each.name)): each for each in found}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("default_model", "fast", 1),
        ("passthrough", None, 0),
        ("server.port", 8080, 0),
        ("server.metrics", "[::1]:9464", 3),
        ("server.metrics_token_env", "TOKEN", 4),
        ("server.store", "none", 5),
        ("server.tls_cert", None, 0),
        ("server.allowed_hosts", None, 0),
        ("limits.client_timeout", "off", 7),
        ("targets.groq.quirks.images", False, 10),
        ("targets.mine.base_url", "http://127.0.0.1:8000/v1", 12),
        ("targets.mine.keys", ["ONE", "OTHER"], 13),
        ("targets.mine.proxy", "http://proxy.example:3128", 15),
        ("targets.mine.headers.x-title", "set", 16),
        ("targets.mine.headers.x-token", "$ONE", 16),
        ("targets.mine.idle_timeout", 600.0, 0),
        ("targets.inside.keys", None, 0),
        ("targets.inside.proxy", "$ONE", 19),
        ("targets.direct.proxy", "", 22),
        ("models.fast.limits", "window:200k", 25),
        ("models.slow.target", "mine/large", 27),
        ('aliases."*"', "fast", 29),
        ('accents."my-agent/"', "openai", 31),
        ("keys[0].name", "laptop", 33),
        ("keys[0].hash", "set", 34),
        ("keys[0].previous_hash", "set", 35),
    ],
)
def test_a_setting_comes_from_its_line_or_is_a_default(
    folder: Path, name: str, value: object, line: int
) -> None:
    found = settings_of(FILE, folder)[name]
    assert found.value == value
    assert found.origin == (
        SettingOrigin("file", f"penstock.toml:{line}") if line else SettingOrigin("default")
    )


def test_a_preset_is_the_origin_of_what_it_sets(folder: Path) -> None:
    found = settings_of(FILE, folder)
    for name in ("base_url", "dialect", "key_header", "keys", "quirks.effort"):
        assert found[f"targets.groq.{name}"].origin == SettingOrigin("preset", "groq")
    assert found["targets.groq.preset"].origin == SettingOrigin("file", "penstock.toml:9")
    assert found["targets.groq.keys"].value == ["GROQ_API_KEY"]


def test_variables_that_are_not_set_are_named(folder: Path) -> None:
    found = settings_of(FILE, folder)
    assert found["targets.mine.keys"].unset == ("OTHER",)
    assert found["targets.groq.keys"].unset == ()


def test_no_secret_is_among_the_settings(folder: Path) -> None:
    for options in ({}, {"preset": "groq"}, {"upstream": f"http://127.0.0.1/v1?key={SECRET}"}):
        shown = str(settings_of(FILE, folder, **options))
        for secret in ("planted", "9f9f", "8e8e", "anna:"):
            assert secret not in shown


def test_every_setting_is_there(folder: Path) -> None:
    found = settings_of('[targets.x]\nbase_url = "http://127.0.0.1"\n', folder)
    expected = {"default_model", "passthrough", *(f"server.{name}" for name in SERVER)}
    expected |= {f"store.{name}" for name in STORE}
    expected |= {f"limits.{name}" for name in LIMITS}
    expected |= {f"routing.{name}" for name in ROUTING}
    expected |= {f"telemetry.{name}" for name in TELEMETRY}
    expected |= {f"targets.x.{name}" for name in TARGET if name not in ("headers", "quirks")}
    assert set(found) == expected
    assert found["server.store"].value == "/home/anna/.local/share/penstock/responses.sqlite"


def test_groups_are_shown_as_they_are_written(folder: Path) -> None:
    text = """\
[routing]
eject_after = "off"
[targets.a]
preset = "ollama"
[targets.b]
preset = "ollama"
[models.m]
targets = [[{ target = "a/x", weight = 2.5 }, "b"], "a"]
"""
    found = settings_of(text, folder)
    shown = "\n".join(as_toml(list(found.values()), 100))
    assert tomllib.loads(shown)["models"] == tomllib.loads(text)["models"]
    assert found["models.m.targets"].origin == SettingOrigin("file", "penstock.toml:8")
    assert found["routing.eject_after"].value == "off"


def test_the_store_is_shown_without_passwords(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "DATABASE_PASSWORD", "planted p@ssword")
    text = """
[store]
url = "postgresql://me:$DATABASE_PASSWORD@db.internal/penstock?pool_size=4"
redis = "redis://:$DATABASE_PASSWORD@cache.internal:6379/0"
"""
    found = settings_of(text, folder)
    assert found["store.url"].value == "postgresql://db.internal/penstock"
    assert found["store.url"].origin == SettingOrigin("file", "penstock.toml:3")
    assert found["store.redis"].value == "redis://cache.internal:6379/0"
    assert found["server.store"].value is None
    assert "planted" not in repr(found)
    found = settings_of(text, folder, store="postgresql://elsewhere/penstock")
    assert found["server.store"].value == "postgresql://elsewhere/penstock"
    assert found["server.store"].origin == SettingOrigin("option", "--store")


def test_options_and_variables_override_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "PENSTOCK_HOST", "127.0.0.2")
    monkeypatch.setitem(ENVIRONMENT, "PENSTOCK_PORT", "9001")
    found = settings_of(FILE, folder, port=9002, store="x.sqlite")
    assert (found["server.host"].value, found["server.port"].value) == ("127.0.0.2", 9002)
    assert found["server.host"].origin == SettingOrigin("variable", "PENSTOCK_HOST")
    assert found["server.port"].origin == SettingOrigin("option", "--port")
    assert found["server.store"].origin == SettingOrigin("option", "--store")


def test_the_target_of_the_options_replaces_one_of_the_file(folder: Path) -> None:
    found = settings_of(FILE, folder, preset="groq", dialect="responses", api_key_env="ONE")
    assert found["passthrough"].origin == SettingOrigin("option", "--preset")
    assert found["default_model"].origin == SettingOrigin("file", "penstock.toml:1")
    for name, origin in {
        "preset": SettingOrigin("option", "--preset"),
        "dialect": SettingOrigin("option", "--dialect"),
        "keys": SettingOrigin("option", "--api-key-env"),
        "base_url": SettingOrigin("preset", "groq"),
        "pass_key": SettingOrigin("default"),
    }.items():
        assert found[f"targets.groq.{name}"].origin == origin
    assert "targets.groq.quirks.images" not in found  # the file's


def test_models_of_the_options(folder: Path) -> None:
    found = settings_of("", folder, upstream="http://127.0.0.1:1/v1", models=("a", "b"))
    assert found["default_model"].value == "a"
    assert found["default_model"].origin == SettingOrigin("option", "--model")
    assert found["passthrough"].value is None
    assert found["passthrough"].origin == SettingOrigin("default")
    assert found["models.b.target"].value == "upstream/b"
    assert found["models.b.target"].origin == SettingOrigin("option", "--model")
    assert found["targets.upstream.base_url"].origin == SettingOrigin("option", "--upstream")


def test_invalid_settings_are_errors(folder: Path) -> None:
    with pytest.raises(ConfigError):
        settings_of("[server]\nprot = 1\n", folder)
    with pytest.raises(OptionError):
        settings_of("", folder, host="0.0.0.0")


def test_the_shown_file_has_the_same_effect(folder: Path) -> None:
    text = FILE.partition("[[keys]]")[0].replace(', "OTHER"', "").replace(f"?key={SECRET}", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("proxy", "headers")))

    def comparable(settings: Settings) -> Settings:
        targets = tuple(replace(each, missing_key="") for each in settings.targets)
        return replace(settings, targets=targets)

    shown = "\n".join(as_toml(list(settings_of(text, folder).values()), 80))
    before = load_settings(folder / "penstock.toml", ENVIRONMENT)
    after = read_settings(shown, file="shown.toml", environment=ENVIRONMENT)
    assert comparable(before) == comparable(after)
