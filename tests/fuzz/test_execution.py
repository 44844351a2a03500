"""One execution: what was reached, how much work it was, and what a failure is called."""

from __future__ import annotations

import signal

import pytest
from fuzz.execution import BUCKETS, execute
from fuzz.targets import texts

from fuzz import execution
from tests.fuzz.toys import branch, toy


def test_features_are_branches_with_the_order_of_magnitude_of_their_number() -> None:
    def run(data: bytes) -> None:
        for _ in data:
            branch(7)

    one, two, many = (execute(toy(run), b"x" * size) for size in (1, 2, 500))
    assert {feature // BUCKETS for feature in one.features | many.features} == {7}
    assert one.features == execute(toy(run), b"x").features
    assert len(one.features | two.features | many.features) == 3
    assert (one.work, many.work) == (1, 500)


def test_work_out_of_proportion_to_the_input_is_a_failure() -> None:
    def quadratic(data: bytes) -> None:
        for _ in range(len(data) ** 2):
            branch(1)

    target = toy(quadratic, base_work=1000, work_per_byte=10)
    assert execute(target, b"x" * 30).failure is None
    failure = execute(target, b"x" * 100).failure
    assert failure is not None
    assert failure.signature == "TooMuchWork"
    assert "10,000 branches for 100 bytes" in failure.report


def test_what_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "TICK", 0.01)

    def run(_: bytes) -> None:
        while True:
            try:
                signal.pause()
            except Exception:
                continue

    before = signal.getsignal(signal.SIGALRM)
    failure = execute(toy(run), b"").failure
    assert failure is not None
    assert failure.signature.startswith("TooSlow")
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_failure_is_named_after_its_place_in_our_code() -> None:
    def fail(text: str) -> None:
        texts.urls(text.encode("utf-16"))
        texts.SEALER.open("tenant", 5)  # type: ignore[arg-type]

    failure = execute(toy(lambda data: fail(data.decode())), b"x").failure
    assert failure is not None
    assert failure.signature.startswith("AttributeError sealing.py:")
    assert "Traceback" in failure.report


def test_failures_of_deep_recursion_have_one_name() -> None:
    def deep(depth: int) -> None:
        deep(depth + 1)

    signatures = {execute(toy(lambda data: deep(len(data))), b"x" * size).failure for size in (1, 2)}
    assert {each.signature for each in signatures if each} == {"RecursionError"}
