"""Decides what to try when a request has failed: another key, a retry, the next target, or nothing.

This applies until the first output of a turn was sent to the client; after that nothing is ever retried
(decision 9). Nothing here sends or waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct

from penstock.client.retries import LONGEST_WAIT, is_transient
from penstock.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from penstock.upstream.ejection import Ejections, TargetModel
from penstock.upstream.refused_keys import FORBIDDEN as UPSTREAM_FORBIDDEN
from penstock.upstream.refused_keys import UNAUTHORIZED as UPSTREAM_UNAUTHORIZED
from penstock.upstream.target import Upstream

FIRST_WAIT = 0.25
_PROXY_TIMEOUTS = (504, 524, 598, 599)
"""Statuses of a proxy that has passed the request on and got no answer in time."""
LONGEST_REST = 3600.0
"""Seconds. A wrong header of a vendor must not make a key unusable for days."""


class NextStep(Enum):
    """One way to react to a failure."""

    OTHER_KEY = "another ready key of the same target, immediately"
    RETRY = "the same target again, after a wait"
    NEXT_TARGET = "the next target"


class RetryRule(Struct, frozen=True):
    """Steps to try in order. The first possible step is taken; if there is none, the turn fails."""

    steps: tuple[NextStep, ...] = ()
    rest: float = 0.0
    """Seconds for which the key rests: it is not used while another key is ready."""
    uses_retry_after: bool = False
    """Whether the vendor's `retry-after` overrides `rest`."""
    ejects: bool = False
    """Whether it is the target's fault: such failures count towards its ejection."""
    is_final_for_own_key: bool = False
    """Whether a client that sent its own key gets the failure: it must learn that the key is wrong."""


RATE_LIMITED = RetryRule(
    (NextStep.OTHER_KEY, NextStep.NEXT_TARGET, NextStep.RETRY), rest=30.0, uses_retry_after=True
)
QUOTA_EXHAUSTED = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT_TARGET), rest=3600.0)
UNAUTHORIZED = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT_TARGET), rest=600.0, is_final_for_own_key=True)
FORBIDDEN = RetryRule((NextStep.OTHER_KEY, NextStep.NEXT_TARGET), is_final_for_own_key=True)
"""The key does not rest: usually only this model is forbidden, and the key works for others."""
TRANSIENT = RetryRule((NextStep.RETRY, NextStep.NEXT_TARGET), ejects=True)
FALLBACK = RetryRule((NextStep.NEXT_TARGET,), ejects=True)
OUTCOME_UNKNOWN = RetryRule((NextStep.NEXT_TARGET,), ejects=True)
"""The target may have processed the request, so it does not get it a second time (decision 32)."""
FINAL = RetryRule()

BY_CODE: dict[str, RetryRule] = {
    "insufficient_quota": QUOTA_EXHAUSTED,
    "budget_exceeded": QUOTA_EXHAUSTED,
    # An overflow must reach the client unchanged: only a shorter conversation helps (ask E4).
    "context_length_exceeded": FINAL,
    "content_filter": FINAL,
    "invalid_prompt": FINAL,
    # A retry does not change the network path to this target.
    "certificate_error": FALLBACK,
    "tls_error": FALLBACK,
    "proxy_error": FALLBACK,
    "unsupported_proxy": FALLBACK,
}

BY_KIND: tuple[tuple[type[OpenResponsesError], RetryRule], ...] = (
    (RateLimitError, RATE_LIMITED),
    (AuthenticationError, UNAUTHORIZED),
    (PermissionDeniedError, FORBIDDEN),
    (NotFoundError, FALLBACK),
    (ContextOverflowError, FINAL),
    (InvalidRequestError, FINAL),
)


