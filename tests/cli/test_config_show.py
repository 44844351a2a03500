"""The lines of `penstock config show`."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path

from penstock.cli.config_show import as_json, as_toml
from penstock.gateway.config.effective import EffectiveSetting, SettingOrigin

LINE = SettingOrigin("file", "penstock.toml:7")


def setting(
    name: str, value: object, *table: str | int, origin: SettingOrigin = LINE, unset: tuple[str, ...] = ()
) -> EffectiveSetting:
    return EffectiveSetting(table=table, name=name, value=value, origin=origin, unset=unset)


def test_origins_are_comments_in_one_column() -> None:
    settings = [
        setting("default_model", "fast"),
        setting("host", "127.0.0.1", "server", origin=SettingOrigin("variable", "PENSTOCK_HOST")),
        setting("port", 8080, "server", origin=SettingOrigin("default")),
        setting("tls_cert", None, "server"),
        setting("dialect", "chat", "targets", "a.b", origin=SettingOrigin("preset", "groq")),
        setting("keys", ["A", "B"], "targets", "a.b", unset=("A", "B")),
        setting("expires", date(2027, 1, 31), "keys", 0),
        setting("admin", True, "keys", 1),
    ]
    lines = list(as_toml(settings, 80))
    assert "\n".join(lines) == (
        """\
default_model = "fast"  # penstock.toml:7

[server]
host = "127.0.0.1"  # PENSTOCK_HOST
port = 8080         # default

[targets."a.b"]
dialect = "chat"   # preset groq
keys = ["A", "B"]  # penstock.toml:7; A is not set; B is not set

[[keys]]
expires = 2027-01-31  # penstock.toml:7

[[keys]]
admin = true  # penstock.toml:7"""
    )


def test_a_comment_that_does_not_fit_is_above_its_setting() -> None:
    lines = list(as_toml([setting("store", "/" + "x" * 70), setting("n", 1)], 80))
    assert lines == ["# penstock.toml:7", f'store = "/{"x" * 70}"', "n = 1  # penstock.toml:7"]


def test_every_name_and_value_is_written_as_toml() -> None:
    values = {"*": 'a "b" \\ c', "ü": "line\nbreak\x1b", "a b": [1, 2.5, "x"], "z": False}
    text = "\n".join(as_toml([setting(name, value, "aliases") for name, value in values.items()], 80))
    assert tomllib.loads(text) == {"aliases": values}


def test_json_has_a_row_for_every_setting() -> None:
    settings = [
        setting("tls_cert", None, "server", origin=SettingOrigin("default")),
        setting("name", "x", "keys", 0),
    ]
    assert json.loads(as_json(settings, Path("a.toml"))) == {
        "file": "a.toml",
        "settings": [
            {"setting": "server.tls_cert", "value": None, "origin": "default", "where": None},
            {"setting": "keys[0].name", "value": "x", "origin": "file", "where": "penstock.toml:7"},
        ],
    }
