"""Change inputs at random: their bytes, their lines, their JSON values, and the frames of event streams.

A mutator gets the input, another input to take parts from, and words that the code under test knows. All
randomness comes from the `Random` that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct

MOST_BYTES = 8 * 1024
"""The longest input."""

INTERESTING: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 255, 2**31, 2**53, -(2**63), 2**64, 10**40, 1e308),
    *(float("inf"), "", " ", "0", "null", "\0", "\n", "\r\n", "\ud83d", "\ude00", "\u2028", "\ufeff"),
    *("😀", "é", "{", '"', "\\", "data: [DONE]", "<think>", "</think>", "```", "a" * 300),
    *([], {}, [[]], [None], {"": None}, [{}], {"type": None}),
]
TOKENS = [
    *(b"\0", b"\r", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n", b":", b";", b",", b" ", b"\t", b"-", b"0", b"ff"),
    *(b"=", b'"', b"\\", b"{", b"}", b"[", b"]", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80"),
    *(b"\xef\xbb\xbf", b"\\u", b"\\ud83d", b"\x1b[31m", b"%", b"%2e", b"e999", b"[key]", b"..."),
]

_DEEPEST = 40


class Source(Struct, frozen=True):
    """What a mutation may use: randomness, words, and another input of the corpus."""

    random: Random
    words: Sequence[str]
    other: bytes

    def word(self) -> str:
        return self.random.choice(self.words) if self.words else self.random.choice(["type", "id", "data"])


Mutator = Callable[[bytes, Source], bytes]


# Bytes


def change_bytes(data: bytes, source: Source) -> bytes:
    """Insert, remove, replace, repeat or copy a few bytes."""
    random = source.random
    at = random.randint(0, len(data))
    to = min(len(data), at + random.choice((1, 1, 2, 4, 16, 64, len(data))))
    kind = random.randrange(8)
    if kind == 0:
        return data[:at] + data[to:]
    if kind == 1:
        return data[:at] + random.choice(TOKENS) + data[at:]
    if kind == 2:
        return data[:at] + source.word().encode("utf-8", "surrogatepass") + data[at:]
    if kind == 3:
        return data[:at] + random.randbytes(random.randint(1, 4)) + data[to:]
    if kind == 4:
        # Many repetitions show what costs more than linear time.
        return data[:to] + data[at:to] * random.choice((1, 2, 8, 100, 1000)) + data[to:]
    if kind == 5:
        begin = random.randint(0, len(source.other))
        return data[:at] + source.other[begin : begin + random.randint(1, 200)] + data[at:]
    if kind == 6:
        return data[:at]
    return data[:at] + random.choice(TOKENS) + data[to:]


# Lines, and blocks of lines


def change_lines(data: bytes, source: Source) -> bytes:
    return _change_sequence(data, source, b"\n", _change_line)


def _change_line(line: bytes, source: Source) -> bytes:
    """Change a line, mostly its value: `name: value`, `name = value`."""
    random = source.random
    for separator in (b": ", b":", b" = ", b"="):
        name, found, value = line.partition(separator)
        if found and random.random() < 0.7:
            return name + found + random.choice((_other_value, change_bytes))(value, source)
    return change_bytes(line, source)


def _other_value(value: bytes, source: Source) -> bytes:
    random = source.random
    choices = [
        source.word().encode("utf-8", "surrogatepass"),
        _encoded(random.choice(INTERESTING)),
        str(random.choice((0, 1, 5, 10 ** random.randint(1, 30)))).encode(),
        value + b", " + value,
        value.upper(),
    ]
    return random.choice(choices)


def _change_sequence(data: bytes, source: Source, separator: bytes, change: Mutator) -> bytes:
    """Remove, repeat, move, change or insert one of the pieces between separators."""
    random = source.random
    pieces = data.split(separator)
    at = random.randrange(len(pieces))
    kind = random.randrange(8)
    if kind == 0:
        del pieces[at]
    elif kind == 1:
        pieces.insert(random.randint(0, len(pieces)), pieces[at])
    elif kind == 2:
        pieces.insert(random.randint(0, len(pieces)), random.choice(source.other.split(separator)))
    elif kind == 3:
        pieces.insert(random.randint(0, len(pieces) - 1), pieces.pop(at))
    elif kind == 4:
        begin = random.randint(at, min(len(pieces), at + 4))
        pieces[at:begin] = pieces[at:begin] * random.choice((2, 10, 100))
    else:
        pieces[at] = change(pieces[at], source)
    return separator.join(pieces)


# JSON


def change_json(data: bytes, source: Source) -> bytes:
    """Change one value of a JSON document; what is not JSON is changed as bytes."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return change_bytes(data, source)
    root = [value]
    _change_within(root, source)
    return _encoded(root[0])


