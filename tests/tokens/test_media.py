"""Sizes of images, and token counts of images and files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tokens.media import (
    BYTES_PER_TOKEN,
    DEFAULT_IMAGE_TOKENS,
    PER_PAGE,
    file_tokens,
    image_size,
    image_tokens,
)
from tests.tokens.image_files import gif, jpeg, png, webp, webp_extended, webp_lossless, webp_lossy


@pytest.mark.parametrize("make", [png, gif, jpeg, webp_extended, webp_lossless, webp_lossy])
@given(width=st.integers(1, 16_000), height=st.integers(1, 16_000))
def test_the_size_is_read_from_the_header(make: type, width: int, height: int) -> None:
    assert image_size(make(width, height)) == (width, height)


def test_a_progressive_jpeg_and_padding_are_read() -> None:
    assert image_size(jpeg(30, 20, marker=0xC2, padding=b"\xff")) == (30, 20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        png(1, 1)[:16],
        png(0, 5),
        gif(3, 3)[:6],
        b"\xff\xd8",
        b"\xff\xd8\xff\xe0\x00\x00" + b"\0" * 20,
        jpeg(3, 3, marker=0xC4)[:40],
        webp(b"VP8X", b"\0"),
        webp(b"VP8L", b"\0"),
        webp(b"VP8 ", b"\0"),
        webp(b"ALPH", b"\0" * 40),
    ],
)
def test_broken_or_unknown_images_have_no_size(data: bytes) -> None:
    assert image_size(data) is None
    assert image_tokens("gpt-4o", data) == DEFAULT_IMAGE_TOKENS


HEADS = [b"", png(1, 1)[:8], b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8X"]


@given(
    st.sampled_from(HEADS),
    st.binary(max_size=60),
    st.sampled_from(["gpt-4o", "claude", "gemini", "gpt-5-mini", "?"]),
)
def test_any_bytes_have_a_count(head: bytes, rest: bytes, model: str) -> None:
    assert image_tokens(model, head + rest) > 0


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("gpt-4o", 1024, 1024, 765),
        ("gpt-4o", 2048, 4096, 1105),
        ("gpt-4o", 512, 512, 255),
        ("gpt-4o", 10, 10, 255),
        ("gpt-4.1", 1024, 1024, 765),
        ("gpt-4o-mini", 1024, 1024, 25_501),
        ("gpt-5", 1024, 1024, 630),
        ("gpt-5.1-codex", 1024, 1024, 630),
        ("o3", 1024, 1024, 675),
        ("openai/o1", 1024, 1024, 675),
        ("gpt-4.1-mini", 1024, 1024, 1659),
        ("gpt-4.1-mini", 10_000, 10_000, 2489),
        ("gpt-5-nano", 1024, 1024, 2520),
        ("o4-mini", 1024, 1024, 1762),
        ("codex-mini-latest", 1024, 1024, 765),
        ("claude-sonnet-4-5", 200, 200, 54),
        ("claude-sonnet-4-5", 1000, 1000, 1334),
        ("claude-sonnet-4-5", 8000, 8000, 1600),
        ("gemini-2.5-pro", 384, 384, 258),
        ("gemini-2.5-pro", 1536, 768, 516),
        ("gemini-2.5-pro", 16_000, 16_000, 4128),
        ("llama-4", 1024, 1024, DEFAULT_IMAGE_TOKENS),
    ],
)
def test_images_are_counted_as_the_vendors_document(model: str, width: int, height: int, tokens: int) -> None:
    assert image_tokens(model, png(width, height)) == tokens


def test_a_pdf_is_counted_by_its_pages() -> None:
    pages = b"%PDF-1.7 /Type /Pages " + b"<< /Type /Page >> << /Type/Page/Parent 1 >>"
    assert file_tokens(pages) == 2 * PER_PAGE
    assert file_tokens(b"%PDF-1.7" + b"\0" * 100_000) == 3 * PER_PAGE


def test_any_other_file_is_counted_by_its_bytes() -> None:
    assert file_tokens(b"\0" * 10 * BYTES_PER_TOKEN) == 10
    assert file_tokens(b"\0") == 1
