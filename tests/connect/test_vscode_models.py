"""VS Code's chatLanguageModels.json: only our group changes."""

from __future__ import annotations

import json

import pytest

from penstock.connect.vscode_models import vscode_settings, with_vscode_group
from penstock.errors import ConfigError
from tests.connect.gateways import URL, connected

MINE = """\
[ // my models
  { "vendor": "other", "name": "A, // no comment", },
  /* the last */
]
"""


def test_the_group_has_the_chosen_model_first_and_the_limits_of_the_gateway() -> None:
    (group,) = json.loads(vscode_settings(connected("b", "a", "b")))
    assert [each["id"] for each in group["models"]] == ["b", "a"]
    assert group["models"][0]["url"] == f"{URL}/responses"
    assert group["models"][0]["maxInputTokens"] == 48_000


@pytest.mark.parametrize("before", ["", "[]", "[\n]\n", '[{"vendor": "other"}]'])
def test_the_group_is_added_once(before: str) -> None:
    once = with_vscode_group(before.encode(), connected(), "f")
    assert json.loads(once)[-1]["name"] == "Penstock"
    assert len(json.loads(once)) == (2 if "other" in before else 1)
    assert with_vscode_group(once, connected(), "f") == once


def test_comments_and_other_groups_are_kept() -> None:
    changed = with_vscode_group(MINE.encode(), connected(), "f").decode()
    for line in MINE.splitlines()[:3]:
        assert line.rstrip(",") in changed
    assert with_vscode_group(changed.encode(), connected(), "f").decode() == changed


def test_a_new_model_replaces_the_old_group_and_keeps_its_other_settings() -> None:
    (group,) = json.loads(vscode_settings(connected("old")))
    before = json.dumps([{**group, "apiKey": "${input:x}"}, {"vendor": "other"}])
    changed = json.loads(with_vscode_group(before.encode(), connected("new"), "f"))
    assert [each["id"] for each in changed[0]["models"]] == ["new"]
    assert changed[0]["apiKey"] == "${input:x}"
    assert changed[1:] == [{"vendor": "other"}]


@pytest.mark.parametrize("before", ["{}", "[", "nonsense", "\ud7ff[1"])
def test_a_file_of_another_form_is_refused(before: str) -> None:
    with pytest.raises(ConfigError, match="list of groups"):
        with_vscode_group(before.encode(), connected(), "f")
