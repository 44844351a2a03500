"""The text parts of one item, as they were received: which part an event belongs to, and what it still adds.

The indexes of an upstream are not trusted: servers count from 1, skip numbers, leave the index out, use one
for all parts, or number `*.done` events and the lists in items differently. An index only tells that a delta
begins another part. Full texts are compared with the text that was received, so none is passed on twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct


class ReceivedPart:
    """One part. `key` is its position among the parts of its list: ours, and never ambiguous."""

    __slots__ = ("channel", "chunks", "disputed", "ended", "index", "key", "length", "settled")

    def __init__(self, key: int, channel: str, index: int | None) -> None:
        self.key = key
        self.channel = channel
        self.index = index
        self.chunks: list[str] = []
        self.length = 0
        self.settled: tuple[str, ...] = ()
        """The names of the events whose full text was compared with this part; each event comes once."""
        self.disputed = ""
        """A full text that differs from this part, which a later event may repeat."""
        self.ended = False
        """Whether another delta, even with the same index, belongs to the next part."""

    @property
    def text(self) -> str:
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""

    def add(self, text: str) -> None:
        self.chunks.append(text)
        self.length += len(text)


class FullTextMatch(Struct):
    """Where a full text was received, and what is missing from it."""

    parts: list[ReceivedPart] = []
    """The parts that contain it, in order; none if it is new."""
    offset: int = 0
    """Where it begins in the first of them."""
    missing: str = ""
    """The end of it, which the last of them, or a new part, lacked."""
    agrees: bool = True

    def starts(self) -> list[int]:
        """Return where each of the parts begins in the full text."""
        return [*accumulate((part.length for part in self.parts[:-1]), initial=-self.offset)]


class ReceivedParts:
    """The parts of one list: the content or the summary of an item."""

    def __init__(self) -> None:
        self._all: list[ReceivedPart] = []
        self._by_index: dict[tuple[str, int | None], ReceivedPart] = {}
        self._is_announced = False
        """Whether the upstream announced a part that has no text yet."""

    def extend(self, channel: str, index: int | None, text: str) -> ReceivedPart:
        """Add a delta; return its part. A delta without an index belongs to the last part."""
        part = self._all[-1] if self._all else None
        if (
            part is None
            or part.ended
            or part.channel != channel
            or (part.index != index and index is not None)
        ):
            part = self._begin(channel, index)
        part.add(text)
        return part

    def texts(self, channel: str) -> list[str]:
        """Return the text of each part of a channel."""
        return [part.text for part in self._all if part.channel == channel]

    def announce(self) -> None:
        """Note that the upstream announced a part: text that follows does not continue the last one."""
        self._is_announced = True
        if self._all:
            self._all[-1].ended = True

    def key_of(self, channel: str, index: int | None) -> int:
        """Return the key of the part that a citation belongs to.

        Without a part of that index, it is the open part, or else the next one.
        """
        part = self._find(channel, index)
        if part is None and self._all and not self._all[-1].ended:
            part = self._all[-1]
        return len(self._all) if part is None else part.key

    def settle(self, channel: str, index: int | None, full: str, event_name: str) -> FullTextMatch:
        """Compare the full text of one part with what was received, add what is missing, and end the part."""
        if not full:
            part = self._find(channel, index)
            return FullTextMatch([] if part is None else [part])
        match = self._match_one(channel, index, full, event_name)
        self._add_missing(match, channel, index)
        for part in match.parts:
            part.settled += (event_name,)
            part.ended = True
        return match

    def complete(self, texts: Sequence[tuple[str, str]]) -> list[tuple[int, FullTextMatch]]:
        """Compare the final list, of channel and full text, with what was received, and add what is missing.

        Return the match of each position, in the order in which the texts were added.
        """
        matches = self._match_in_sequence(texts) or self._match_separately(texts)
        for position, match in matches:
            self._add_missing(match, texts[position][0], None)
        return matches

    def _add_missing(self, match: FullTextMatch, channel: str, index: int | None) -> None:
        if match.missing:
            match.parts = match.parts or [self._begin(channel, index)]
            match.parts[-1].add(match.missing)

    def _begin(self, channel: str, index: int | None) -> ReceivedPart:
        self._is_announced = False
        part = ReceivedPart(len(self._all), channel, index)
        self._all.append(part)
        self._by_index[channel, index] = part
        return part

    def _find(self, channel: str, index: int | None) -> ReceivedPart | None:
        """Return the last part with this index; without an index, the last part."""
        if index is not None:
            return self._by_index.get((channel, index))
        return self._all[-1] if self._all and self._all[-1].channel == channel else None

    # One full text

    def _match_one(self, channel: str, index: int | None, full: str, event_name: str) -> FullTextMatch:
        last = self._all[-1] if self._all else None
        found = self._find(channel, index)
        run = self._unsettled(channel, len(full), event_name)
        received = "".join(part.text for part in run)
        if run and full == received:
            return FullTextMatch(run)
        if (
            found is not None
            and found is last
            and event_name not in found.settled
            and full.startswith(found.text)
        ):
            run, received = [found], found.text
        elif run and not full.startswith(received):
            run, received = run[-1:], run[-1].text
        if run and full.startswith(received):
            return FullTextMatch(run, missing=full[len(received) :])
        if found is not None and full in (found.text, found.disputed) and not self._is_announced:
            return FullTextMatch([found])
        if found is not None and event_name not in found.settled:
            found.disputed = full
            return FullTextMatch([found], agrees=False)
        return FullTextMatch(missing=full)

    def _unsettled(self, channel: str, length: int, event_name: str) -> list[ReceivedPart]:
        """Return the last parts that this event has not confirmed, as many as fit into a text.

        If each delta has another index, one text was received as several parts.
        """
        run: list[ReceivedPart] = []
        for part in reversed(self._all):
            length -= part.length
            if length < 0 or event_name in part.settled or part.channel != channel:
                break
            run.append(part)
        return run[::-1]

    # The final list

    def _match_in_sequence(self, texts: Sequence[tuple[str, str]]) -> list[tuple[int, FullTextMatch]]:
        """Compare the received parts with the list as two sequences of characters, whatever their borders.

        Return nothing unless the received text is how the full text begins.
        """
        matches: list[tuple[int, FullTextMatch]] = []
        number, offset = 0, 0  # the next received character
        for position, (channel, full) in enumerate(texts):
            match = FullTextMatch(offset=offset)
            compared = 0
            while compared < len(full) and number < len(self._all):
                part = self._all[number]
                size = min(part.length - offset, len(full) - compared)
                if part.channel != channel or not full.startswith(
                    part.text[offset : offset + size], compared
                ):
                    return []
                match.parts.append(part)
                compared += size
                offset += size
                if offset == part.length:
                    number, offset = number + 1, 0
            match.missing = full[compared:]
            matches.append((position, match))
        return matches if number == len(self._all) else []

    def _match_separately(self, texts: Sequence[tuple[str, str]]) -> list[tuple[int, FullTextMatch]]:
        """Match part by part: an upstream streamed other text, or not every part.

        The missing end of the last part comes first. A part that has ended cannot be completed. A full text
        that was not received is new, unless a received part is left over: then they disagree.
        """
        known: list[tuple[int, FullTextMatch]] = []
        unknown: list[tuple[int, FullTextMatch]] = []
        number = 0
        for position, (channel, full) in enumerate(texts):
            part = self._all[number] if number < len(self._all) else None
            if part is not None and full and part.channel == channel and full.startswith(part.text):
                number += 1
                missing = full[part.length :]
                is_last = part is self._all[-1]
                match = FullTextMatch(
                    [part], missing=missing if is_last else "", agrees=is_last or not missing
                )
                known.append((position, match))
            else:
                unknown.append((position, FullTextMatch(missing=full)))
        left_over = len(self._all) - number
        for _, match in unknown:
            if left_over and match.missing:
                left_over -= 1
                match.missing, match.agrees = "", False
        return known + unknown
