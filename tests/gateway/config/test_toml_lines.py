"""The lines of a TOML document: every key, table and element is found where it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError
from penstock.gateway.config.toml_lines import Path, TomlLines, parse
from tests.effort import examples

DOCUMENT = '''\
# a comment with [brackets] and = signs
default_model = "fast"  # and another

[targets.fast]
base_url = "http://127.0.0.1/v1"
headers = { x-one = "1", "x two" = "]" }
keys = [
    "ONE",  # the first = [
    "TWO",
]

[targets."a.b"]
note = """
[targets.fake]
not = "a key" \\"""
still not\\\\"""
after = \'\'\'
x = 1''\'\'\'
quirks.images = false

[[keys]]
name = "first"

[[keys]]
name = "second"
[keys.more]
when = 1979-05-27 07:32:00
[ models . m ]
targets = [["a"], [{ b = 1 }]]
'''

PLACES: list[tuple[Path, int]] = [
    (("default_model",), 2),
    (("targets",), 4),
    (("targets", "fast"), 4),
    (("targets", "fast", "headers"), 6),
    (("targets", "fast", "headers", "x-one"), 6),
    (("targets", "fast", "headers", "x two"), 6),
    (("targets", "fast", "keys"), 7),
    (("targets", "fast", "keys", 0), 8),
    (("targets", "fast", "keys", 1), 9),
    (("targets", "a.b"), 12),
    (("targets", "a.b", "note"), 13),
    (("targets", "a.b", "after"), 17),
    (("targets", "a.b", "quirks", "images"), 19),
    (("keys",), 21),
    (("keys", 0), 21),
    (("keys", 0, "name"), 22),
    (("keys", 1), 24),
    (("keys", 1, "name"), 25),
    (("keys", 1, "more"), 26),
    (("keys", 1, "more", "when"), 27),
    (("models", "m"), 28),
    (("models", "m", "targets", 1, 0, "b"), 29),
]


@pytest.mark.parametrize(("path", "line"), PLACES, ids=lambda value: str(value))
def test_a_key_is_found_where_it_is_written(path: Path, line: int) -> None:
    assert TomlLines(DOCUMENT).line(path) == line
    assert TomlLines(DOCUMENT.replace("\n", "\r\n")).line(path) == line


def test_a_missing_key_has_the_line_of_its_table() -> None:
    lines = TomlLines(DOCUMENT)
    assert lines.line(("targets", "a.b", "base_url")) == 12
    assert lines.line(("nothing", "at", "all")) == 1


def test_a_value_ends_on_its_last_line() -> None:
    spans = TomlLines(DOCUMENT).spans
    assert spans["targets", "fast", "keys"] == (7, 10)
    assert spans["targets", "a.b", "note"] == (13, 16)
    assert spans["targets", "a.b", "after"] == (17, 18)
    assert spans["targets", "fast"] == (4, 10)
    assert spans["keys", 0] == (21, 22)


def test_a_table_has_the_line_of_its_own_header() -> None:
    assert TomlLines("[a.b]\nx = 1\n[a]\ny = 1\n").spans["a",] == (3, 4)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a = 1\nb = = 2\n", 2, "not valid TOML"),
        ("a = 1\na = 2\n", 2, "overwrite"),
        ('a = "', 1, "not valid TOML"),
        ("a = [\n\n", 3, "not valid TOML"),
        ("a = " + "[" * 100_000, 0, "too deep"),
        ("a = " + "9" * 10_000, 0, "not valid TOML"),
    ],
)
def test_a_syntax_error_has_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(text, "penstock.toml")
    assert (caught.value.file, caught.value.line) == ("penstock.toml", line)


@given(st.text("[]{}=,.\"'#\\ \n\tab1", max_size=60))
@example('"\\1" = [{a.b = \'x')
@settings(max_examples=examples(300))
def test_any_text_is_read_or_has_a_syntax_error(text: str) -> None:
    for first, last in TomlLines(text).spans.values():
        assert 1 <= first <= last


# Documents that are written here piece by piece, so that the line of everything in them is known.

NAMES = st.text("ab-_1 .#[]='\"\\é", max_size=4)
SCALARS = st.sampled_from(
    [
        *("1", "-2.5e3", "0xff", "true", "inf", "1979-05-27", "1979-05-27 07:32:00", "07:32:00Z"[:-1]),
        *('"plain"', "'plain'", '""', "''", '"]"', '"# = \\" \\\\"', "'{'", '"\\u00e9"'),
    ]
)
LONG_TEXTS = st.sampled_from(
    [
        *('""""""', "''''''", '"""a\nb"""', "'''a\n[b]\nc = 1'''", '"""\n\\"""\n"""', '"""a\\\n  b"""'),
        *('"""a"""""', "'''\na'''''", '"""#\n\n\\\\"""'),
    ]
)
BLANKS = st.sampled_from(["", " ", "\n", "  # ] } = [x]\n", "\n\n\t# '''\n", '# """\n'])
SPACES = st.sampled_from(["", " ", "\t "])


