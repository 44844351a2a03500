"""Images of a message: `@path`, and files that are not accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import UsageError
from penstock.cli.chat import images
from penstock.cli.chat.images import mentioned_images, read_image
from tests.cli.chat.scripts import PIXEL


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b c.PNG"):
        (tmp_path / name).write_bytes(PIXEL)
    (tmp_path / "wrong.png").write_bytes(b"text")
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "text", "count"),
    [
        ("Compare @a.png, please", "Compare a.png, please", 1),
        ('Not (@"b c.PNG"), but @a.png.', 'Not (@"b c.PNG"), but a.png.', 1),
        ('@"b c.PNG" @a.png!', "b c.PNG a.png!", 2),
        ("ask @someone or me@a.png", "ask @someone or me@a.png", 0),
        ("@notes.txt", "@notes.txt", 0),
    ],
)
def test_images_are_mentioned_by_their_path(typed: str, text: str, count: int) -> None:
    result, found = mentioned_images(typed)
    assert (result, [image.mime for image in found]) == (text, ["image/png"] * count)


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_the_type_comes_from_the_contents(folder: Path, data: bytes, mime: str) -> None:
    (folder / "a.png").write_bytes(data)
    assert read_image("a.png").mime == mime


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong.png", r"wrong\.png is not a PNG, JPEG, GIF or WebP image"),
        ("nowhere.png", r"cannot read nowhere\.png: No such file"),
        ("a\0b.png", "cannot read"),
    ],
)
def test_a_file_that_is_not_an_image_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mentioned_images(f'@"{name}"')


def test_an_image_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "LARGEST", len(PIXEL) - 1)
    with pytest.raises(UsageError, match=rf"a\.png is too large: {len(PIXEL)} bytes, the limit is"):
        read_image("a.png")
