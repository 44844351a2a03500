"""Read `[models.NAME]`, `[aliases]`, `passthrough` and `default_model`: model names and their routes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from penstock.errors import DecodeError
from penstock.gateway.config.values import ABOVE, ConfigTable, InvalidValue, nonempty
from penstock.gateway.settings import DEMO, EVERY, ModelRoute, RouteStep
from penstock.models.overrides import Override, parse_override
from penstock.suggestions import unknown

MODEL = ("target", "targets", "model", "limits")
"""The settings of a model."""

_ELSEWHERE = {
    **ABOVE,
    "base_url": "it belongs under [targets.NAME]",
    "preset": "it belongs under [targets.NAME]",
    "dialect": "it belongs under [targets.NAME]",
    "fallback": "list the targets in targets; if one fails, the next is tried",
    "fallbacks": "list the targets in targets; if one fails, the next is tried",
    "alias": "it belongs under [aliases]",
}
INVALID_NAME = re.compile(r"\s|\*")


class ModelNames:
    """All model names in a file. `targets` are the names of all targets, including those with errors."""

    def __init__(self, top: ConfigTable, targets: Collection[str]) -> None:
        self._targets = targets
        self.routes: dict[str, ModelRoute] = {}
        self.overrides: list[Override] = []
        self.passthrough = top.read("passthrough", self._passthrough, "")
        models = top.table("models")
        self._named = {DEMO, *models.values}
        for name, table in models.tables():
            self._read_model(name, table)
        self.aliases = self._aliases(top.table("aliases"))
        self.default = top.read("default_model", self._default, "")

    def _passthrough(self, value: object) -> str:
        name = nonempty(value)
        if name == DEMO:
            raise InvalidValue(
                f'{DEMO} is a model, not a target: for every name, write "*" = "{DEMO}" in [aliases]'
            )
        if name not in self._targets:
            raise InvalidValue(unknown("target", name, self._targets))
        return name

    def _read_model(self, name: str, table: ConfigTable) -> None:
        if name == DEMO:
            table.report(f"{DEMO} is the built-in model: use another name")
        elif name == EVERY:
            table.report('for every other name, write "*" = "MODEL" in [aliases], or passthrough = "TARGET"')
        elif not name or INVALID_NAME.search(name):
            table.report("a model's name must not be empty or contain spaces or an asterisk")
        table.only(MODEL, _ELSEWHERE)
        own = table.read("model", nonempty, "")
        steps = self._steps(table, own)
        self.routes[name] = ModelRoute(name=name, steps=tuple(steps))
        override = table.read("limits", _limits, None)
        if override is not None:
            self.overrides.append(Override(name, override.facts))

    def _steps(self, table: ConfigTable, own: str) -> list[RouteStep]:
        if "target" in table and "targets" in table:
            table.report("set either target or targets, not both", "target")
            return []
        if "target" in table:
            found = table.read("target", self._step, None)
            return [RouteStep(found.target, found.model or own)] if found else []
        if "targets" not in table:
            if not self.passthrough:
                table.report('needs a target, such as target = "NAME" for [targets.NAME]')
            return [RouteStep(self.passthrough, own)] if self.passthrough else []
        return self._chain(table, own)

    def _chain(self, table: ConfigTable, own: str) -> list[RouteStep]:
        steps: list[RouteStep] = []
        texts = table.texts("targets")
        if table.values["targets"] == []:
            table.report("must contain at least one target", "targets")
        for index, written in texts.items():
            try:
                step = self._step(written)
            except InvalidValue as error:
                table.report(str(error), "targets", index)
                continue
            step = RouteStep(step.target, step.model or own)
            if step in steps:
                table.report("is already in this chain: remove it", "targets", index)
            steps.append(step)
        return steps

    def _step(self, value: object) -> RouteStep:
        target, slash, model = nonempty(value).partition("/")
        if target == DEMO:
            raise InvalidValue(f"{DEMO} is a model, not a target: it cannot be part of a chain")
        if target not in self._targets:
            raise InvalidValue(unknown("target", target, self._targets))
        if slash and not model:
            raise InvalidValue(f"write the model's name after the slash, or only {target}")
        return RouteStep(target, model)

    def _aliases(self, table: ConfigTable) -> dict[str, str]:
        """Return every alias with the model name that it finally refers to."""
        written: dict[str, str] = {}
        for name in table.values:
            written[name] = table.read(name, nonempty, DEMO)
            if name in ABOVE:
                table.report(f"is not the name of a model; if you meant the setting, {ABOVE[name]}", name)
            elif name == DEMO:
                table.report(f"{DEMO} is the built-in model: it cannot be an alias", name)
            elif name in self._named:
                table.report("is also the name of a model: rename one of them", name)
            elif not name or (name != EVERY and INVALID_NAME.search(name)):
                table.report("a model's name must not be empty or contain spaces or an asterisk", name)
        if EVERY in written and self.passthrough:
            table.report("passthrough already gets every other name: remove one of them", EVERY)
        return {name: self._resolve(name, written, table) for name in written}

    def _resolve(self, name: str, written: Mapping[str, str], table: ConfigTable) -> str:
        seen = [name]
        while (target := written[seen[-1]]) in written:
            if target in seen:
                if target == name:  # so that only the aliases in the cycle report it
                    table.report(f"refers to itself: {' -> '.join([*seen, target])}", name)
                return DEMO
            seen.append(target)
        if target not in self._named and not self.passthrough and len(seen) == 1:
            table.report(unknown("model", target, (self._named | written.keys()) - {EVERY}), name)
        return target

    def _default(self, value: object) -> str:
        name = nonempty(value)
        is_any = self.passthrough or EVERY in self.aliases
        if not is_any and name not in self._named and name not in self.aliases:
            raise InvalidValue(unknown("model", name, self._named | self.aliases.keys()))
        return name


def _limits(value: object) -> Override:
    """Read an override line without its model name, which the table already has."""
    try:
        return parse_override(f"model = {nonempty(value)}")
    except DecodeError as error:
        raise InvalidValue(error.message) from None
