"""Read `[models.NAME]`, `[aliases]`, `passthrough` and `default_model`: model names and their routes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from penstock.errors import DecodeError
from penstock.gateway.config.values import ABOVE, ConfigTable, InvalidValue, kind, nonempty, reads
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
    "weights": 'write targets = [[{ target = "NAME", weight = 2 }, "OTHER"]]',
    "weight": 'write targets = [[{ target = "NAME", weight = 2 }, "OTHER"]]',
    "alias": "it belongs under [aliases]",
}
GROUP_TARGET = ("target", "weight")
"""The settings of a target in a group."""
MOST_WEIGHT = 1_000_000
_EXAMPLE = '{ target = "NAME", weight = 2 }'
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
        return TargetChain(table, own, self._step).steps

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


class TargetChain:
    """Reads `targets`: a list of targets, which are tried in order. A list inside it is a group, over which
    conversations are spread, by weight."""

    def __init__(self, table: ConfigTable, own: str, read_step: Callable[[object], RouteStep]) -> None:
        self._table, self._own, self._read_step = table, own, read_step
        self.steps: list[RouteStep] = []
        given = table.values["targets"]
        if not isinstance(given, list):
            table.report(f'must be a list, such as ["one", "two"], not {kind(given)}', "targets")
            return
        if not given:
            table.report("must contain at least one target", "targets")
        for index, each in enumerate(given):
            if isinstance(each, list):
                self._read_group(each, index)
            elif isinstance(each, dict):
                message = "a weight is only for a target in a group: put the targets of a group into a list"
                table.report(f"{message} of their own, such as [{_EXAMPLE}]", "targets", index)
            else:
                self._add(each, (index,))

    def _read_group(self, group: list[object], index: int) -> None:
        if not group:
            self._table.report("must contain at least one target", "targets", index)
        weights: list[float] = []
        for place, each in enumerate(group):
            entry, weight = each, 1.0
            if isinstance(each, dict):
                table = self._table.inner(each, "targets", index, place)
                table.only(GROUP_TARGET)
                weight = table.read("weight", weight_number, 1.0)
                if "target" not in table:
                    table.report(f"needs a target, such as {_EXAMPLE}")
                    continue
                entry = table.values["target"]
            weights.append(weight)
            self._add(entry, (index, place), weight, is_alternative=len(weights) > 1)
        if weights and not any(weights):
            message = "all weights of this group are 0: set at least one above 0"
            self._table.report(message, "targets", index)

    def _add(
        self, entry: object, path: tuple[int, ...], weight: float = 1.0, *, is_alternative: bool = False
    ) -> None:
        try:
            found = self._read_step(entry)
        except InvalidValue as error:
            self._table.report(str(error), "targets", *path)
            return
        step = RouteStep(found.target, found.model or self._own, weight, is_alternative)
        if any((each.target, each.model) == (step.target, step.model) for each in self.steps):
            self._table.report("is already in this chain: remove it", "targets", *path)
        self.steps.append(step)


@reads(type="number", minimum=0, maximum=MOST_WEIGHT)
def weight_number(value: object) -> float:
    """Read a weight: a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(f"must be a number, such as 2 or 0.5, not {kind(value)}")
    if not 0 <= value <= MOST_WEIGHT:  # nor is NaN
        raise InvalidValue(
            f"must be a number from 0 to {MOST_WEIGHT:,}; with 0, a target is used only if the others of its "
            "group fail"
        )
    return float(value)


def _limits(value: object) -> Override:
    """Read an override line without its model name, which the table already has."""
    try:
        return parse_override(f"model = {nonempty(value)}")
    except DecodeError as error:
        raise InvalidValue(error.message) from None
