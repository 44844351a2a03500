"""A target that keeps failing is left out for a while."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ServerError
from penstock.upstream.ejection import EjectionChange, EjectionRule, Ejections, TargetModel
from tests.effort import examples
from tests.upstream.sending import Clock

A: TargetModel = ("a", "m")
B: TargetModel = ("b", "m")
C: TargetModel = ("c", "m")
ERROR = ServerError("broken", status=500)


class Watch:
    """The ejections of a process with a clock that the test sets, and what was reported."""

    def __init__(self, after: int = 3, seconds: float = 10.0, most_seconds: float = 60.0) -> None:
        self.clock = Clock()
        self.changes: list[EjectionChange] = []
        rule = EjectionRule(after=after, seconds=seconds, most_seconds=most_seconds)
        self.ejections = Ejections(rule, clock=self.clock, changed=self.changes.append)

    def fail(self, name: TargetModel = A, times: int = 1, among: tuple[TargetModel, ...] = (A, B)) -> None:
        for _ in range(times):
            self.ejections.failed(name, among, ERROR)

    def is_out(self, name: TargetModel = A) -> bool:
        return self.ejections.is_ejected(name)

    def after(self, seconds: float) -> None:
        self.clock.now += seconds

    @property
    def times(self) -> list[float]:
        return [change.seconds for change in self.changes]


def test_a_target_is_ejected_after_failures_in_a_row() -> None:
    watch = Watch(after=3)
    watch.fail(times=2)
    assert not watch.is_out()
    watch.fail()
    assert watch.is_out()
    assert not watch.ejections.admits(A)
    assert watch.ejections.admits(B)
    [change] = watch.changes
    assert (change.target, change.model, change.seconds) == ("a", "m", 10.0)
    assert change.sentence() == "target a (m) is ejected for 10 s: 3 of its last 3 attempts failed"
    assert change.error is ERROR


def test_an_answer_in_between_starts_the_count_again() -> None:
    watch = Watch(after=3)
    for _ in range(3):
        watch.fail(times=2)
        watch.ejections.answered(A)
        watch.ejections.answered(A)
        watch.ejections.answered(A)
    assert not watch.is_out()


def test_a_target_that_fails_every_second_time_is_ejected_as_well() -> None:
    """Twelve attempts are looked at, and half of them have failed."""
    watch = Watch(after=3)
    for _ in range(5):
        watch.ejections.answered(A)  # of a target without failures: nothing is counted
    for attempt in range(11):
        watch.fail() if attempt % 2 else watch.ejections.answered(A)
        assert not watch.is_out()
    watch.fail()
    watch.ejections.answered(A)
    watch.fail()
    assert watch.is_out()


def test_when_its_time_is_over_one_turn_tries_it_and_the_others_wait() -> None:
    watch = Watch()
    watch.fail(times=3)
    watch.after(9.9)
    assert not watch.ejections.admits(A)
    watch.after(0.1)
    assert watch.is_out()
    assert [watch.ejections.admits(A) for _ in range(3)] == [True, False, False]
    watch.ejections.answered(A)
    assert not watch.is_out()
    assert watch.ejections.admits(A)
    assert watch.times == [10.0, 0.0]
    assert watch.changes[1].sentence() == "target a (m) answers again: it is no longer ejected"


def test_a_probe_that_fails_ejects_the_target_for_twice_as_long_up_to_the_limit() -> None:
    watch = Watch(seconds=10.0, most_seconds=60.0)
    watch.fail(times=3)
    for seconds in (10.0, 20.0, 40.0, 60.0):
        watch.after(seconds)
        assert watch.ejections.admits(A)
        watch.fail()
        assert not watch.ejections.admits(A)
    assert watch.times == [10.0, 20.0, 40.0, 60.0, 60.0]


def test_a_probe_that_says_nothing_is_followed_by_another() -> None:
    """The client has disconnected, or its request was invalid."""
    watch = Watch()
    watch.fail(times=3)
    watch.after(10.0)
    assert watch.ejections.admits(A)
    watch.ejections.released(A)
    assert watch.is_out()
    assert watch.ejections.admits(A)


def test_a_probe_that_never_ends_does_not_keep_the_target_out() -> None:
    watch = Watch(most_seconds=60.0)
    watch.fail(times=3)
    watch.after(10.0)
    assert watch.ejections.admits(A)
    watch.after(59.0)
    assert not watch.ejections.admits(A)
    watch.after(1.0)
    assert watch.ejections.admits(A)


def test_a_target_that_fails_again_soon_is_ejected_for_longer() -> None:
    watch = Watch()
    watch.fail(times=3)
    for pause, seconds in ((1.0, 20.0), (1.0, 40.0), (41.0, 10.0)):
        watch.after(watch.times[-1] or 40.0)
        assert watch.ejections.admits(A)
        watch.ejections.answered(A)
        watch.after(pause)
        watch.fail(times=3)
        assert watch.times[-1] == seconds


def test_failures_of_a_target_that_is_out_change_nothing() -> None:
    """It is used if all others fail as well, and by turns that had begun before."""
    watch = Watch()
    watch.fail(times=9)
    assert watch.times == [10.0]
    watch.ejections.answered(A)  # but an answer is an answer
    assert not watch.is_out()


def test_the_last_target_of_a_model_is_never_ejected() -> None:
    watch = Watch()
    watch.fail(A, times=3)
    watch.fail(B, times=9)
    assert (watch.is_out(A), watch.is_out(B)) == (True, False)
    watch.fail(B, among=(A, B, C))  # of another model, which has a third target
    assert watch.is_out(B)
    watch.fail(C, times=9, among=(C,))
    assert not watch.is_out(C)


def test_each_model_of_a_target_is_counted_on_its_own() -> None:
    watch = Watch()
    other = ("a", "n")
    watch.fail(A, times=3, among=(A, B, other))
    watch.fail(other, times=2, among=(A, B, other))
    assert (watch.is_out(A), watch.is_out(other)) == (True, False)
    assert watch.ejections.ejected() == {"a": 1}
    watch.fail(other, among=(A, B, other))
    assert watch.ejections.ejected() == {"a": 2}


def test_ejection_can_be_turned_off() -> None:
    watch = Watch(after=0)
    watch.fail(times=50)
    assert not watch.is_out()
    assert watch.ejections.ejected() == {}


def test_changed_settings_keep_what_is_known_about_the_targets_that_stay() -> None:
    watch = Watch()
    for name in (A, B):
        watch.fail(name, times=3, among=(A, B, C))
    watch.ejections.configure(EjectionRule(after=3), {B, C})
    assert (watch.is_out(A), watch.is_out(B)) == (False, True)
    watch.ejections.configure(EjectionRule(after=0), {B, C})
    assert not watch.is_out(B)


def test_nothing_is_remembered_of_targets_that_work() -> None:
    """The failure is forgotten after as many answers as are looked at."""
    watch = Watch(after=1)
    watch.fail(among=(A,))
    assert watch.ejections.ejected() == {"a": 0}
    for _ in range(4):
        watch.ejections.answered(A)
    assert watch.ejections.ejected() == {}


steps = st.lists(
    st.tuples(
        st.sampled_from(["answered", "failed", "released", "admits"]),
        st.sampled_from([A, B, C]),
        st.floats(0, 40),
    ),
    max_size=120,
)


@settings(max_examples=examples(200), deadline=None)
@given(steps, st.integers(1, 4))
def test_whatever_happens_one_target_stays_and_ejections_are_reported(
    events: list[tuple[str, TargetModel, float]], after: int
) -> None:
    watch = Watch(after=after)
    everything = (A, B, C)
    for what, name, pause in events:
        watch.after(pause)
        out = [each for each in everything if watch.is_out(each)]
        if what == "failed":
            watch.fail(name, among=everything)
        elif what == "admits":
            assert watch.ejections.admits(name) or name in out
        else:
            getattr(watch.ejections, what)(name)
        assert not all(map(watch.is_out, everything))
        state = {change.target: change.seconds > 0 for change in watch.changes}
        assert all(state.get(each[0], False) == watch.is_out(each) for each in everything)
        assert all(change.seconds <= 60 for change in watch.changes)
