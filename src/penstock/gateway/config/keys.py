"""Read and edit `[[keys]]`: the clients that may use the gateway, each with the hash of its key.

The file belongs to its author. So an entry is added or removed as text, everything else stays unchanged, and
an edit that would change anything else is refused.
"""

from __future__ import annotations

import re

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.config.values import ABOVE, ConfigTable, InvalidValue, flag, nonempty, one_of, quoted
from penstock.gateway.settings import ClientKey
from penstock.store.contract import LOCAL
from penstock.stream.accents import ACCENTS

KEY = ("name", "hash", "accent", "operator")
"""The settings of a key."""

_HASH = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def read_keys(tables: list[ConfigTable]) -> tuple[ClientKey, ...]:
    found: list[ClientKey] = []
    for table in tables:
        table.only(KEY, ABOVE)
        for name in ("name", "hash"):
            if name not in table:
                table.report(f"needs a {name}; `penstock keys create NAME` writes a complete entry")
        entry = ClientKey(
            name=table.read("name", key_name, ""),
            digest=table.read("hash", _digest, b""),
            accent=table.read("accent", one_of("accent", ACCENTS), ""),
            operator=table.read("operator", flag, False),
        )
        if entry.name and any(entry.name == other.name for other in found):
            table.report("another key has this name: use a different one", "name")
        if entry.digest and any(entry.digest == other.digest for other in found):
            table.report("another entry has this hash: list each key once", "hash")
        found.append(entry)
    return tuple(found)


def key_name(value: object) -> str:
    """Return the name of a key, which is shown in lists and logs; raise `InvalidValue` if it is invalid."""
    name = nonempty(value)
    if not name.isprintable() or len(name) > 64:
        raise InvalidValue("must be a name of at most 64 characters, on one line")
    if name == LOCAL:  # this key would see everything that was stored before there were keys
        raise InvalidValue(f"must not be {LOCAL!r}, which stands for clients without a key: use another name")
    return name


def _digest(value: object) -> bytes:
    found = _HASH.fullmatch(nonempty(value))
    if found is None:
        raise InvalidValue(
            'must be "sha256:" and 64 hexadecimal digits. `penstock keys create NAME` creates a key and its '
            "hash. If this is the key itself, create a new one: keys do not belong in a file"
        )
    return bytes.fromhex(found[1])


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
