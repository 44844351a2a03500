"""What is fuzzed: the type of the rows in `fuzz.targets`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Target(Struct, frozen=True, kw_only=True):
    """Code that reads foreign bytes, and what must hold for every input.

    Work is counted in branches (see `instrument`). An input that causes more than `base_work` and
    `work_per_byte` for each of its bytes is a finding: the cost must stay linear.
    """

    name: str
    group: str
    about: str
    run: Callable[[bytes], None]
    """Returns if everything holds, and raises otherwise."""
    format: str = "bytes"
    """A row of `mutators.FORMATS`."""
    words: tuple[str, ...] = ()
    """The packages and modules of `penstock` whose words are inserted."""
    recordings: str = ""
    """The folder of recordings that are used as additional inputs where they are available."""
    base_work: int = 60_000
    work_per_byte: int = 400