def rule_for(error: OpenResponsesError) -> RetryRule:
    """Return the rule for a failure: by its code, else by its class, else by whether it is transient."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    if error.code in (UPSTREAM_UNAUTHORIZED, UPSTREAM_FORBIDDEN) and error.refused_key is None:
        return FALLBACK  # a gateway reports this about its own upstream: our key is valid
    if _may_have_been_processed(error):
        return OUTCOME_UNKNOWN
    transient = is_transient(error)
    for kind, rule in BY_KIND:
        if isinstance(error, kind) and not (transient and rule is FINAL):  # a 408 is not an invalid request
            return rule
    return TRANSIENT if transient else FALLBACK


def _may_have_been_processed(error: OpenResponsesError) -> bool:
    """Return whether the request was sent, and nothing is known about what became of it: the connection broke
    or was silent for too long, or a proxy reports that its server was."""
    if isinstance(error, NetworkError):
        return error.phase != "connect" and error.code == NetworkError.default_code
    return isinstance(error, ServerError) and error.status in _PROXY_TIMEOUTS


class Candidate(Struct, frozen=True):
    """One target of a model: an upstream, and the model's name there."""

    upstream: Upstream
    model: str
    group: int = 0
    """Conversations are spread over the targets of a group. The next group is for when all of them fail."""
    weight: float = 1.0
    """Its share of the conversations, in proportion to the others in its group."""

    @property
    def name(self) -> TargetModel:
        return self.upstream.name, self.model


class Attempt(Struct, frozen=True):
    """The next attempt: wait, then send to this upstream with this key."""

    upstream: Upstream
    model: str
    key: str
    wait: float
    """Seconds."""
    number: int
    """1 for the first of the turn."""

    @property
    def name(self) -> TargetModel:
        return self.upstream.name, self.model

    def __repr__(self) -> str:
        """Leave out the key."""
        where = f"{self.upstream.name!r}, {self.model!r}"
        return f"Attempt({where}, wait={self.wait:g}, number={self.number})"


