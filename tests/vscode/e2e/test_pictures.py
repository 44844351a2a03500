"""The screenshots of the documentation exist, are small, and are shown on their page."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.vscode.e2e.pictures import LARGEST, PAGES, PICTURES, ROOT, places

WIDEST = 1_200


@pytest.mark.parametrize(
    ("page", "picture"),
    [(page, path) for name in PICTURES for page, path in places(name).items()],
    ids=lambda value: value.name if isinstance(value, Path) else None,
)
def test_a_screenshot_is_small_and_shown(page: str, picture: Path) -> None:
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < LARGEST
    width, _ = struct.unpack(">II", data[16:24])
    assert width <= WIDEST
    shown = picture.relative_to((ROOT / page).parent).as_posix()
    reference = f'"image": "{shown}"' if page.endswith(".json") else f"]({shown})"
    assert reference in (ROOT / page).read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_the_copies_of_a_screenshot_are_the_same(name: str) -> None:
    assert len({path.read_bytes() for path in places(name).values()}) == 1


@pytest.mark.parametrize("pattern", sorted(set(PAGES.values())))
def test_every_screenshot_is_taken_by_a_test(pattern: str) -> None:
    taken = {ROOT / PAGES[page].format(name=name) for name, pages in PICTURES.items() for page in pages}
    path = ROOT / pattern.format(name="*")
    kept = set(path.parent.glob(path.name))
    assert kept
    assert kept <= taken