def _encoded(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return b"null"
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _places(value: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """Return every container in a value with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if depth < _DEEPEST:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in entries:
            found.append((value, key))
            if isinstance(each, dict | list):
                found += _places(each, depth + 1)
    return found


def _change_within(root: list[Any], source: Source) -> None:
    random = source.random
    container, key = random.choice(_places(root))
    value = container[key]
    if container is not root and random.random() < 0.15:
        _remove_or_rename(container, key, source)
    elif isinstance(value, dict) and random.random() < 0.6:
        value[source.word()] = _new_value(root, source)
    elif isinstance(value, list) and random.random() < 0.6:
        _change_list(value, root, source)
    elif isinstance(value, str) and random.random() < 0.6:
        container[key] = _changed_text(value, source)
    else:
        container[key] = _new_value(root, source)


def _remove_or_rename(container: Any, key: Any, source: Source) -> None:
    value = container.pop(key)
    if isinstance(container, dict) and source.random.random() < 0.5:
        container[source.word()] = value


def _change_list(items: list[Any], root: list[Any], source: Source) -> None:
    random = source.random
    kind = random.randrange(4)
    if kind == 0 and items:
        items.insert(random.randint(0, len(items)), _copied(random.choice(items)))
    elif kind == 1 and items:
        items.insert(random.randint(0, len(items) - 1), items.pop(random.randrange(len(items))))
    elif kind == 2 and items:
        items *= random.choice((2, 3, 20))
    else:
        items.insert(random.randint(0, len(items)), _new_value(root, source))


def _changed_text(text: str, source: Source) -> str:
    random = source.random
    at, to = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
    inserted = random.choice(
        (
            "",
            source.word(),
            random.choice([each for each in INTERESTING if isinstance(each, str)]),
            text[at:to] * 2,
        )
    )
    return text[:at] + inserted + text[random.choice((at, to)) :]


def _new_value(root: list[Any], source: Source) -> Any:
    """Return a value from anywhere: known words, odd values, copies of this input or another."""
    random = source.random
    kind = random.randrange(6)
    if kind == 0:
        return source.word()
    if kind == 1:
        container, key = random.choice(_places(root))
        return _copied(container[key])
    if kind == 2:
        return _value_of(source)
    if kind == 3:
        return {source.word(): random.choice(INTERESTING), source.word(): source.word()}
    if kind == 4 and random.random() < 0.1:
        return _nested(random.choice((10, 100, 600)), source.word())
    return _copied(random.choice(INTERESTING))


def _value_of(source: Source) -> Any:
    """Return a value of the other input; its frames are JSON as well."""
    text = source.other
    if text.startswith((b"data:", b"event:", b":")):
        text = source.random.choice(text.split(b"\n\n")).partition(b"data:")[2]
    try:
        value = [json.loads(text)]
    except (ValueError, RecursionError):
        return source.word()
    container, key = source.random.choice(_places(value))
    return container[key]


def _nested(depth: int, name: str) -> Any:
    value: Any = []
    for number in range(depth):
        value = [value] if number % 2 else {name: value}
    return value


def _copied(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except RecursionError:
        return None


# Streams


def change_frames(data: bytes, source: Source) -> bytes:
    """Change server-sent events: their order and number, or the JSON of one of them."""
    return _change_sequence(data, source, b"\n\n", _change_frame)


def _change_frame(frame: bytes, source: Source) -> bytes:
    before, name, value = frame.partition(b"data: ")
    if name and source.random.random() < 0.85:
        return before + name + change_json(value, source)
    return change_lines(frame, source)


def change_json_lines(data: bytes, source: Source) -> bytes:
    """Change lines that are JSON each."""
    return _change_sequence(data, source, b"\n", change_json)


FORMATS: dict[str, Mutator] = {
    "bytes": change_bytes,
    "lines": change_lines,
    "json": change_json,
    "json lines": change_json_lines,
    "sse": change_frames,
}
"""By the format of a target's input: the mutator that knows it."""


def mutate(data: bytes, format: str, source: Source) -> bytes:
    """Return a changed input of at most `MOST_BYTES`. A few changes in a row find more than one alone."""
    random = source.random
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        change = FORMATS[format] if random.random() < 0.85 else change_bytes
        data = change(data, source)[:MOST_BYTES]
    return data
