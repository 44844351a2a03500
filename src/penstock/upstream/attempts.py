"""What to try next when a request has failed: another key, the same target again, the next one, or nothing.

It is asked before the first output of a turn went to the client; after that nothing is ever sent again
(decision 9). It sends nothing and waits for nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from msgspec import Struct

from penstock.client.retries import LONGEST_WAIT, is_transient
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    OpenResponsesError,
    PermissionDeniedError,
    RateLimitError,
)
from penstock.upstream.target import Upstream

FIRST_WAIT = 0.25
LONGEST_REST = 3600.0
"""However long a vendor says: a wrong header must not take a key away for days."""


class NextStep(Enum):
    """What can be done about a failure."""

    OTHER_KEY = "another ready key of the same target, at once"
    AGAIN = "the same target again, after a wait"
    NEXT = "the next target"


class RetryRule(Struct, frozen=True):
    """The steps are tried in their order; the first that is possible is taken. Without one it is the end."""

    steps: tuple[NextStep, ...] = ()
    rest: float = 0.0
    """Seconds for which the key is not used while another one is ready."""
    is_rest_told: bool = False
    """Does the vendor know better how long?"""
    is_final_for_own_key: bool = False
    """A client whose own key is wrong must be told, or it will never know."""


LIMITED = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT, NextStep.AGAIN), rest=30.0, is_rest_told=True)
SPENT = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT), rest=3600.0)
REFUSED = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT), rest=600.0, is_final_for_own_key=True)
FORBIDDEN = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT), is_final_for_own_key=True)
"""Without a rest: what is not allowed is mostly this model, and the key is good for others."""
PASSING = RetryRule((NextStep.AGAIN, NextStep.NEXT))
ELSEWHERE = RetryRule((NextStep.NEXT,))
FINAL = RetryRule()

BY_CODE: dict[str, RetryRule] = {
    "insufficient_quota": SPENT,
    # An overflow must reach the client as what it is: only a shorter conversation helps (ask E4).
    "context_length_exceeded": FINAL,
    "content_filter": FINAL,
    "invalid_prompt": FINAL,
    # What stands between us and this target will not change by asking again.
    "certificate_error": ELSEWHERE,
    "tls_error": ELSEWHERE,
    "proxy_error": ELSEWHERE,
    "unsupported_proxy": ELSEWHERE,
}

BY_KIND: tuple[tuple[type[OpenResponsesError], RetryRule], ...] = (
    (RateLimitError, LIMITED),
    (AuthenticationError, REFUSED),
    (PermissionDeniedError, FORBIDDEN),
    (NotFoundError, ELSEWHERE),
    (ContextOverflowError, FINAL),
    (InvalidRequestError, FINAL),
)


def rule_for(error: OpenResponsesError) -> RetryRule:
    """The row for a failure: by its code, else by its kind, else by whether it may pass."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    passes = is_transient(error)
    for kind, rule in BY_KIND:
        if isinstance(error, kind) and not (passes and rule is FINAL):  # a 408 is no wrong request
            return rule
    return PASSING if passes else ELSEWHERE


class Candidate(Struct, frozen=True):
    """One step of a chain: an upstream, and the model's name there."""

    upstream: Upstream
    model: str


class Attempt(Struct, frozen=True):
    """What to do now: wait, then ask this upstream with this key."""

    upstream: Upstream
    model: str
    key: str
    wait: float
    """Seconds."""
    number: int
    """1 for the first of the turn."""

    def __repr__(self) -> str:
        """Without the key."""
        where = f"{self.upstream.name!r}, {self.model!r}"
        return f"Attempt({where}, wait={self.wait:g}, number={self.number})"