class Attempts:
    """The attempts of one turn. `random` returns numbers from 0 to 1, to spread out turns that failed
    together.

    `client_key` is sent to upstreams that accept the client's own key; it never rests, and is never replaced
    by one of ours. `prefer` lists the fingerprints of the keys that the conversation's reasoning is bound to,
    the one to prefer first; `seed` chooses among the other keys. With `ejections`, the attempts are counted,
    and a target that is ejected is used only if there is no other.
    """

    __slots__ = (
        "_candidates",
        "_client_key",
        "_current",
        "_ejections",
        "_has_answered",
        "_number",
        "_prefer",
        "_random",
        "_refused",
        "_retried",
        "_retries",
        "_seed",
        "_untried",
        "_wait_budget",
        "_waited",
    )

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        retries: int,
        wait_budget: float,
        random: Callable[[], float],
        client_key: str = "",
        prefer: Sequence[str] = (),
        seed: bytes = b"",
        ejections: Ejections | None = None,
    ) -> None:
        if not candidates:
            raise ValueError("at least one candidate is required")
        self._candidates = [candidate.name for candidate in candidates]
        self._untried = list(candidates)
        self._retries = retries
        self._wait_budget = wait_budget
        self._random = random
        self._client_key = client_key
        self._prefer, self._seed = prefer, seed
        # The only target of a model is never ejected, so nothing is counted for it.
        self._ejections = ejections if len(candidates) > 1 else None
        self._number = 0
        self._waited = 0.0
        self._current: Attempt | None = None
        self._has_answered = False
        # For the current target:
        self._retried = 0
        self._refused: tuple[str, ...] = ()

    @property
    def untried(self) -> tuple[Candidate, ...]:
        """The targets that are left, the preferred one first."""
        return tuple(self._untried)

    def exclude(self, candidate: Candidate) -> None:
        """Do not use a target; there must be another."""
        self._untried.remove(candidate)

    def first(self) -> Attempt:
        return self._next_target()

    def after(self, error: OpenResponsesError) -> Attempt | None:
        """Return the next attempt after a failure; None if the error is returned to the client."""
        failed, self._current = self._current, None
        if failed is None:
            raise RuntimeError("no attempt is in progress")
        rule = rule_for(error)
        self._count(failed, error)
        if rule.is_final_for_own_key and self._is_own(failed.upstream):
            return None
        if rule.rest:
            self._rest(failed, rule, error)
        for step in rule.steps:
            attempt = self._take(step, failed, error)
            if attempt is not None:
                return attempt
        return None

    def answered(self, error: OpenResponsesError | None = None) -> None:
        """Note that the current attempt has answered, or with an error, that its answer broke afterwards."""
        if self._current is None or self._ejections is None:
            return
        self._has_answered = True
        if error is None:
            self._ejections.answered(self._current.name)
        else:
            self._count(self._current, error)

    def close(self) -> None:
        """Note that the turn has ended, perhaps in the middle of an attempt."""
        if self._current is not None and self._ejections is not None and not self._has_answered:
            self._ejections.released(self._current.name)

    def is_ejected(self, candidate: Candidate) -> bool:
        return self._ejections is not None and self._ejections.is_ejected(candidate.name)

    def _count(self, failed: Attempt, error: OpenResponsesError) -> None:
        if self._ejections is None:
            return
        if rule_for(error).ejects:
            self._ejections.failed(failed.name, self._candidates, error)
        else:
            self._ejections.released(failed.name)

    def _take(self, step: NextStep, failed: Attempt, error: OpenResponsesError) -> Attempt | None:
        """Return the attempt for a step; None if the step is not possible."""
        match step:
            case NextStep.OTHER_KEY:
                return self._other_key(failed)
            case NextStep.RETRY:
                return self._retry(failed, error)
            case NextStep.NEXT_TARGET:
                return self._next_target() if self._untried else None

    def _rest(self, failed: Attempt, rule: RetryRule, error: OpenResponsesError) -> None:
        """Let the key rest, if it is one of ours."""
        if not failed.key or self._is_own(failed.upstream):
            return
        seconds = (error.retry_after if rule.uses_retry_after else None) or rule.rest
        failed.upstream.keys.rest(failed.key, min(seconds, LONGEST_REST))
        self._refused += (failed.key,)

    def _other_key(self, failed: Attempt) -> Attempt | None:
        """Try a key that was not refused since the last wait. A key whose short rest is already over is not
        used at once: two such keys would be tried alternately forever."""
        if self._is_own(failed.upstream):
            return None
        if failed.key:
            self._refused += (failed.key,)
        key = failed.upstream.keys.another(self._refused, self._prefer, self._seed)
        return None if key is None else self._attempt(failed.upstream, failed.model, key)

    def _retry(self, failed: Attempt, error: OpenResponsesError) -> Attempt | None:
        if self._retried >= self._retries or self._should_leave(failed):
            return None
        wait = error.retry_after or self._backoff()
        if failed.key in self._refused:
            wait = min(wait, failed.upstream.keys.ready_in())  # another key may be ready before this one
        if self._waited + wait > self._wait_budget:
            return None
        self._retried += 1
        self._refused = ()
        return self._attempt(failed.upstream, failed.model, self._key_for(failed.upstream), wait)

    def _should_leave(self, failed: Attempt) -> bool:
        """Return whether the target was ejected, and one that is not is left to try."""
        if self._ejections is None or not self._ejections.is_ejected(failed.name):
            return False
        return any(not self.is_ejected(each) for each in self._untried)

    def _backoff(self) -> float:
        """Return a wait that doubles with every retry, minus up to a random half."""
        longest: float = min(FIRST_WAIT * 2 ** min(self._retried, 16), LONGEST_WAIT)
        return longest * (0.5 + self._random() / 2)

    def _next_target(self) -> Attempt:
        """Try the next target that is not ejected and has a ready key; others only if there is none."""
        candidate = next(filter(self._is_usable, self._untried), None)
        if candidate is None:
            healthy = (each for each in self._untried if not self.is_ejected(each))
            candidate = next(healthy, self._untried[0])
        self._untried.remove(candidate)
        self._retried = 0
        self._refused = ()
        return self._attempt(candidate.upstream, candidate.model, self._key_for(candidate.upstream))

    def _attempt(self, upstream: Upstream, model: str, key: str, wait: float = 0.0) -> Attempt:
        self._number += 1
        self._waited += wait
        self._current = Attempt(upstream, model, key, wait, self._number)
        self._has_answered = False
        return self._current

    def _key_for(self, upstream: Upstream) -> str:
        return self._client_key if self._is_own(upstream) else upstream.keys.take(self._prefer, self._seed)

    def _is_own(self, upstream: Upstream) -> bool:
        """Return whether the client's own key is sent to an upstream."""
        return upstream.pass_key and bool(self._client_key)

    def _is_usable(self, candidate: Candidate) -> bool:
        upstream = candidate.upstream
        if not self._is_own(upstream) and upstream.keys.ready_in() > 0:
            return False
        return self._ejections is None or self._ejections.admits(candidate.name)
