"""The settings with which a gateway would start, each with its origin. No secret is among the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.dialects.plan import Quirks
from penstock.gateway.config.file import LIMITS, SERVER, TELEMETRY, read_text
from penstock.gateway.config.options import ServeOptions, overrides, settings_from
from penstock.gateway.config.routing import ROUTING
from penstock.gateway.config.secrets import variable_names
from penstock.gateway.config.targets import TARGET
from penstock.gateway.config.toml_lines import Path as TomlPath
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import AUTO, OFF
from penstock.gateway.settings import Settings
from penstock.gateway.storage import default_path
from penstock.secret_variables import is_set
from penstock.store import location_of, without_password
from penstock.upstream.target import UpstreamTarget

OriginKind = Literal["default", "preset", "file", "variable", "option"]

SET = "set"
"""Shown instead of a secret."""

_HASHES = ("hash", "previous_hash")
_TIMEOUTS = ("connect_timeout", "first_byte_timeout", "idle_timeout", "client_timeout")
_FROM_PRESET = ("base_url", "dialect", "key_header", "keys")


class SettingOrigin(Struct, frozen=True):
    """Where a value comes from: `where` is the file with its line, or the name of the variable, the option or
    the preset."""

    kind: OriginKind
    where: str = ""


class EffectiveSetting(Struct, frozen=True, kw_only=True):
    table: TomlPath
    """The path of its table; `("keys", 0)` is the first of `[[keys]]`."""
    name: str
    value: object
    """As in a file; None: not set."""
    origin: SettingOrigin
    unset: tuple[str, ...] = ()
    """The variables in the value that are not set."""


def effective_settings(
    options: ServeOptions, file: Path | None, environment: Mapping[str, str]
) -> list[EffectiveSetting]:
    """Return all settings in the order of a file; raise `ConfigError` and `OptionError` if they are
    invalid."""
    settings = settings_from(options, file, environment)
    return list(_Collection(settings, options, file, environment).all())


class _Collection:
    """The settings, and what their origins depend on."""

    def __init__(
        self, settings: Settings, options: ServeOptions, file: Path | None, environment: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._options = options
        self._environment = environment
        self._file = str(file)
        text = read_text(file, environment) if file else ""
        self._lines = TomlLines(text)
        self._document = parse(text, self._file)
        self._added = settings.targets[-1].name if options.upstream or options.preset else ""
        """The target of the options."""

    def all(self) -> Iterator[EffectiveSetting]:
        yield from self._top()
        yield from self._server()
        yield from self._store()
        for name in LIMITS:
            yield self._setting(("limits",), name, _plain(name, getattr(self._settings.limits, name)))
        for name in ROUTING:
            value = getattr(self._settings.routing, name)
            yield self._setting(("routing",), name, OFF if name == "eject_after" and not value else value)
        for name in TELEMETRY:
            yield self._setting(("telemetry",), name, getattr(self._settings.telemetry, name))
        for target in self._settings.targets:
            yield from self._target(target)
        yield from self._models()
        for section in ("aliases", "accents"):
            for name, value in self._section(section).items():
                yield self._setting((section,), name, value)
        yield from self._keys()

    def _top(self) -> Iterator[EffectiveSetting]:
        options = self._options
        upstream = SettingOrigin("option", "--upstream" if options.upstream else "--preset")
        origins: dict[str, SettingOrigin | None] = {
            # Without --model, the target of the options gets every name that is not defined otherwise.
            "passthrough": upstream if self._added and not options.models else None,
            "default_model": SettingOrigin("option", "--model") if options.models else None,
        }
        if "default_model" in self._document:
            del origins["default_model"]
        for name in ("default_model", "passthrough"):
            yield self._setting((), name, getattr(self._settings, name) or None, origins.get(name))

    def _server(self) -> Iterator[EffectiveSetting]:
        settings, changed = self._settings, overrides(self._options, self._environment)
        values = {name: getattr(settings, name, None) for name in SERVER}
        if settings.metrics is not None:
            host, port = settings.metrics
            values["metrics"] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        values["metrics_token_env"] = self._section("server").get("metrics_token_env")
        if "url" not in self._section("store") or "store" in changed:
            values["store"] = location_of(settings.store or default_path(self._environment))
        else:
            values["store"] = None  # it is shown as `store.url`
        values["workers"] = settings.workers or AUTO
        for name, value in values.items():
            origin = None
            if name in changed:
                source = changed[name][1]
                origin = SettingOrigin("option" if source.startswith("--") else "variable", source)
            yield self._setting(("server",), name, _plain(name, value), origin)

    def _store(self) -> Iterator[EffectiveSetting]:
        """Yield the section of the store, without passwords."""
        changed = overrides(self._options, self._environment)
        url = self._settings.store if "url" in self._section("store") and "store" not in changed else ""
        yield self._setting(("store",), "url", location_of(url) or None)
        for name, url in (("direct_url", self._settings.store_direct_url), ("redis", self._settings.redis)):
            origin = None
            if name in changed:
                source = changed[name][1]
                origin = SettingOrigin("option" if source.startswith("--") else "variable", source)
            yield self._setting(("store",), name, without_password(url) or None, origin)

    def _target(self, target: UpstreamTarget) -> Iterator[EffectiveSetting]:
        table: TomlPath = ("targets", target.name)
        written = {} if target.name == self._added else self._table("targets", target.name)
        keys = self._key_variables(target, written)
        shown = {
            "keys": keys if keys or "keys" in written else None,
            "base_url": target.base_url.partition("?")[0],  # the query may contain a key
            "proxy": _proxy(target, written),
        }
        for name in TARGET:
            if name in ("headers", "quirks"):
                continue  # tables of their own
            value = shown[name] if name in shown else _plain(name, getattr(target, name))
            unset = tuple(each for each in keys if not self._is_set(each)) if name == "keys" else ()
            yield self._setting(table, name, value, self._target_origin(target, table, name), unset)
        yield from self._headers(target, table, written)
        yield from self._quirks(target, table)

    def _key_variables(self, target: UpstreamTarget, written: Mapping[str, object]) -> list[str]:
        from penstock.dialects.presets import PRESETS

        named = written.get("keys")
        if isinstance(named, list):
            return [str(each).strip() for each in named]
        preset = PRESETS.get(target.preset)
        return list(target.key_names) or ([preset.key_variable] if preset and preset.key_variable else [])

    def _headers(
        self, target: UpstreamTarget, table: TomlPath, written: Mapping[str, object]
    ) -> Iterator[EffectiveSetting]:
        """Yield the names of the headers, and of the variables in them. The rest of a value may be secret."""
        texts = written.get("headers")
        for name in target.headers:
            text = str(texts.get(name, "")) if isinstance(texts, dict) else ""
            variables = [f"${each}" for each in variable_names(text)]
            yield self._setting((*table, "headers"), name, " ".join(variables) or SET)

    def _quirks(self, target: UpstreamTarget, table: TomlPath) -> Iterator[EffectiveSetting]:
        """Yield the quirks that are not the default, or are in the file."""
        path = (*table, "quirks")
        for name in Quirks.__struct_fields__:
            value = getattr(target.quirks, name)
            is_written = self._is_written((*path, name))
            if value != getattr(Quirks(), name) or is_written:
                preset = SettingOrigin("preset", target.preset)
                yield self._setting(path, name, value, None if is_written else preset)

    def _target_origin(self, target: UpstreamTarget, table: TomlPath, name: str) -> SettingOrigin | None:
        options = self._options
        if target.name == self._added:
            upstream = SettingOrigin("option", "--upstream") if options.upstream else None
            given = {
                "preset": SettingOrigin("option", "--preset") if options.preset else upstream,
                "base_url": upstream,
                "dialect": SettingOrigin("option", "--dialect") if options.dialect else None,
                "keys": SettingOrigin("option", "--api-key-env") if options.api_key_env else None,
            }
            if found := given.get(name):
                return found
        if self._is_written((*table, name)):
            return None
        return SettingOrigin("preset", target.preset) if target.preset and name in _FROM_PRESET else None

    def _models(self) -> Iterator[EffectiveSetting]:
        for name, route in self._settings.models.items():
            if name in self._options.models:
                step = f"{self._added}/{route.steps[0].model}"
                yield self._setting(("models", name), "target", step, SettingOrigin("option", "--model"))
            else:
                for setting, value in self._table("models", name).items():
                    yield self._setting(("models", name), setting, value)

    def _keys(self) -> Iterator[EffectiveSetting]:
        entries = self._document.get("keys", [])
        assert isinstance(entries, list)  # checked when the settings were read
        for index, entry in enumerate(entries):
            for name, value in entry.items():
                yield self._setting(("keys", index), name, SET if name in _HASHES else value)

    def _setting(
        self,
        table: TomlPath,
        name: str,
        value: object,
        origin: SettingOrigin | None = None,
        unset: tuple[str, ...] = (),
    ) -> EffectiveSetting:
        """Return a setting. Without an origin, it comes from the file if it is there, and else it is a
        default."""
        path = (*table, name)
        if origin is None:
            place = f"{self._file}:{self._lines.line(path)}"
            origin = SettingOrigin("file", place) if self._is_written(path) else SettingOrigin("default")
        return EffectiveSetting(table=table, name=name, value=value, origin=origin, unset=unset)

    def _is_written(self, path: TomlPath) -> bool:
        # The target of the options replaces one of the same name.
        return path in self._lines.spans and path[:2] != ("targets", self._added)

    def _is_set(self, variable: str) -> bool:
        return is_set(variable, self._environment)

    def _section(self, name: str) -> Mapping[str, object]:
        section = self._document.get(name, {})
        assert isinstance(section, dict)  # checked when the settings were read
        return section

    def _table(self, section: str, name: str) -> Mapping[str, object]:
        table = self._section(section).get(name, {})
        assert isinstance(table, dict)
        return table


def _plain(name: str, value: object) -> object:
    """Return a value as in a file; None if it is not set."""
    if name in _TIMEOUTS and value is None:
        return OFF
    if isinstance(value, tuple):
        return list(value) or None
    return None if value == "" else value


def _proxy(target: UpstreamTarget, written: Mapping[str, object]) -> str | None:
    """Return the proxy without its password."""
    if variables := variable_names(str(written.get("proxy", ""))):
        return " ".join(f"${each}" for each in variables)
    if not target.proxy:
        return target.proxy
    parts = urlsplit(target.proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