class Writer:
    """Writes a document, and knows where everything in it is."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.text = ""
        self.places: dict[Path, int] = {}

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def put(self, text: str) -> None:
        self.text += text

    def blank(self) -> None:
        self.put(self.draw(BLANKS))

    def space(self) -> None:
        self.put(self.draw(SPACES))

    def place(self, path: Path) -> None:
        self.places.setdefault(path, self.line)

    def key(self, name: str) -> None:
        is_bare = bool(name) and all(each.isascii() and (each.isalnum() or each in "-_") for each in name)
        styles = ["basic", *(["bare"] if is_bare else []), *(["literal"] if "'" not in name else [])]
        style = self.draw(st.sampled_from(styles))
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        self.put({"bare": name, "literal": f"'{name}'", "basic": f'"{escaped}"'}[style])

    def dotted(self, names: list[str], within: Path) -> Path:
        path = within
        for index, name in enumerate(names):
            self.put("." if index else "")
            self.space()
            path = (*path, name)
            self.place(path)
            self.key(name)
            self.space()
        return path

    def pairs(self, path: Path, depth: int, gap: Callable[[], None]) -> None:
        """Some pairs with names of their own; `gap` goes between them."""
        for index, name in enumerate(self.draw(st.lists(NAMES, max_size=3, unique=True))):
            if index:
                gap()
            below = self.draw(st.lists(NAMES, max_size=2)) if depth else []
            end = self.dotted([name, *below], path)
            self.put("=")
            self.space()
            self.value(end, depth)

    def value(self, path: Path, depth: int) -> None:
        kinds = ["scalar", "text", *(["array", "table"] if depth else [])]
        match self.draw(st.sampled_from(kinds)):
            case "scalar":
                self.put(self.draw(SCALARS))
            case "text":
                self.put(self.draw(LONG_TEXTS))
            case "array":
                self.array(path, depth - 1)
            case _:
                self.put("{ ")
                self.pairs(path, depth - 1, lambda: self.put(", "))
                self.put(" }")

    def array(self, path: Path, depth: int) -> None:
        self.put("[")
        count = self.draw(st.integers(0, 3))
        for index in range(count):
            self.blank()
            self.place((*path, index))
            self.value((*path, index), depth)
            self.blank()
            if index + 1 < count or self.draw(st.booleans()):
                self.put(",")
        self.blank()
        self.put("]")

    def header(self, names: list[str], path: Path, is_array: bool) -> None:
        """A header of its own: no table above it has one, so the first mention is here or above."""
        self.put("[[" if is_array else "[")
        self.space()
        for index, name in enumerate(names):
            self.put("." if index else "")
            self.key(name)
            self.space()
        self.put("]]" if is_array else "]")
        for end in range(1, len(path)):
            self.place(path[:end])
        self.places[path] = self.line
        self.put("\n")


@st.composite
def documents(draw: Callable[[Any], Any]) -> tuple[str, dict[Path, int]]:
    writer = Writer(draw)

    def next_line() -> None:
        writer.space()
        writer.put(draw(st.sampled_from(["\n", "\n\n", " # end\n"])))
        writer.blank()

    writer.put(draw(st.sampled_from(["", "\n", "# first\n"])))
    writer.pairs((), 2, next_line)
    writer.put("\n")
    for name in draw(st.lists(NAMES.map(lambda name: f"t{name}"), max_size=4, unique=True)):
        is_array = draw(st.booleans())
        for index in range(draw(st.integers(1, 3)) if is_array else 1):
            path: Path = (name, index) if is_array else (name,)
            writer.header([name], path, is_array)
            writer.pairs(path, 2, next_line)
            next_line()
            for below in draw(st.lists(NAMES.map(lambda name: f"u{name}"), max_size=2, unique=True)):
                many = draw(st.booleans())
                writer.header([name, below], (*path, below, *([0] if many else [])), many)
                writer.pairs((*path, below, *([0] if many else [])), 1, next_line)
                next_line()
    return writer.text, writer.places


def paths_of(value: object, path: Path = ()) -> Iterator[Path]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in steps:
        yield (*path, step)
        yield from paths_of(below, (*path, step))


@pytest.mark.e2e
@given(documents())
@settings(max_examples=examples(400))
def test_every_key_of_every_document_is_found(written: tuple[str, dict[Path, int]]) -> None:
    text, places = written
    document = tomllib.loads(text)
    spans = TomlLines(text).spans
    assert set(spans) == set(paths_of(document))
    assert {path: first for path, (first, _) in spans.items()} == places
    assert all(first <= last <= text.count("\n") + 1 for first, last in spans.values())
