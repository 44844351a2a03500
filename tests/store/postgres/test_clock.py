"""The clock of the database."""

from __future__ import annotations

from penstock.store.postgres.clock import DatabaseClock


class _Machine:
    """The clocks of a machine."""

    def __init__(self) -> None:
        self.steady, self.own = 100.0, 1_000_000.0

    def pass_time(self, seconds: float) -> None:
        self.steady += seconds
        self.own += seconds


def clock_of(machine: _Machine) -> DatabaseClock:
    return DatabaseClock(lambda: machine.steady, lambda: machine.own)


def measure(clock: DatabaseClock, machine: _Machine, database: float, duration: float) -> None:
    began = clock.start()
    machine.pass_time(duration)
    clock.measured(began, database)


def test_the_time_is_that_of_the_database_and_goes_on() -> None:
    machine = _Machine()
    clock = clock_of(machine)
    assert clock() == 1_000_000.0
    measure(clock, machine, 5_000.0, 0.5)
    assert clock() == 5_000.25
    machine.pass_time(10)
    assert clock() == 5_010.25


def test_setting_the_clock_of_the_machine_changes_nothing() -> None:
    machine = _Machine()
    clock = clock_of(machine)
    measure(clock, machine, 5_000.0, 0.0)
    machine.own -= 3_600
    assert clock() == 5_000.0


def test_a_measurement_that_could_be_right_changes_nothing() -> None:
    machine = _Machine()
    clock = clock_of(machine)
    measure(clock, machine, 5_000.0, 0.0)
    measure(clock, machine, 5_000.1, 0.4)
    assert clock() == 5_000.4
    measure(clock, machine, 5_100.0, 0.4)
    assert abs(clock() - 5_100.2) < 1e-6


def test_a_slow_answer_says_nothing_about_the_time_except_at_first() -> None:
    machine = _Machine()
    clock = clock_of(machine)
    measure(clock, machine, 5_000.0, 4.0)
    assert clock() == 5_002.0
    measure(clock, machine, 9_000.0, 4.0)
    assert clock() == 5_006.0
