"""Edit `[[keys]]` in a configuration file.

The file belongs to its author. So an entry is added, changed or removed as text, everything else stays
unchanged, and an edit that would change anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import quoted, toml_value

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_SETTING = re.compile(rb"[ \t]*(hash|previous_hash|previous_expires)[ \t]*=")
_PREVIOUS = ("previous_hash", "previous_expires")


def names_of(data: bytes, file: str) -> list[str]:
    """Return the names of the keys in a file; other errors in the file are ignored."""
    return _names(_entries(parse(_text(data, file), file), file))


def with_key(data: bytes, name: str, entry: str, file: str) -> bytes:
    """Return the file with one more entry at its end; raise `ConfigError` if this changes anything else."""
    text = _text(data, file)
    document = parse(text, file)
    entries = _entries(document, file)
    if name in (names := _names(entries)):
        line = TomlLines(text).line(("keys", names.index(name)))
        raise ConfigError(file, line, f"there is already a key called {quoted(name)}: choose another name")
    end = b"" if not data or data.endswith(b"\n") else b"\n"
    added = end + (b"\n" if data else b"") + entry.encode()
    changed = data + (added.replace(b"\n", b"\r\n") if b"\r\n" in data else added)
    if not _parses_as(changed, {**document, "keys": [*entries, *_entries(parse(entry, file), file)]}):
        line = TomlLines(text).line(("keys",))
        raise ConfigError(file, line, "cannot add a key to this list: write each of its keys as [[keys]]")
    return changed


def without_key(data: bytes, name: str, file: str) -> bytes:
    """Return the file without an entry; raise `ConfigError` with the lines to delete if this is not safe."""
    text = _text(data, file)
    document = parse(text, file)
    entries = _entries(document, file)
    index = _names(entries).index(name)
    first, last = TomlLines(text).spans["keys", index]
    lines = _LINE.findall(data)
    start = first - 1
    if start and not lines[start - 1].strip():
        start -= 1  # the empty line above the entry
    changed = b"".join(lines[:start] + lines[last:])
    if not _parses_as(changed, {**document, "keys": entries[:index] + entries[index + 1 :]}):
        place = f"line {first}" if first == last else f"lines {first} to {last}"
        raise ConfigError(file, first, f"{quoted(name)} cannot be removed safely: delete {place} yourself")
    return changed


def with_new_hash(data: bytes, name: str, hash: str, previous_expires: str, file: str) -> bytes:
    """Return the file with another hash in an entry, whose other lines stay as they are. The old hash is kept
    until `previous_expires`, unless that is empty. Raise `ConfigError` if this changes anything else."""
    text = _text(data, file)
    document = parse(text, file)
    entries = _entries(document, file)
    index = _names(entries).index(name)
    first, last = TomlLines(text).spans["keys", index]
    lines = _LINE.findall(data)
    changed = lines[: first - 1]
    for line in lines[first - 1 : last]:
        found = _SETTING.match(line)
        if found is None:
            changed.append(line)
        elif found[1] == b"hash":
            old = str(entries[index].get("hash", ""))
            changed.append(line.replace(old.encode(), hash.encode(), 1))
            if previous_expires:
                end = b"\r\n" if line.endswith(b"\r\n") else b"\n"
                if not line.endswith(b"\n"):
                    changed[-1] += end
                added = f"previous_hash = {quoted(old)}", f"previous_expires = {previous_expires}"
                changed += [each.encode() + end for each in added]
    result = b"".join(changed + lines[last:])
    expected: dict[str, object] = {
        name: value for name, value in entries[index].items() if name not in _PREVIOUS
    }
    if previous_expires:
        kept = {"previous_hash": expected.get("hash"), **parse(f"previous_expires = {previous_expires}", "")}
        expected |= kept
    expected["hash"] = hash
    changed_entries = [*entries[:index], expected, *entries[index + 1 :]]
    if not _parses_as(result, {**document, "keys": changed_entries}):
        message = f"{quoted(name)} cannot be changed safely: write its settings as lines below [[keys]]"
        raise ConfigError(file, first, message)
    return result


def key_entry(name: str, hash: str, settings: Mapping[str, object]) -> str:
    """Return the text of an entry. The values are texts, lists of texts, numbers, and `Literal`s."""
    lines = [f"{setting} = {toml_value(value)}" for setting, value in settings.items()]
    return "\n".join(["[[keys]]", f"name = {quoted(name)}", f"hash = {quoted(hash)}", *lines, ""])


def _names(entries: list[dict[str, object]]) -> list[str]:
    return [str(entry.get("name", "")) for entry in entries]


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(file, 0, "is not UTF-8 text: save it as UTF-8") from None


def _entries(document: dict[str, object], file: str) -> list[dict[str, object]]:
    entries = document.get("keys", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ConfigError(file, 0, "keys: write each key as [[keys]]")
    return entries


def _parses_as(data: bytes, expected: dict[str, object]) -> bool:
    try:
        document = parse(_text(data, ""), "")
    except ConfigError:
        return False
    return {"keys": [], **document} == expected
