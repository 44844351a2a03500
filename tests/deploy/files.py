"""The files in deploy/, as the tests need them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


class Instruction(NamedTuple):
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of a command in the form `["penstock", "serve"]`."""
        found: list[str] = json.loads(self.text)
        return found

    @property
    def variables(self) -> dict[str, str]:
        """What ENV or ARG sets. A `PATH` has the image's own in it."""
        pairs = [word.partition("=") for word in shlex.split(self.text)]
        return {name: value.replace("$PATH", IMAGE_PATH) for name, _, value in pairs}


class BuildStage(NamedTuple):
    name: str
    base: str
    instructions: list[Instruction]

    def all(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def one(self, name: str) -> Instruction:
        [found] = self.all(name)
        return found

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its programs."""
        return {name: value for each in self.all("ENV") for name, value in each.variables.items()}


IMAGE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of the official image of Python."""


def stages() -> list[BuildStage]:
    """Return the stages of the Dockerfile. The arguments before the first are filled in."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    found: list[BuildStage] = []
    outside: dict[str, str] = {}
    for line in filter(None, map(str.strip, lines)):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            base, _, stage = rest.partition(" AS ")
            for argument, value in outside.items():
                base = base.replace(f"${{{argument}}}", value)
            found.append(BuildStage(stage, base, []))
        elif found:
            found[-1].instructions.append(Instruction(name, rest.strip()))
        else:
            assert name == "ARG", line
            outside |= Instruction(name, rest).variables
    return found


def compose(name: str) -> dict[str, Any]:
    """Return a compose file, with `<<` resolved."""
    read: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return read
