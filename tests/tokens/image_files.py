"""Headers of image files, with any width and height."""

from __future__ import annotations

import struct


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\xf7\0\0"


def jpeg(width: int, height: int, *, marker: int = 0xC0, padding: bytes = b"") -> bytes:
    head = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9
    return head + padding + bytes([0xFF, marker]) + struct.pack(">HBHH", 17, 8, height, width) + b"\0" * 8


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


def webp_extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little"))


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0" * 3 + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))
