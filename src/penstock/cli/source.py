"""The input of a command: a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from penstock.cli import UsageError
from penstock.cli.terminal import Terminal
from penstock.formatting import printable

READ = 64 * 1024


class Reads1(Protocol):
    """A file, a pipe or an HTTP body: `read1` returns the available bytes without waiting for more."""

    def read1(self, size: int, /) -> bytes: ...


def chunks(source: str, terminal: Terminal, *, hint: str = "") -> Iterator[bytes]:
    """Yield the bytes of a file, or of standard input for `-`, as they arrive.

    The file is opened by the first `next`. `hint` is added to the error if the file does not exist.
    """
    with _open(source, terminal, hint) as stream:
        try:
            while chunk := stream.read1(READ):
                yield chunk
        except OSError as error:
            raise _unreadable(source, error) from None


@contextmanager
def streams_only() -> Iterator[None]:
    """Report an input that is one document, not a stream, as a wrong use of the command."""
    from penstock.captures.reader import OneDocument  # imported here to keep --help fast

    try:
        yield
    except OneDocument as error:
        raise UsageError(str(error)) from None


def contents(source: str, terminal: Terminal) -> bytes:
    """Return all bytes of a file, or of standard input for `-`."""
    return b"".join(chunks(source, terminal))


def _open(source: str, terminal: Terminal, hint: str) -> AbstractContextManager[Reads1]:
    if source == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        if sys.stdin.isatty():
            terminal.note("reading from the terminal; press Ctrl-D to end the input")
        stdin: Reads1 = sys.stdin.buffer  # type: ignore[assignment]  # typeshed lacks read1
        return nullcontext(stdin)
    try:
        return open(source, "rb")
    except (OSError, ValueError) as error:
        raise _unreadable(source, error, hint) from None


def _unreadable(source: str, error: Exception, hint: str = "") -> UsageError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    advice = hint if isinstance(error, FileNotFoundError) else ""
    return UsageError(f"cannot read {printable(source)}: {reason}{advice}")
