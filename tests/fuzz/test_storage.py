"""Where inputs come from, and where findings go."""

from __future__ import annotations

from pathlib import Path

from fuzz.execution import Failure
from fuzz.storage import Folders, Input, name_of, shortened

from tests.fuzz.toys import KINDS


def test_inputs_of_the_repository_come_first(tmp_path: Path) -> None:
    places = Folders(tmp_path / "corpus", tmp_path / "regressions", tmp_path / "local", tmp_path / "none")
    for folder, data in (("corpus", b"kept"), ("regressions", b"once failed")):
        (tmp_path / folder / "toy").mkdir(parents=True)
        (tmp_path / folder / "toy" / "one").write_bytes(data)
    places.save(KINDS, Input(b"found"))
    places.save(KINDS, Input(b"found"))
    known = [each.data for each in places.known_inputs(KINDS, with_recordings=True)]
    assert known == [b"kept", b"once failed", b"found"]


def test_a_finding_has_its_report_next_to_it(tmp_path: Path) -> None:
    places = Folders(local=tmp_path)
    path, command = places.save_finding(KINDS, b"\0", Failure("ValueError here", "é"))
    assert path == tmp_path / "findings" / "toy" / name_of(b"\0")
    assert path.read_bytes() == b"\0"
    assert path.with_suffix(".txt").read_text("utf-8") == f"ValueError here\n\n{command}\n\né\n"


def test_of_a_long_recording_the_beginning_and_the_end_are_used() -> None:
    stream = b"".join(b"data: %d\n\n" % number for number in range(5000))
    short = shortened(stream)
    assert len(short) < 7000
    assert short.startswith(b"data: 0\n\n")
    assert short.endswith(b"data: 4999\n\n")
    assert all(frame.startswith(b"data: ") for frame in short.split(b"\n\n")[:-1])
    assert shortened(b"short") == b"short"
