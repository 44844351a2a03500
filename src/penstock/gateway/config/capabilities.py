"""Write what a model can do to its `limits` in `penstock.toml`.

As in `keys`, the file is edited as text: everything else stays unchanged, comments included, and an edit that
would change anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import quoted

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_LIMITS = re.compile(r"""(\blimits["']?\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*')""")


def merged_limits(limits: str, abilities: Mapping[str, bool]) -> str:
    """Return an override line with these abilities: `tools` if the model has it, else `no-tools`."""
    words = limits.split()
    for name, has_it in abilities.items():
        word = name if has_it else f"no-{name}"
        places = [at for at, each in enumerate(words) if each in (name, f"no-{name}")]
        if places:
            words[places[0]] = word
        else:
            words.append(word)
    return " ".join(words)


def with_capabilities(
    data: bytes, model: str, target: str, abilities: Mapping[str, bool], file: str
) -> tuple[bytes, str]:
    """Return the file with the abilities of a model, and the line of its limits. A model that has no table
    gets one, with this target. Raise `ConfigError` if this would change anything else."""
    text = data.decode("utf-8-sig")
    document = parse(text, file)
    models = document.get("models", {})
    entry = models.get(model) if isinstance(models, dict) else None
    known = entry if isinstance(entry, dict) else {}
    limits = merged_limits(str(known.get("limits", "")), abilities)
    if known.get("limits") == limits:
        return data, limits
    changed = _edited(data, text, model, target, entry, limits)
    expected_entry = {**(known or {"target": target}), "limits": limits}
    expected_models = {**(models if isinstance(models, dict) else {}), model: expected_entry}
    if not _parses_as(changed, {**document, "models": expected_models}):
        line = TomlLines(text).line(("models", model))
        message = (
            f"the model {quoted(model)} cannot be changed safely: write limits = {quoted(limits)} yourself"
        )
        raise ConfigError(file, line, message)
    return changed, limits


def _edited(data: bytes, text: str, model: str, target: str, entry: object, limits: str) -> bytes:
    end = b"\r\n" if b"\r\n" in data else b"\n"
    lines = _LINE.findall(data)
    spans = TomlLines(text).spans
    if not isinstance(entry, dict):
        key = model if _BARE_KEY.fullmatch(model) else quoted(model)
        table = [f"[models.{key}]", f"target = {quoted(target)}", f"limits = {quoted(limits)}"]
        gap = (b"" if not data or data.endswith(b"\n") else end) + (end if data else b"")
        return data + gap + b"".join(line.encode() + end for line in table)
    if "limits" in entry:
        at = spans["models", model, "limits"][0] - 1
        written = quoted(limits)
        line = lines[at].decode("utf-8")
        lines[at] = _LIMITS.sub(lambda found: found[1] + written, line, count=1).encode()
        return b"".join(lines)
    last = spans["models", model][1]
    if not lines[last - 1].endswith(b"\n"):
        lines[last - 1] += end
    lines.insert(last, f"limits = {quoted(limits)}".encode() + end)
    return b"".join(lines)


def _parses_as(data: bytes, expected: Mapping[str, object]) -> bool:
    try:
        return parse(data.decode("utf-8-sig"), "") == expected
    except ConfigError:
        return False
