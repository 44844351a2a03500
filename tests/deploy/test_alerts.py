"""deploy/alerts.yml: the rules use metrics that exist, and fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.cli import build_parser
from penstock.gateway.telemetry.metrics import DECLARED
from tests.deploy.files import DEPLOY

RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_uses_metrics_and_labels_that_exist(rule: dict[str, str]) -> None:
    used = re.findall(r"\b(penstock_\w+?)(?:_bucket)?\b(?:\{(.*?)\})?(?=[\s\[)])", rule["expr"])
    assert used or rule["expr"].startswith("up{")
    for name, selected in used:
        labels = re.findall(r"(\w+)\s*(?:=~|=|!=)", selected)
        assert {*labels} <= {*DECLARED[name].labels}, name


def test_the_commands_in_the_texts_exist() -> None:
    texts = "\n".join(rule["annotations"]["summary"] for rule in RULES)
    [command] = re.findall(r"penstock (turns [\w -]+)$", texts, re.MULTILINE)
    assert build_parser("turns").parse_args(command.split())


@pytest.mark.deploy
@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian: apt-get install prometheus)"
)
def test_the_rules_fire_when_they_should(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), tmp_path)
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
