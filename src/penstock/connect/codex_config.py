"""Codex's `config.toml`: the settings for a gateway, and how they are merged into a user's file.

The file belongs to its author. So settings are changed as text, comments and everything else stay, and an
edit that would change anything else is refused.
"""

from __future__ import annotations

import re

from penstock.connect.gateway import ConnectedGateway
from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import quoted

PROVIDER = "penstock"
UNUSED = "unused"
"""Sent as the key to a gateway without keys: Codex 0.166 requests the list of models only if it has a key."""

Spans = dict[tuple[str | int, ...], tuple[int, int]]

_TABLE = ("model_providers", PROVIDER)
_KEYS = ("env_key", "experimental_bearer_token")
"""The settings of which a provider has only one."""
_TEXT_SETTING = re.compile(r"""([^=\n]*=[ \t]*)(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')([ \t]*(?:\#[^\n]*)?)""")


def provider_settings(gateway: ConnectedGateway) -> dict[str, str]:
    """Return the settings of the provider."""
    key = {"env_key": gateway.key_variable} if gateway.key_variable else {_KEYS[1]: UNUSED}
    return {
        "name": "Penstock",
        "base_url": gateway.base_url,
        "model_catalog_url": f"{gateway.base_url}/models",  # without it, Codex never asks for models
        **key,
        "wire_api": "responses",
    }


def codex_settings(gateway: ConnectedGateway) -> str:
    """Return the settings as the lines of a file."""
    top = [f"model = {quoted(gateway.model)}", f"model_provider = {quoted(PROVIDER)}"]
    return "\n".join([*top, "", *_table_lines(provider_settings(gateway)), ""])


def with_codex_settings(data: bytes, gateway: ConnectedGateway, file: str) -> bytes:
    """Return a user's file with the settings for the gateway; raise `ConfigError` if this is not safe."""
    text = _decoded(data, file)
    provider = provider_settings(gateway)
    top = {"model": gateway.model, "model_provider": PROVIDER}
    document = parse(text, file)
    expected = _expected(document, top, provider, file)
    if expected == document:
        return data
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    spans = TomlLines(text).spans
    edits = _Edits(lines, end)
    for name, value in top.items():
        edits.set_top(name, value, spans.get((name,)))
    if _TABLE in spans:
        edits.set_in_table(provider, spans)
    changed = edits.text()
    if _TABLE not in spans:
        changed += end.join([*([""] if changed else []), *_table_lines(provider), ""])
    if not _parses_as(changed, expected):
        raise ConfigError(
            file, 0, "cannot be changed safely: add the lines that `penstock connect codex` prints yourself"
        )
    return (b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b"") + changed.encode()


class _Edits:
    """Changes of lines, which keep their numbers until the end."""

    def __init__(self, lines: list[str], end: str) -> None:
        self._lines, self._end = lines, end
        self._top: list[str] = []

    def set_top(self, name: str, value: str, span: tuple[int, int] | None) -> None:
        if span:
            self._set(span, value)
        else:
            self._top.append(f"{name} = {quoted(value)}{self._end}")

    def set_in_table(
        self, provider: dict[str, str], spans: dict[tuple[str | int, ...], tuple[int, int]]
    ) -> None:
        _, last = spans[_TABLE]
        for name in _KEYS:
            if name not in provider and (span := spans.get((*_TABLE, name))):
                self._lines[span[0] - 1 : span[1]] = [""] * (span[1] - span[0] + 1)
        for name, value in provider.items():
            if span := spans.get((*_TABLE, name)):
                self._set(span, value)
            else:
                self._lines[last - 1] += f"{name} = {quoted(value)}{self._end}"

    def _set(self, span: tuple[int, int], value: str) -> None:
        """Replace a text value on one line, and keep the comment behind it. Others fail the final check."""
        line = self._lines[span[0] - 1]
        self._lines[span[0] - 1] = _TEXT_SETTING.sub(
            lambda found: f"{found[1]}{quoted(value)}{found[2]}", line, count=1
        )

    def text(self) -> str:
        """Return the file. New top-level settings are above everything else, where no table has begun."""
        body = "".join(self._lines)
        return "".join(self._top) + (self._end if self._top and body else "") + body


def _table_lines(provider: dict[str, str]) -> list[str]:
    return [f"[{'.'.join(_TABLE)}]", *(f"{name} = {quoted(value)}" for name, value in provider.items())]


def _expected(
    document: dict[str, object], top: dict[str, str], provider: dict[str, str], file: str
) -> dict[str, object]:
    providers = document.get("model_providers", {})
    old = providers.get(PROVIDER, {}) if isinstance(providers, dict) else None
    if not isinstance(providers, dict) or not isinstance(old, dict):
        raise ConfigError(file, 0, "model_providers: must be a table of providers")
    kept = {name: value for name, value in old.items() if name not in _KEYS}
    return {**document, **top, "model_providers": {**providers, PROVIDER: {**kept, **provider}}}


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(file, 0, "is not UTF-8 text: save it as UTF-8") from None


def _parses_as(text: str, expected: dict[str, object]) -> bool:
    try:
        return parse(text, "") == expected
    except ConfigError:
        return False
