"""The keys of one upstream. A key that was refused rests (cools down) for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest

from penstock.dialects.presets import fingerprint
from penstock.upstream.affinity import score


class KeyRing:
    """The keys that all turns of an upstream share. `clock` returns monotonic seconds.

    A resting key is avoided, not locked: if all keys rest, the one that is ready first is used. `names` says
    where each key comes from, such as the name of its variable. Conversations are spread over the keys;
    without `spread`, the first ready key is used.
    """

    def __init__(
        self,
        keys: Sequence[str] = (),
        *,
        clock: Callable[[], float],
        names: Sequence[str] = (),
        spread: bool = True,
    ) -> None:
        self._clock, self._spread = clock, spread
        named = zip_longest(keys, names[: len(keys)], fillvalue="")
        self._names = {key: name or f"key {place}" for place, (key, name) in enumerate(named, 1) if key}
        self._fingerprints = {key: fingerprint(key) for key in keys if key}
        self._ready_at = dict.fromkeys(self._fingerprints, -float("inf"))
        """When the rest of each key ends."""

    def __repr__(self) -> str:
        """Show the number of keys, and no key."""
        return f"KeyRing({len(self._ready_at)} keys)"

    def __len__(self) -> int:
        return len(self._ready_at)

    def name_of(self, key: str) -> str:
        """Return where a key comes from, or its place in the list; empty if it is not one of these."""
        return self._names.get(key, "")

    def has(self, fingerprint: str) -> bool:
        """Return whether one of the keys has this fingerprint."""
        return bool(fingerprint) and fingerprint in self._fingerprints.values()

    def take(self, prefer: Sequence[str] = (), seed: bytes = b"") -> str:
        """Return the key to use now; empty if there are no keys. `prefer` lists fingerprints of keys, the
        most important one first; `seed` is the conversation's, to choose among the others."""
        ready = self.another((), prefer, seed)
        return min(self._ready_at, key=self._ready_at.__getitem__, default="") if ready is None else ready

    def another(self, than: Collection[str], prefer: Sequence[str] = (), seed: bytes = b"") -> str | None:
        """Return a ready key other than these; None if there is none.

        Encrypted reasoning is bound to the key that it was generated with, so that key is preferred (ask C4).
        Otherwise the seed decides: the turns of a conversation use the vendor's prompt cache (ask D5).
        """
        now = self._clock()
        ready = {
            self._fingerprints[key]: key
            for key, end in self._ready_at.items()
            if end <= now and key not in than
        }
        for each in prefer:
            if each in ready:
                return ready[each]
        if len(ready) > 1 and seed and self._spread:
            return ready[max(ready, key=lambda name: score(seed, name))]
        return next(iter(ready.values()), None)

    def rest(self, key: str, seconds: float) -> None:
        """Let a key rest. A longer rest that it already has is not shortened."""
        if key in self._ready_at:
            self._ready_at[key] = max(self._ready_at[key], self._clock() + seconds)

    def resting(self) -> int:
        """Return the number of keys that rest now."""
        now = self._clock()
        return sum(end > now for end in self._ready_at.values())

    def ready_in(self) -> float:
        """Return the seconds until a key is ready; 0 if one is, or if there are no keys."""
        return max(min(self._ready_at.values()) - self._clock(), 0.0) if self._ready_at else 0.0
