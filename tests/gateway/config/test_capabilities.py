"""What a model can do, written to `penstock.toml`."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.gateway.config.capabilities import merged_limits, with_capabilities

FILE = b"""\
# our gateway
passthrough = "local"   # everything else

[targets.local]
base_url = "http://127.0.0.1:9/v1"

[models.fast]  # the small one
target = "local"
limits = 'window:32k tools'  # measured

[models.big]
target = "local"

[aliases]
std = "fast"
"""

MERGED = [
    ("", {"tools": True}, "tools"),
    ("window:32k", {"tools": False, "reasoning": True}, "window:32k no-tools reasoning"),
    ("no-tools window:32k", {"tools": True}, "tools window:32k"),
    ("tools", {"tools": True}, "tools"),
    ("window:32k", {}, "window:32k"),
]


@pytest.mark.parametrize(("limits", "abilities", "expected"), MERGED)
def test_limits_are_merged(limits: str, abilities: dict[str, bool], expected: str) -> None:
    assert merged_limits(limits, abilities) == expected


def changed(data: bytes, model: str, **abilities: bool) -> bytes:
    return with_capabilities(data, model, "local", abilities, "penstock.toml")[0]


def test_a_value_is_replaced_and_everything_else_stays() -> None:
    new = changed(FILE, "fast", tools=False)
    assert new == FILE.replace(b"'window:32k tools'", b'"window:32k no-tools"')


def test_a_line_is_added_to_the_table() -> None:
    new = changed(FILE, "big", reasoning=True)
    table = b'[models.big]\ntarget = "local"\n'
    assert new == FILE.replace(table, table + b'limits = "reasoning"\n')


def test_a_table_is_added_for_a_model_that_only_the_target_names() -> None:
    new = changed(FILE, "org/model:7b", tools=False)
    assert new == FILE + b'\n[models."org/model:7b"]\ntarget = "local"\nlimits = "no-tools"\n'


def test_the_second_time_nothing_changes() -> None:
    for model in ("fast", "big", "new"):
        once = changed(FILE, model, tools=False, reasoning=True)
        assert once != FILE
        assert changed(once, model, tools=False, reasoning=True) == once


def test_line_ends_and_the_mark_at_the_start_stay() -> None:
    windows = b"\xef\xbb\xbf" + FILE.replace(b"\n", b"\r\n")
    for model in ("fast", "big", "new"):
        new = changed(windows, model, tools=False)
        assert new.startswith(b"\xef\xbb\xbf")
        assert new.count(b"\n") == new.count(b"\r\n")
    assert changed(FILE.rstrip(b"\n"), "new", tools=True).count(b"[models.new]") == 1
    assert changed(b'[models.x]\ntarget = "local"', "x", tools=True).endswith(b'"local"\nlimits = "tools"\n')


REFUSED = [
    b'models = { x = { target = "local" } }\n',
    b'[models]\nx = { target = "local" }\n',
    b'[models.x]\ntarget = "local"\nlimits = """\nwindow:32k"""\n',
]


@pytest.mark.parametrize("data", REFUSED)
def test_an_edit_that_would_change_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match="cannot be changed safely: write limits = "):
        changed(data, "x", tools=False)