class Attempts:
    """The attempts of one turn. `random` gives numbers from 0 to 1: it spreads out what failed together.

    `client_key` is sent to upstreams that take the client's own key; it never rests, and no key of ours takes
    its place. `prefer` holds the fingerprints of keys that the conversation's reasoning is bound to.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        retries: int,
        wait_budget: float,
        random: Callable[[], float],
        client_key: str = "",
        prefer: Collection[str] = (),
    ) -> None:
        if not candidates:
            raise ValueError("there is nothing to try")
        self._untried = list(candidates)
        self._retries = retries
        self._wait_budget = wait_budget
        self._random = random
        self._client_key = client_key
        self._prefer = prefer
        self._number = 0
        self._waited = 0.0
        self._current: Attempt | None = None
        # Of the target that is being asked:
        self._repeats = 0
        self._refused: set[str] = set()

    def first(self) -> Attempt:
        return self._move_on()

    def after(self, error: OpenResponsesError) -> Attempt | None:
        """What comes after the attempt that failed with this; None: the error goes to the client."""
        failed, self._current = self._current, None
        if failed is None:
            raise RuntimeError("there is no attempt that could have failed")
        rule = rule_for(error)
        if rule.is_final_for_own_key and self._is_own(failed.upstream):
            return None
        if rule.rest:
            self._rest(failed, rule, error)
        for step in rule.steps:
            attempt = self._take(step, failed, error)
            if attempt is not None:
                return attempt
        return None

    def _take(self, step: NextStep, failed: Attempt, error: OpenResponsesError) -> Attempt | None:
        """The attempt that this step leads to; None where it is not possible."""
        match step:
            case NextStep.OTHER_KEY:
                return self._other_key(failed)
            case NextStep.AGAIN:
                return self._again(failed, error)
            case NextStep.NEXT:
                return self._move_on() if self._untried else None

    def _rest(self, failed: Attempt, rule: RetryRule, error: OpenResponsesError) -> None:
        """Let the key rest, if it is one of ours."""
        if not failed.key or self._is_own(failed.upstream):
            return
        seconds = (error.retry_after if rule.is_rest_told else None) or rule.rest
        failed.upstream.keys.rest(failed.key, min(seconds, LONGEST_REST))
        self._refused.add(failed.key)

    def _other_key(self, failed: Attempt) -> Attempt | None:
        """A key that was not refused since the last wait. One whose short rest is over already must not be
        taken at once: two of them would be asked in turn for ever."""
        if self._is_own(failed.upstream):
            return None
        if failed.key:
            self._refused.add(failed.key)
        key = failed.upstream.keys.another(self._refused, self._prefer)
        return None if key is None else self._attempt(failed.upstream, failed.model, key)

    def _again(self, failed: Attempt, error: OpenResponsesError) -> Attempt | None:
        if self._repeats >= self._retries:
            return None
        wait = error.retry_after or self._backoff()
        if failed.key in self._refused:
            wait = min(wait, failed.upstream.keys.ready_in())  # another key may be ready before this one
        if self._waited + wait > self._wait_budget:
            return None
        self._repeats += 1
        self._refused = set()
        return self._attempt(failed.upstream, failed.model, self._key_for(failed.upstream), wait)

    def _backoff(self) -> float:
        """Doubling, of which a random half is taken off."""
        longest: float = min(FIRST_WAIT * 2 ** min(self._repeats, 16), LONGEST_WAIT)
        return longest * (0.5 + self._random() / 2)

    def _move_on(self) -> Attempt:
        """To the next target with a ready key; to one whose keys all rest only when there is no other."""
        ready = (candidate for candidate in self._untried if self._is_ready(candidate.upstream))
        candidate = next(ready, self._untried[0])
        self._untried.remove(candidate)
        self._repeats = 0
        self._refused = set()
        return self._attempt(candidate.upstream, candidate.model, self._key_for(candidate.upstream))

    def _attempt(self, upstream: Upstream, model: str, key: str, wait: float = 0.0) -> Attempt:
        self._number += 1
        self._waited += wait
        self._current = Attempt(upstream, model, key, wait, self._number)
        return self._current

    def _key_for(self, upstream: Upstream) -> str:
        return self._client_key if self._is_own(upstream) else upstream.keys.take(self._prefer)

    def _is_own(self, upstream: Upstream) -> bool:
        """Is the client's own key sent there?"""
        return upstream.pass_key and bool(self._client_key)

    def _is_ready(self, upstream: Upstream) -> bool:
        return self._is_own(upstream) or upstream.keys.ready_in() == 0
