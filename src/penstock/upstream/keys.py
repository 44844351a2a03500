"""The keys of one upstream, taken in turn; one that was refused rests for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from penstock.dialects.presets import fingerprint


class KeyRing:
    """Shared by all turns of an upstream. `clock` gives seconds that never run backwards.

    A rest is a preference and no lock: where all keys rest, the one that has rested most is used.
    """

    def __init__(self, keys: Sequence[str] = (), *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fingerprints = {key: fingerprint(key) for key in keys if key}
        self._rests = dict.fromkeys(self._fingerprints, -float("inf"))
        """When the rest of each key ends."""

    def __repr__(self) -> str:
        """How many there are: the keys themselves are nobody's business."""
        return f"KeyRing({len(self._rests)} keys)"

    def take(self, prefer: Collection[str] = ()) -> str:
        """The key to use now; empty where there is none. `prefer` holds fingerprints of keys."""
        ready = self.another((), prefer)
        return min(self._rests, key=self._rests.__getitem__, default="") if ready is None else ready

    def another(self, than: Collection[str], prefer: Collection[str] = ()) -> str | None:
        """A ready key that is none of these; None where there is none.

        Encrypted reasoning is bound to the key that it was made for, so that key comes first (ask C4).
        Else it is always the first: who stays with one key keeps the vendor's prompt cache warm (ask D5).
        """
        now = self._clock()
        ready = [key for key, end in self._rests.items() if end <= now and key not in than]
        preferred = (key for key in ready if self._fingerprints[key] in prefer)
        return next(preferred, ready[0] if ready else None)

    def rest(self, key: str, seconds: float) -> None:
        """Let a key cool down. A rest that it has already is not made shorter."""
        if key in self._rests:
            self._rests[key] = max(self._rests[key], self._clock() + seconds)

    def resting(self) -> int:
        """How many of them rest now."""
        now = self._clock()
        return sum(end > now for end in self._rests.values())

    def ready_in(self) -> float:
        """Seconds until a key is ready; 0 when one is, and where there are no keys."""
        return max(min(self._rests.values()) - self._clock(), 0.0) if self._rests else 0.0
