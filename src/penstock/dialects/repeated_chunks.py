"""Chunks that are the same but for their text.

Many servers repeat everything in a chunk but the piece of text: its id, its model, its time. What is before
and after the text is then the same as in the chunk before, and so is what the chunk means. Such a chunk needs
no decoding. In our recordings, half of the Chat Completions streams consist of nothing else.
"""

from __future__ import annotations

import re

from penstock.sse import Frame

_PLAIN_BYTES = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]+').fullmatch
"""The JSON of a text without escapes: what is between the quotes is the text."""
_MOST_MISSES = 4
"""After this many chunks in a row that did not repeat the one before, a stream is not tried any more."""


class RepeatsText:
    """A reader of a dialect in which chunks may repeat. After each frame, `text_key` is the name of the field
    whose text was the only thing that mattered, with the quotes and the colon; None if something else did.

    It promises that another frame has the same effect, if it differs in that text only.
    """

    __slots__ = ("text_key",)

    def __init__(self) -> None:
        self.text_key: str | None = None


class RepeatedChunk:
    """Recognises chunks that repeat the last one: as frames, and as whole reads, which are not even split
    into frames."""

    __slots__ = ("_begin", "_end", "_event", "_head", "_misses", "_tail")

    def __init__(self) -> None:
        self._event: str | None = None
        self._begin = self._end = ""
        """The data of a frame before and after its text; empty: nothing is known."""
        self._head = self._tail = b""
        """The same for a read that is one frame."""
        self._misses = 0

    def text_in(self, data: bytes) -> str | None:
        """Return the text of a read that is a repeated chunk; None if it is anything else."""
        head, tail = self._head, self._tail
        if not head or not data.startswith(head) or not data.endswith(tail):
            return None
        text = data[len(head) : -len(tail)]
        if len(text) + len(head) + len(tail) != len(data) or not _PLAIN_BYTES(text):
            return None
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            return None
        self._misses = 0
        return decoded

    def text_of(self, frame: Frame) -> str | None:
        """Return the text of a frame that is a repeated chunk; None if it is anything else."""
        data, begin, end = frame.data, self._begin, self._end
        if not begin or not data.startswith(begin) or not data.endswith(end):
            return None
        text = data[len(begin) : -len(end)]
        if (
            len(text) + len(begin) + len(end) != len(data)
            or frame.event != self._event
            or not _PLAIN_TEXT(text)
        ):
            return None
        self._misses = 0
        return text

    def learn(self, frame: Frame, key: str, text: str) -> None:
        """Remember a frame with this text, which must be found in it without doubt."""
        self.forget()
        data, self._misses = frame.data, self._misses + 1
        if self._misses > _MOST_MISSES or data.count(key) != 1:
            return
        at = data.find(key) + len(key)
        if data.startswith(" ", at):
            at += 1
        if data.startswith(f'"{text}"', at):
            self._event = frame.event
            self._begin, self._end = data[: at + 1], data[at + 1 + len(text) :]

    def learn_read(self, data: bytes, frame: Frame) -> None:
        """Remember that this frame, which was learned or recognised, was a read of its own. Otherwise, a part
        of it was in an earlier read, or a part of the next one is in this."""
        if self._begin and data == f"data: {frame.data}\n\n".encode("utf-8", "replace"):
            self._head = f"data: {self._begin}".encode()
            self._tail = f"{self._end}\n\n".encode()

    def forget_reads(self) -> None:
        """Recognise no whole reads until the next `learn_read`: one may begin in the middle of a frame."""
        self._head = b""

    def forget(self) -> None:
        self._begin, self._head = "", b""
