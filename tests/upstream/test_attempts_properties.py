"""Properties of attempts: they hold for every chain, every set of keys and every sequence of failures."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import KINDS, NetworkError, OpenResponsesError, ProtocolError, ServerError
from penstock.upstream.attempts import FINAL, Attempt, Attempts, Candidate, rule_for
from penstock.upstream.http import HttpUpstream
from penstock.upstream.keys import KeyRing
from tests.effort import examples
from tests.upstream.sending import Clock, target

OWN = "own"


class Model(Struct, frozen=True):
    """The settings of a turn."""

    keys: list[int]
    """The number of keys of each target."""
    passes: list[bool]
    retries: int
    budget: float
    client_key: str
    resting: list[float]
    """Seconds that the first key of each target rests."""


class Watched(KeyRing):
    """A ring that also records the rests independently."""

    def __init__(self, keys: list[str], clock: Clock) -> None:
        super().__init__(keys, clock=clock)
        self.clock = clock
        self.ends = dict.fromkeys(keys, 0.0)

    def rest(self, key: str, seconds: float) -> None:
        super().rest(key, seconds)
        assert key in self.ends
        self.ends[key] = max(self.ends[key], self.clock.now + seconds)

    def ready(self) -> set[str]:
        return {key for key, end in self.ends.items() if end <= self.clock.now}


times = st.one_of(st.none(), st.just(0.0), st.floats(0.001, 100), st.just(1e9))
failures = st.one_of(
    st.builds(
        lambda code, status, after: KINDS[code]("", code=code, status=status, retry_after=after),
        st.sampled_from(list(KINDS)),
        st.sampled_from([None, 400, 408, 429, 500, 503]),
        times,
    ),
    st.builds(
        lambda phase, code, after: NetworkError("", phase=phase, code=code, retry_after=after),
        st.sampled_from(["connect", "first_byte", "idle", "cut"]),
        st.sampled_from(["", "certificate_error", "tls_error", "proxy_error"]),
        times,
    ),
    st.builds(
        lambda code, after: ServerError("", code=code, retry_after=after),
        st.sampled_from(["upstream_truncated", "upstream_empty", "upstream_invalid", "new"]),
        times,
    ),
    st.just(ProtocolError("", code="redirected", status=302)),
)
# Failures that lead to another attempt come first: a final failure ends the sequence.
lasting = failures.filter(lambda error: rule_for(error) is not FINAL)


@st.composite
def models(draw: st.DrawFn) -> Model:
    count = draw(st.integers(1, 4))
    return Model(
        keys=draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)),
        passes=draw(st.lists(st.booleans(), min_size=count, max_size=count)),
        retries=draw(st.integers(0, 4)),
        budget=draw(st.floats(0, 60)),
        client_key=draw(st.sampled_from(["", OWN])),
        resting=draw(st.lists(st.floats(0, 50), min_size=count, max_size=count)),
    )


def play(
    model: Model, draw_failure: st.DataObject, random: float
) -> tuple[list[Attempt], list[OpenResponsesError]]:
    """Return all attempts of a turn in which everything fails, checked one by one."""
    clock = Clock()
    candidates = []
    for index, (count, passes) in enumerate(zip(model.keys, model.passes, strict=True)):
        keys = [f"key-{index}-{number}" for number in range(count)]
        upstream = HttpUpstream(target("http://127.0.0.1:1", name=f"t{index}", pass_key=passes), clock=clock)
        ring = upstream.keys = Watched(keys, clock)
        if keys:
            ring.rest(keys[0], model.resting[index])
        candidates.append(Candidate(upstream, f"m{index}"))
    attempts = Attempts(
        candidates,
        retries=model.retries,
        wait_budget=model.budget,
        random=lambda: random,
        client_key=model.client_key,
    )
    made, errors = [attempts.first()], []
    check_key_of(made[-1], model)
    most = sum((count + 1) * (model.retries + 1) for count in model.keys)
    while True:
        assert len(made) <= most
        clock.now += made[-1].wait + draw_failure.draw(st.sampled_from([0.0, 0.5, 20.0]))
        errors.append(draw_failure.draw(lasting if len(made) < 6 else failures))
        attempt = attempts.after(errors[-1])
        if attempt is None:
            break
        check_key_of(attempt, model)
        made.append(attempt)
    return made, errors


def check_key_of(attempt: Attempt, model: Model) -> None:
    """Check that a resting key is used only if none is ready, and the client's own key never rests."""
    ring = attempt.upstream.keys
    assert isinstance(ring, Watched)
    if attempt.upstream.pass_key and model.client_key:
        assert attempt.key == model.client_key
    elif ring.ends:
        assert attempt.key in (ring.ready() or ring.ends)
    else:
        assert attempt.key == ""


@settings(max_examples=examples(250), deadline=None)
@given(models(), st.data(), st.floats(0, 1))
def test_a_turn_stays_within_its_budget_and_never_returns_to_a_target(
    model: Model, data: st.DataObject, random: float
) -> None:
    made, _ = play(model, data, random)
    assert sum(attempt.wait for attempt in made) <= model.budget
    assert all(attempt.wait >= 0 for attempt in made)
    visits = [name for name, _ in groupby(made, key=lambda attempt: attempt.upstream.name)]
    assert len(visits) == len(set(visits))
    assert [attempt.number for attempt in made] == list(range(1, len(made) + 1))


@settings(max_examples=examples(200), deadline=None)
@given(models(), st.data(), st.floats(0, 1))
def test_if_no_key_rests_targets_are_tried_in_order(model: Model, data: st.DataObject, random: float) -> None:
    made, _ = play(replace(model, resting=[0.0] * len(model.keys)), data, random)
    visits = [name for name, _ in groupby(made, key=lambda attempt: attempt.upstream.name)]
    assert visits == sorted(visits)
