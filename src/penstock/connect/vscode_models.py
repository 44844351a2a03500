"""VS Code's `chatLanguageModels.json`: a group of models at the gateway, and how it is merged into the file.

VS Code's own Custom Endpoint reads it. The file is a list of groups, and may have comments.
"""

from __future__ import annotations

import json
import re

from penstock.connect.gateway import ConnectedGateway
from penstock.errors import ConfigError
from penstock.protocol.content import JsonObject

VENDOR, GROUP = "customendpoint", "Penstock"
LARGEST_INPUT, LARGEST_OUTPUT = 112_000, 16_000
"""Limits of a model if the gateway could not be asked."""

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])')


def vscode_group(gateway: ConnectedGateway) -> JsonObject:
    """Return the group with the chosen model first, and then the others that the gateway lists."""
    by_name = {each.id: each for each in gateway.models}
    names = dict.fromkeys([gateway.model, *by_name])
    return {
        "vendor": VENDOR,
        "name": GROUP,
        "apiType": "responses",
        "models": [
            {
                "id": name,
                "name": name,
                "url": f"{gateway.base_url}/responses",
                "toolCalling": known.tool_calling if (known := by_name.get(name)) else True,
                "vision": known.image_input if known else True,
                "maxInputTokens": known.max_input if known else LARGEST_INPUT,
                "maxOutputTokens": known.max_output if known else LARGEST_OUTPUT,
            }
            for name in names
        ],
    }


def vscode_settings(gateway: ConnectedGateway) -> str:
    """Return the file with this group alone."""
    return json.dumps([vscode_group(gateway)], indent=2, ensure_ascii=False) + "\n"


def with_vscode_group(data: bytes, gateway: ConnectedGateway, file: str) -> bytes:
    """Return a user's file with the group, whose other settings are kept; raise `ConfigError` if it is not a
    list of groups."""
    if not data.strip():
        return vscode_settings(gateway).encode()
    try:
        text = data.decode("utf-8-sig")
        elements, end = _elements(text)
    except ValueError:
        raise ConfigError(
            file,
            0,
            "is not a list of groups: add what `penstock connect vscode` prints yourself",
        ) from None
    group = vscode_group(gateway)
    for value, first, last in elements:
        if isinstance(value, dict) and (value.get("vendor"), value.get("name")) == (VENDOR, GROUP):
            merged = {**value, **group}
            if merged == value:
                return data
            return (text[:first] + _indented(merged) + text[last:]).encode()
    place = elements[-1][2] if elements else text.index("[", end[0]) + 1
    comma = "," if elements else ""
    rest = text[place:]
    after = (
        "\n" if not elements and rest.lstrip().startswith("]") and "\n" not in rest.partition("]")[0] else ""
    )
    return (text[:place] + f"{comma}\n  {_indented(group)}{after}" + rest).encode()


def _indented(group: JsonObject) -> str:
    return json.dumps(group, indent=2, ensure_ascii=False).replace("\n", "\n  ")


def _elements(text: str) -> tuple[list[tuple[object, int, int]], tuple[int, int]]:
    """Return the elements of the list with their positions, and the position of the list."""
    plain = _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"\S", " ", found[0]), text)
    plain = _TRAILING_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " ", plain)
    whole = json.loads(plain)
    if not isinstance(whole, list):
        raise ValueError
    start = at = plain.index("[")
    decoder = json.JSONDecoder()
    elements: list[tuple[object, int, int]] = []
    for _ in whole:
        at += 1
        while plain[at].isspace():
            at += 1
        value, last = decoder.raw_decode(plain, at)
        elements.append((value, at, last))
        at = last
        while plain[at].isspace():
            at += 1
    return elements, (start, at)
