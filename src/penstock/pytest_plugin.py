"""A pytest plugin with the fixture `assert_lawful`, which fails a test if a stream breaks a rule.

pytest imports this module whenever it starts where Penstock is installed. So it imports the checker only when
the fixture is used.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.captures.stream_check import LocatedViolation, StreamCheck
    from penstock.cli.check_results import CheckedSource
    from penstock.stream.checker import StreamChecker

_PIECES = (bytes, bytearray, memoryview, str)


@pytest.fixture(scope="session")
def assert_lawful() -> AssertLawful:
    """Fail the test if a stream of OpenResponses events breaks a rule: `assert_lawful(stream)`."""
    return AssertLawful()


class AssertLawful:
    """The type of the fixture `assert_lawful`."""

    def __call__(
        self,
        stream: object,
        *,
        accent: str = "openresponses",
        transport: str = "auto",
        tolerant: bool = False,
    ) -> None:
        """Raise `AssertionError` with every violation if the stream is not lawful.

        `stream` is the path of a file (`pathlib.Path`), the stream itself as `bytes` or `str`, or an iterable
        of pieces of it, of `penstock.Frame`, or of events (mappings, or events of the state machine). The
        options are those of `penstock check`.
        """
        __tracebackhide__ = True
        report = _report(stream, accent, transport, tolerant)
        if report:
            raise AssertionError(report)


def _report(stream: object, accent: str, transport: str, tolerant: bool) -> str:
    """Return what is wrong with a stream, and nothing if it is lawful."""
    from penstock.captures.stream_check import StreamCheck
    from penstock.cli.check_results import CheckedSource
    from penstock.stream.checker import StreamChecker

    source = CheckedSource("the stream", is_file=False)
    if isinstance(stream, os.PathLike):
        source = CheckedSource(str(os.fspath(stream)))
        items: Iterator[Any] = iter([Path(stream).read_bytes()])
    else:
        items = iter([stream]) if isinstance(stream, _PIECES) else _items(stream)
    first = next(items, b"")
    items = chain([first], items)
    if isinstance(first, _PIECES):
        check = StreamCheck(accent=accent, transport=transport, tolerant=tolerant)
        return _check_pieces(source, check, map(_bytes, items)) or _explained(source, tolerant)
    transport = "sse" if transport == "auto" else transport
    checker = StreamChecker(accent=accent, transport=transport, tolerant=tolerant)
    source.violations.extend(_violations(checker, items))
    source.events = checker.events
    return _explained(source, tolerant)


def _items(stream: object) -> Iterator[Any]:
    if isinstance(stream, AsyncIterable):
        raise TypeError("assert_lawful cannot wait for a stream: pass [each async for each in stream]")
    if not isinstance(stream, Iterable) or isinstance(stream, Mapping):
        raise _wrong_type(stream)
    return iter(stream)


def _bytes(piece: object) -> bytes:
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass")
    if isinstance(piece, (bytes, bytearray, memoryview)):
        return bytes(piece)
    raise _wrong_type(piece)


def _wrong_type(value: object) -> TypeError:
    return TypeError(
        "assert_lawful checks a pathlib.Path, bytes, a str, or an iterable of bytes, frames or events, not "
        f"{type(value).__name__}"
    )


def _check_pieces(source: CheckedSource, check: StreamCheck, pieces: Iterable[bytes]) -> str:
    """Fill in what is found in a stream. If it is not a stream of events, return what it is."""
    from penstock.captures.reader import OneDocument
    from penstock.captures.stream_check import OtherFormat
    from penstock.dialects.recognition import FORMATS

    try:
        source.violations.extend(check.violations(pieces))
    except OneDocument as error:
        return f"{source.name}: {error}"
    except OtherFormat as other:
        title, dialect = FORMATS[other.name].title, FORMATS[other.name].dialect
        advice = f": translate it first, for example with `penstock translate --dialect {dialect}`"
        return f"{source.name} looks like {title}, not like OpenResponses events{advice if dialect else ''}"
    source.events = check.events
    if check.size and not check.events:
        advice = "" if source.is_file else "; to check a file, pass a pathlib.Path"
        return f"no events found in {check.size} bytes of {source.name}, read as {check.transport}{advice}"
    return ""


def _violations(checker: StreamChecker, items: Iterable[Any]) -> Iterator[LocatedViolation]:
    """Check frames or events, and yield what they break."""
    from penstock.captures.stream_check import located
    from penstock.protocol.events import Event
    from penstock.sse import Frame

    for item in items:
        if isinstance(item, Frame):
            found = checker.feed_frame(item.event, item.data)
        elif isinstance(item, (Mapping, Event)):
            found = checker.feed(item)
        else:
            raise _wrong_type(item)
        yield from (located(each, None) for each in found)
    yield from (located(each, checker.events) for each in checker.end())


def _explained(source: CheckedSource, tolerant: bool) -> str:
    """Return a message that explains each violation. What a stream contains is escaped in it."""
    from penstock.cli.terminal import Terminal
    from penstock.stream.checker.rules import RULES

    found = source.violations
    if not found:
        return ""
    lines = [f"{source.name} is not lawful: {source.verdict}"]
    for each in found:
        place = f"{source.name}:{each.line}: " if source.is_file else ""
        lines.append(f"  {place}{each.rule}  {each.where}: {each.message}")
        if each.rule in RULES:
            lines.append(f"    the rule: {RULES[each.rule].title}")
        if each.breaks:
            lines.append(f"    breaks: {each.breaks}")
    tolerated = sum(each.is_tolerated for each in found)
    if tolerated and not tolerant:
        lines.append(f"known clients tolerate {tolerated} of {len(found)}: tolerant=True hides those")
    return "\n".join(map(Terminal().clean, lines))
