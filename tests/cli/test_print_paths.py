"""Every command writes to the standard streams through the guards of `penstock.cli.terminal`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.cli.terminal_text import CONTROLS, guarded

SOURCES = Path(penstock.__file__).parent
WRITERS = {
    "cli/terminal.py": "the guards themselves",
    "cli/chat/pipe.py": "the answer, which is what was asked for: exact in a pipe, escaped on a terminal",
    "cli/__init__.py": "constant words and the system's own message, when standard output is broken",
}
"""The files that may write to a standard stream themselves."""
OWN = ["\x1b[0m", "\x1b[31m", "\x1b[1;4m", "\r\x1b[K"]


def writes(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that print or write to a standard stream."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "print" or called.endswith(("stdout.write", "stderr.write", "_output.write")):
            yield node.lineno


def test_only_the_guards_write_to_the_standard_streams() -> None:
    found = {
        f"{name}:{line}"
        for path in SOURCES.rglob("*.py")
        if (name := path.relative_to(SOURCES).as_posix()) not in WRITERS
        for line in writes(ast.parse(path.read_text()))
    }
    assert found == set(), "use Terminal, output_line, error_line or write_error"


def test_the_screen_of_the_chat_has_one_guarded_write() -> None:
    tree = ast.parse((SOURCES / "cli/chat/screen.py").read_text())
    written = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [each for each in written if "stream.write" in each] == ["self.stream.write(guarded(text))"]


@pytest.mark.parametrize(
    "line", ["print(x)", "sys.stderr.write(x)", "sys.stdout.write(x)", "self._output.write(x)"]
)
def test_a_write_would_be_found(line: str) -> None:
    assert list(writes(ast.parse(line))) == [1]


@given(st.lists(st.one_of(st.sampled_from(OWN), st.text(), st.from_regex(CONTROLS, fullmatch=True))))
def test_the_guard_lets_only_our_own_sequences_through(pieces: list[str]) -> None:
    shown = guarded("".join(pieces))
    for each in ("\r\x1b[K", *(f"\x1b[{code}m" for code in ("0", "31", "1;4"))):
        shown = shown.replace(each, "")
    assert CONTROLS.search(shown) is None


def test_the_guard_changes_nothing_of_our_own() -> None:
    ours = "\r\x1b[K\x1b[1;4mtitle\x1b[0m\n\x1b[31mred\x1b[0m\ttab"
    assert guarded(ours) == ours


@pytest.mark.parametrize(
    "foreign", ["\x1b]0;t\x07", "\x1b[2J", "\x1b[6n", "\x9b31m", "a\rb", "\x1bP+q\x1b\\"]
)
def test_the_guard_escapes_all_other_sequences(foreign: str) -> None:
    assert CONTROLS.search(guarded(foreign)) is None
