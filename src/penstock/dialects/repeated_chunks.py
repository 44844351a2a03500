"""Chunks that are the same but for their text.

Many servers repeat everything in a chunk but the piece of text: its id, its model, its time. The bytes before
and after the text are then the same as in the chunk before, and so is what the chunk means. Such a chunk
needs no decoding. In our recordings, half of the Chat Completions streams consist of nothing else.
"""

from __future__ import annotations

import re

from penstock.sse import Frame

_PLAIN_TEXT = re.compile(rb'[^"\\\x00-\x1f]+')
"""The JSON of a text without escapes: the bytes between the quotes are the text."""
_MOST_MISSES = 4
"""After this many chunks in a row that did not repeat the one before, a stream is not tried any more."""


class RepeatsText:
    """A reader of a dialect in which chunks may repeat. After each frame, `text_key` is the name of the field
    whose text was the only thing that mattered, with the quotes and the colon; None if something else did.

    It promises that another frame has the same effect, if it differs in that text only.
    """

    __slots__ = ("text_key",)

    def __init__(self) -> None:
        self.text_key: bytes | None = None


class RepeatedChunk:
    """Recognises chunks that repeat the last one."""

    __slots__ = ("_head", "_misses", "_tail")

    def __init__(self) -> None:
        self._head = self._tail = b""
        self._misses = 0

    def text_in(self, data: bytes) -> str | None:
        """Return the text of a read that is a repeated chunk; None if it is anything else."""
        head, tail = self._head, self._tail
        if not head or not data.startswith(head) or not data.endswith(tail):
            return None
        text = data[len(head) : -len(tail)]
        if len(text) + len(head) + len(tail) != len(data) or not _PLAIN_TEXT.fullmatch(text):
            return None
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            return None
        self._misses = 0
        return decoded

    def learn(self, data: bytes, frame: Frame, key: bytes, text: str) -> None:
        """Remember a read with one frame and this text. It must be just that frame: otherwise a part of it
        was in an earlier read, or a part of the next one is in this. And the text must be found without
        doubt."""
        if self._misses >= _MOST_MISSES or data != b"data: %b\n\n" % frame.data.encode("utf-8", "replace"):
            return
        self._misses += 1
        begin = data.find(key) + len(key)
        if data.count(key) != 1:
            return
        if data.startswith(b" ", begin):
            begin += 1
        quoted = b'"%b"' % text.encode("utf-8", "replace")
        if data.startswith(quoted, begin):
            self._head, self._tail = data[: begin + 1], data[begin + len(quoted) - 1 :]

    def forget(self) -> None:
        self._head = b""
