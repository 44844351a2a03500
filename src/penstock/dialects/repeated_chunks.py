"""Chunks that are the same but for their text.

Many servers repeat everything in a chunk but the piece of text: its id, its model, its time. What is before
and after the text is then the same as in the chunk before, and so is what the chunk means. Such a chunk needs
no decoding. In our recordings, half of the Chat Completions streams consist of nothing else.
"""

from __future__ import annotations

import re

import msgspec

from penstock.sse import Frame

_decode_text = msgspec.json.Decoder(str).decode
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
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
        """The data of a frame before and after its text in quotes; empty: nothing is known."""
        self._head = self._tail = b""
        """The same for a read that is one frame."""
        self._misses = 0

    def text_in(self, data: bytes) -> str | None:
        """Return the text of a read that is a repeated chunk; None if it is anything else."""
        head, tail = self._head, self._tail
        if not head or not data.startswith(head) or not data.endswith(tail):
            return None
        text = _text(data[len(head) : -len(tail)])
        if text is not None:
            self._misses = 0
        return text

    def text_of(self, frame: Frame) -> str | None:
        """Return the text of a frame that is a repeated chunk; None if it is anything else."""
        data, begin, end = frame.data, self._begin, self._end
        if not begin or not data.startswith(begin) or not data.endswith(end) or frame.event != self._event:
            return None
        text = _text(data[len(begin) : -len(end)])
        if text is not None:
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
        found = _JSON_STRING.match(data, at)
        if found is not None and _text(found[0]) == text:
            self._event, self._begin, self._end = frame.event, data[:at], data[found.end() :]

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


def _text(json: str | bytes) -> str | None:
    """Return the text in this JSON; None if it is anything else, or empty: that may have another meaning."""
    try:
        return _decode_text(json) or None
    except (msgspec.DecodeError, UnicodeError):
        return None
