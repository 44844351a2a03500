"""What is tried after a failure. Nothing here sends or waits."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.before_output import failure_of
from penstock.dialects.frames import error_delta
from penstock.dialects.presets import fingerprint
from penstock.errors import (
    KINDS,
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NetworkError,
    NotFoundError,
    OpenResponsesError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from penstock.failures import ERROR_TYPES
from penstock.stream.deltas import ErrorDelta
from penstock.upstream.attempts import (
    FALLBACK,
    FINAL,
    FORBIDDEN,
    OUTCOME_UNKNOWN,
    QUOTA_EXHAUSTED,
    RATE_LIMITED,
    TRANSIENT,
    UNAUTHORIZED,
    Attempt,
    Attempts,
    Candidate,
    RetryRule,
    rule_for,
)
from penstock.upstream.ejection import EjectionRule, Ejections
from penstock.upstream.http import HttpUpstream
from tests.upstream.sending import Clock, target

LIMIT = RateLimitError("slow down", status=429, retry_after=5.0)
BROKEN = ServerError("broken", status=500)
WRONG_KEY = AuthenticationError("wrong key", status=401)
QUOTA = RateLimitError("no money", status=429, code="insufficient_quota", retry_after=1.0)


OUT = NetworkError("nobody answers", phase="connect")


class Turn:
    """A turn over a chain of upstreams, each given by its keys: `a=["k1", "k2"]`."""

    def __init__(self, chain: dict[str, list[str]], *, pass_key: bool = False, **settings: Any) -> None:
        self.clock = Clock()
        self.upstreams = {
            name: HttpUpstream(
                target("http://127.0.0.1:1", name=name, keys=tuple(keys), pass_key=pass_key),
                clock=self.clock,
            )
            for name, keys in chain.items()
        }
        self.candidates = [Candidate(upstream, "m") for upstream in self.upstreams.values()]
        self.attempts = self.another(**settings)

    def another(self, **settings: Any) -> Attempts:
        terms: dict[str, Any] = {"retries": 2, "wait_budget": 30.0, "random": lambda: 1.0, **settings}
        return Attempts(self.candidates, **terms)

    def first(self) -> tuple[str, str, float]:
        return summary(self.attempts.first())

    def after(self, error: OpenResponsesError) -> tuple[str, str, float] | None:
        attempt = self.attempts.after(error)
        return summary(attempt) if attempt else None


def summary(attempt: Attempt) -> tuple[str, str, float]:
    return attempt.upstream.name, attempt.key, attempt.wait


RULES: list[tuple[OpenResponsesError, RetryRule]] = [
    (LIMIT, RATE_LIMITED),
    (RateLimitError("", status=429, code="tokens"), RATE_LIMITED),
    (RateLimitError(""), RATE_LIMITED),
    (QUOTA, QUOTA_EXHAUSTED),
    (RateLimitError("", status=402, code="insufficient_quota"), QUOTA_EXHAUSTED),
    (WRONG_KEY, UNAUTHORIZED),
    (PermissionDeniedError("", status=403), FORBIDDEN),
    (NotFoundError("", status=404, code="model_not_found"), FALLBACK),
    (NotFoundError("", status=404), FALLBACK),
    (OverloadedError("", status=503), TRANSIENT),
    (OverloadedError("", status=529), TRANSIENT),
    (BROKEN, TRANSIENT),
    (ServerError("", code="upstream_truncated"), TRANSIENT),
    (ServerError("", code="upstream_invalid"), TRANSIENT),
    (ServerError("", status=501), FALLBACK),
    (ServerError("", status=400), FALLBACK),
    (NetworkError("", phase="connect"), TRANSIENT),
    (NetworkError("", phase="first_byte"), OUTCOME_UNKNOWN),
    (NetworkError("", phase="idle"), OUTCOME_UNKNOWN),
    (NetworkError("", phase="cut"), OUTCOME_UNKNOWN),
    (NetworkError("", phase="connect", code="certificate_error"), FALLBACK),
    (NetworkError("", phase="cut", code="tls_error"), FALLBACK),
    (NetworkError("", phase="connect", code="proxy_error", status=407), FALLBACK),
    (NetworkError("", phase="connect", code="proxy_error", status=502), FALLBACK),
    (NetworkError("", phase="cut", code="client_closed"), FALLBACK),
    (InvalidRequestError("", code="unsupported_proxy", param="proxy"), FALLBACK),
    (ProtocolError("", code="redirected", status=302), FALLBACK),
    (ProtocolError("", code="invalid_http"), FALLBACK),
    (ProtocolError("", code="upstream_invalid"), FALLBACK),
    (ProtocolError("", code="stream_truncated"), TRANSIENT),
    (ContextOverflowError("", status=500), FINAL),
    (ContextOverflowError("", status=408), FINAL),
    (InvalidRequestError("", status=400), FINAL),
    (InvalidRequestError("", status=400, code="unknown_parameter"), FINAL),
    (InvalidRequestError("", status=400, code="content_filter"), FINAL),
    (InvalidRequestError("", status=400, code="invalid_prompt"), FINAL),
    (InvalidRequestError("", status=408), TRANSIENT),
    *((ServerError("", status=status), TRANSIENT) for status in (408, 421, 499, 502, 520, 522)),
    *((ServerError("", status=status), OUTCOME_UNKNOWN) for status in (504, 524, 598, 599)),
    (OverloadedError("", status=425), TRANSIENT),
]


@pytest.mark.parametrize(("error", "rule"), RULES, ids=lambda each: repr(each)[:40])
def test_every_failure_has_a_rule(error: OpenResponsesError, rule: RetryRule) -> None:
    assert rule_for(error) is rule


# -- limits


def test_a_limited_key_rests_and_another_is_used_at_once() -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    assert turn.first() == ("a", "k1", 0)
    assert turn.after(LIMIT) == ("a", "k2", 0)
    assert turn.upstreams["a"].keys.take() == "k2"
    turn.clock.now += 5
    assert turn.upstreams["a"].keys.take() == "k1"


def test_without_another_key_the_next_target_is_tried_at_once() -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    turn.after(LIMIT)
    assert turn.after(LIMIT) == ("b", "k3", 0)


def test_a_limit_at_the_last_target_is_waited_for() -> None:
    turn = Turn({"a": ["k1"]})
    turn.first()
    assert turn.after(LIMIT) == ("a", "k1", 5.0)


def test_a_wait_ends_when_the_first_key_is_ready() -> None:
    turn = Turn({"a": ["k1", "k2"]})
    turn.first()
    assert turn.after(RateLimitError("", retry_after=8.0)) == ("a", "k2", 0)
    turn.clock.now += 1
    assert turn.after(RateLimitError("", retry_after=90.0)) == ("a", "k1", 7.0)


def test_a_limit_beyond_the_budget_is_returned_to_the_client() -> None:
    turn = Turn({"a": ["k1"]})
    turn.first()
    assert turn.after(RateLimitError("", retry_after=30.5)) is None


def test_the_budget_limits_the_sum_of_all_waits() -> None:
    turn = Turn({"a": [], "b": []}, retries=9)
    turn.first()
    slow = OverloadedError("", status=503, retry_after=12.0)
    assert turn.after(slow) == ("a", "", 12.0)
    assert turn.after(slow) == ("a", "", 12.0)
    assert turn.after(slow) == ("b", "", 0)
    assert turn.after(slow) is None


def test_a_limit_without_retry_after_is_retried_soon() -> None:
    turn = Turn({"a": ["k1"]})
    turn.first()
    unknown = RateLimitError("", status=429)
    assert turn.after(unknown) == ("a", "k1", 0.25)
    assert turn.upstreams["a"].keys.ready_in() == 30.0
    assert turn.after(unknown) == ("a", "k1", 0.5)
    assert turn.after(unknown) is None


def test_a_limit_without_keys_is_waited_for() -> None:
    turn = Turn({"a": []})
    turn.first()
    assert turn.after(LIMIT) == ("a", "", 5.0)


def test_keys_with_short_rests_are_not_alternated_forever() -> None:
    turn = Turn({"a": ["k1", "k2"]}, retries=1)
    short = RateLimitError("", retry_after=0.01)
    seen = [turn.first()]
    while (after := turn.after(short)) is not None:
        seen.append(after)
        turn.clock.now += 1
    assert seen == [("a", "k1", 0), ("a", "k2", 0), ("a", "k1", 0), ("a", "k2", 0)]


def test_a_key_rests_for_an_hour_at_most() -> None:
    turn = Turn({"a": ["k1"]})
    turn.first()
    turn.after(RateLimitError("", retry_after=1e8))
    assert turn.upstreams["a"].keys.ready_in() == 3600.0


# -- exhausted or refused keys


def test_an_exhausted_quota_is_never_waited_for() -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(QUOTA) == ("a", "k2", 0)
    assert turn.after(QUOTA) == ("b", "k3", 0)
    assert turn.after(QUOTA) is None
    assert turn.upstreams["a"].keys.ready_in() == 3600.0


def test_a_wrong_key_rests_for_ten_minutes() -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(WRONG_KEY) == ("a", "k2", 0)
    assert turn.after(PermissionDeniedError("", status=403)) == ("b", "k3", 0)
    assert turn.after(WRONG_KEY) is None
    assert turn.upstreams["b"].keys.ready_in() == 600.0


# -- the client's own key


def test_the_clients_own_key_is_sent_if_pass_key_is_set() -> None:
    turn = Turn({"a": ["k1"]}, pass_key=True, client_key="own")
    assert turn.first() == ("a", "own", 0)
    assert Turn({"a": ["k1"]}, pass_key=True).first() == ("a", "k1", 0)
    assert Turn({"a": ["k1"]}, client_key="own").first() == ("a", "k1", 0)


def test_an_error_about_the_clients_own_key_is_returned_to_it() -> None:
    for error in (WRONG_KEY, PermissionDeniedError("", status=403)):
        turn = Turn({"a": ["k1"], "b": ["k2"]}, pass_key=True, client_key="own")
        turn.first()
        assert turn.after(error) is None


def test_the_clients_own_key_is_never_replaced_by_ours() -> None:
    turn = Turn({"a": ["own", "k1"], "b": ["k2"]}, pass_key=True, client_key="own")
    turn.first()
    assert turn.after(LIMIT) == ("b", "own", 0)
    assert turn.after(LIMIT) == ("b", "own", 5.0)
    assert turn.upstreams["a"].keys.take() == "own"  # it does not rest, even if it is also one of ours


# -- transient failures


def test_a_transient_failure_is_retried_and_then_falls_back() -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(BROKEN) == ("a", "k1", 0.25)
    assert turn.after(NetworkError("", phase="connect")) == ("a", "k1", 0.5)
    assert turn.after(OverloadedError("", status=529)) == ("b", "k3", 0)
    assert turn.after(BROKEN) == ("b", "k3", 0.25)
    assert turn.after(BROKEN) == ("b", "k3", 0.5)
    assert turn.after(BROKEN) is None


@pytest.mark.parametrize("phase", ["cut", "first_byte", "idle"])
def test_a_request_whose_outcome_is_unknown_is_not_sent_to_the_same_target_again(phase: str) -> None:
    """Decision 32: not even with another key. Another target gets it for the first time."""
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(NetworkError("", phase=phase)) == ("b", "k3", 0)
    assert turn.after(NetworkError("", phase=phase)) is None


@pytest.mark.parametrize(("random", "share"), [(1.0, 1.0), (0.0, 0.5)])
def test_waits_double_up_to_a_limit_and_half_is_random(random: float, share: float) -> None:
    turn = Turn({"a": []}, retries=7, wait_budget=99.0, random=lambda: random)
    turn.first()
    waits = [after[2] for _ in range(7) if (after := turn.after(BROKEN))]
    assert waits == [share * each for each in (0.25, 0.5, 1, 2, 4, 8, 8)]
    assert turn.after(BROKEN) is None


def test_retry_after_is_obeyed_within_the_budget() -> None:
    turn = Turn({"a": [], "b": []})
    turn.first()
    assert turn.after(OverloadedError("", status=503, retry_after=3.0)) == ("a", "", 3.0)
    assert turn.after(OverloadedError("", status=503, retry_after=60.0)) == ("b", "", 0)


def test_without_retries_or_budget_no_target_is_tried_twice() -> None:
    for settings in ({"retries": 0}, {"wait_budget": 0.0}):
        for error in (BROKEN, LIMIT):
            turn = Turn({"a": ["k1"], "b": ["k2"]}, **settings)
            turn.first()
            assert turn.after(error) == ("b", "k2", 0)
            assert turn.after(error) is None


def test_a_failure_after_a_wait_for_a_key_is_retried_with_backoff() -> None:
    turn = Turn({"a": ["k1"]})
    turn.first()
    assert turn.after(LIMIT) == ("a", "k1", 5.0)
    turn.clock.now += 5
    assert turn.after(BROKEN) == ("a", "k1", 0.5)


# -- other failures


@pytest.mark.parametrize("error", [error for error, rule in RULES if rule is FINAL], ids=repr)
def test_an_error_of_the_request_is_returned_to_the_client(error: OpenResponsesError) -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(error) is None
    assert turn.upstreams["a"].keys.take() == "k1"


@pytest.mark.parametrize("error", [error for error, rule in RULES if rule is FALLBACK], ids=repr)
def test_an_error_of_a_target_falls_back_to_the_next_at_once(error: OpenResponsesError) -> None:
    turn = Turn({"a": ["k1", "k2"], "b": ["k3"]})
    turn.first()
    assert turn.after(error) == ("b", "k3", 0)
    assert turn.after(error) is None
    assert turn.upstreams["a"].keys.take() == "k1"


# -- the choice of target and key


def test_a_target_whose_keys_all_rest_is_tried_last() -> None:
    turn = Turn({"a": ["k1"], "b": ["k2"], "c": []})
    turn.upstreams["a"].keys.rest("k1", 60)
    assert turn.first() == ("b", "k2", 0)
    assert turn.after(QUOTA) == ("c", "", 0)
    assert turn.after(QUOTA) == ("a", "k1", 0)
    assert turn.after(QUOTA) is None


def test_if_all_keys_rest_targets_are_tried_in_order() -> None:
    turn = Turn({"a": ["k1"], "b": ["k2"]})
    turn.upstreams["a"].keys.rest("k1", 60)
    turn.upstreams["b"].keys.rest("k2", 30)
    assert turn.first() == ("a", "k1", 0)


def test_the_next_turn_avoids_a_resting_key() -> None:
    turn = Turn({"a": ["k1", "k2"]})
    turn.first()
    turn.after(LIMIT)
    assert turn.another().first().key == "k2"


def test_the_key_that_reasoning_is_bound_to_is_used() -> None:
    turn = Turn({"a": ["k1", "k2", "k3"]}, prefer=[fingerprint("k3"), fingerprint("k2")])
    assert turn.first() == ("a", "k3", 0)
    assert turn.after(LIMIT) == ("a", "k2", 0)
    assert turn.after(LIMIT) == ("a", "k1", 0)


# -- numbers and illegal calls


def test_attempts_are_numbered_and_show_no_key() -> None:
    turn = Turn({"a": ["sk-secret-key"]})
    first = turn.attempts.first()
    second = turn.attempts.after(BROKEN)
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert repr(second) == "Attempt('a', 'm', wait=0.25, number=2)"


def test_illegal_calls_raise() -> None:
    turn = Turn({"a": []})
    with pytest.raises(RuntimeError):
        turn.after(BROKEN)
    turn.first()
    turn.after(ContextOverflowError(""))
    with pytest.raises(RuntimeError):
        turn.after(BROKEN)
    with pytest.raises(ValueError, match="at least one candidate"):
        Attempts([], retries=1, wait_budget=1, random=lambda: 0.5)


@pytest.mark.parametrize("code", ERROR_TYPES)
def test_every_error_code_in_a_stream_becomes_its_class(code: str) -> None:
    error = failure_of(ErrorDelta(code, "words", param="input", retry_after=2.5))
    assert type(error) is KINDS[code]
    assert (error.code, error.message, error.param, error.retry_after) == (code, "words", "input", 2.5)
    assert error.status is None


@pytest.mark.parametrize(
    "code", ["upstream_truncated", "upstream_invalid", "upstream_empty", "something_new"]
)
def test_an_unknown_error_code_in_a_stream_is_transient(code: str) -> None:
    error = failure_of(ErrorDelta(code, "words"))
    assert type(error) is ServerError
    assert error.code == code
    assert rule_for(error) is TRANSIENT


def test_a_rate_limit_in_a_stream_has_its_wait() -> None:
    delta = error_delta({"error": {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s."}})
    assert delta.retry_after == 1.5
    error = failure_of(delta)
    assert error.retry_after == 1.5
    assert rule_for(error) is RATE_LIMITED


# Ejection


def with_ejections(chain: dict[str, list[str]], *, after: int = 3, **settings: Any) -> tuple[Turn, Ejections]:
    turn = Turn(chain)
    rule = EjectionRule(after=after, seconds=10.0, most_seconds=60.0)
    ejections = Ejections(rule, clock=turn.clock)
    turn.attempts = turn.another(ejections=ejections, **settings)
    return turn, ejections


def test_a_target_that_is_ejected_during_a_turn_is_left_without_further_retries() -> None:
    turn, ejections = with_ejections({"a": [], "b": []}, after=2, retries=5)
    assert turn.first()[0] == "a"
    assert turn.after(OUT)[0] == "a"  # type: ignore[index]
    assert turn.after(OUT) == ("b", "", 0.0)
    assert ejections.ejected() == {"a": 1}


def test_an_ejected_target_is_not_tried_before_the_others() -> None:
    turn, ejections = with_ejections({"a": [], "b": [], "c": []}, after=1, retries=0)
    turn.first()
    turn.after(OUT)
    second = turn.another(ejections=ejections, retries=0)
    visits = [second.first().upstream.name]
    while (attempt := second.after(OUT)) is not None:
        visits.append(attempt.upstream.name)
    assert visits == ["b", "c", "a"], "it is the last resort, and better than nothing"


def test_a_resting_key_is_better_than_an_ejected_target() -> None:
    turn, ejections = with_ejections({"a": [], "b": ["k"]}, after=1)
    turn.first()
    turn.after(OUT)
    turn.upstreams["b"].keys.rest("k", 60)
    assert turn.another(ejections=ejections).first().upstream.name == "b"


def test_one_turn_probes_a_target_whose_time_is_over() -> None:
    turn, ejections = with_ejections({"a": [], "b": []}, after=1)
    turn.first()
    turn.after(OUT)
    turn.clock.now += 10
    probe, other = turn.another(ejections=ejections), turn.another(ejections=ejections)
    assert (probe.first().upstream.name, other.first().upstream.name) == ("a", "b")
    probe.answered()
    probe.close()
    other.close()
    assert turn.another(ejections=ejections).first().upstream.name == "a"


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_probe_that_ends_without_a_result_makes_room_for_another(is_refused: bool) -> None:
    turn, ejections = with_ejections({"a": [], "b": []}, after=1)
    turn.first()
    turn.after(OUT)
    turn.clock.now += 10
    probe = turn.another(ejections=ejections)
    probe.first()
    if is_refused:
        assert probe.after(InvalidRequestError("no", status=400)) is None
    probe.close()  # or the client has disconnected
    assert ejections.ejected() == {"a": 1}
    assert turn.another(ejections=ejections).first().upstream.name == "a"


NOT_ITS_FAULT = {
    "an invalid request": InvalidRequestError("no", status=400),
    "a long conversation": ContextOverflowError("too long", code="context_length_exceeded"),
    "a content filter": ServerError("no", code="content_filter"),
    "a rate limit": LIMIT,
    "a used quota": QUOTA,
    "a wrong key": WRONG_KEY,
    "a forbidden model": PermissionDeniedError("no", status=403),
}
ITS_FAULT = {
    "no connection": OUT,
    "a broken connection": NetworkError("reset", phase="cut"),
    "a server error": BROKEN,
    "overload": OverloadedError("busy", status=503),
    "an unreadable answer": ServerError("?", code="upstream_invalid"),
    "no such model": NotFoundError("no model", status=404),
}


@pytest.mark.parametrize("why", NOT_ITS_FAULT)
def test_what_is_not_the_targets_fault_never_counts(why: str) -> None:
    turn, ejections = with_ejections({"a": ["k1"], "b": []}, after=1)
    for _ in range(5):
        attempts = turn.another(ejections=ejections)
        attempts.first()
        attempts.after(NOT_ITS_FAULT[why])
        turn.clock.now += 10_000
    assert ejections.ejected() == {}


@pytest.mark.parametrize("why", ITS_FAULT)
def test_what_is_the_targets_fault_counts(why: str) -> None:
    turn, ejections = with_ejections({"a": ["k1"], "b": []}, after=1)
    turn.first()
    turn.after(ITS_FAULT[why])
    assert ejections.ejected() == {"a": 1}


def test_an_answer_that_breaks_counts_as_well() -> None:
    """Nothing is tried again, but half of the attempts have failed."""
    turn, ejections = with_ejections({"a": [], "b": []}, after=2)
    for _ in range(8):
        attempts = turn.another(ejections=ejections)
        assert attempts.first().upstream.name == "a"
        assert not ejections.ejected().get("a")
        attempts.answered()
        attempts.answered(NetworkError("reset", phase="cut"))
        attempts.close()
        if ejections.ejected() == {"a": 1}:
            return
    raise AssertionError("it was never ejected")


def test_the_only_target_of_a_model_is_not_counted() -> None:
    turn, ejections = with_ejections({"a": []}, after=1, retries=0)
    turn.first()
    assert turn.after(OUT) is None
    assert ejections.ejected() == {}


def test_the_seed_chooses_among_keys() -> None:
    turn = Turn({"a": ["k1", "k2", "k3"]})
    keys = {turn.another(seed=bytes([number]) * 16).first().key for number in range(40)}
    assert keys == {"k1", "k2", "k3"}
    attempts = turn.another(seed=bytes(16))
    tried = [attempts.first().key]
    while (attempt := attempts.after(WRONG_KEY)) is not None:
        tried.append(attempt.key)
    assert sorted(tried) == ["k1", "k2", "k3"]
