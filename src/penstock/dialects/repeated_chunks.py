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
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
MOST_MISSES = 4
"""After this many chunks in a row that did not repeat the one before, a stream is not tried any more."""
_AT_ONCE = 8 * 1024
"""Bytes of repeated chunks that are read before other streams may have their turn."""


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
        """The bytes of the last chunk before and after its text in quotes; empty: nothing is known."""
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

    def texts_in(self, data: bytes, begin: int) -> tuple[list[str], int]:
        """Return the texts of the repeated chunks at this place of a read, as many as there are in a few
        kilobytes, and where they end."""
        head, tail = self._head, self._tail
        texts: list[str] = []
        if not head or not data.startswith(head, begin):
            return texts, begin
        *complete, last = data[begin + len(head) : begin + _AT_ONCE].split(tail + head)
        for json in complete:
            text = _text(json)
            if text is None:
                last = json
                break
            texts.append(text)
            begin += len(head) + len(json) + len(tail)
        # After the last text, there is another chunk, or the rest of its own is not here.
        json, has_end, _ = last.partition(tail)
        text = _text(json) if has_end else None
        if text is not None:
            texts.append(text)
            begin += len(head) + len(json) + len(tail)
        if texts:
            self._misses = 0
        return texts, begin

    def learn(self, data: bytes, frame: Frame, key: bytes, text: str) -> None:
        """Remember bytes that are one frame with this text. They must be just that frame: otherwise a part of
        it came before, or a part of the next one is in them. And the text must be found without doubt."""
        if len(data) > _AT_ONCE or self._misses >= MOST_MISSES:
            return
        if data != b"data: %b\n\n" % frame.data.encode("utf-8", "replace"):
            return
        self._misses += 1
        if data.count(key) != 1:
            return
        at = data.find(key) + len(key)
        if data.startswith(b" ", at):
            at += 1
        found = _JSON_STRING.match(data, at)
        if found is not None and _text(found[0]) == text:
            self._head, self._tail = data[:at], data[found.end() :]

    def forget(self) -> None:
        self._head = b""


def _text(json: bytes) -> str | None:
    """Return the text in this JSON; None if it is anything else, or empty: that may have another meaning."""
    if not (json.startswith(b'"') and json.endswith(b'"')):
        return None  # a line end before or after it would be one of the stream
    try:
        return _decode_text(json) or None
    except (msgspec.DecodeError, UnicodeError):
        return None
