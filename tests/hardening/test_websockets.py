"""Violations of the WebSocket protocol, and floods: the connection is closed with the code for it."""

from __future__ import annotations

import pytest

from tests.gateway.raw_sockets import answer, connect, frame, is_closed, upgrade
from tests.hardening.attacked import MIB, Attacked

pytestmark = pytest.mark.hardening

CREATE = b'{"type": "response.create", "model": "harmless", "input": "x"}'


def unmasked(data: bytes, first: int = 0x81) -> bytes:
    return bytes([first, len(data)]) + data


def with_first(first: int, data: bytes = b"x") -> bytes:
    return bytes([first]) + frame(data)[1:]


def huge(size: int) -> bytes:
    """The head of a frame that announces this many bytes."""
    return b"\x81\xff" + size.to_bytes(8, "big") + bytes(4)


VIOLATIONS: dict[str, tuple[bytes, int]] = {
    "an unmasked frame": (unmasked(CREATE), 1002),
    "the first reserved bit": (with_first(0xC1), 1002),
    "the second reserved bit": (with_first(0xA1), 1002),
    "the third reserved bit": (with_first(0x91), 1002),
    "an unknown opcode": (with_first(0x83), 1002),
    "an unknown control opcode": (with_first(0x8B), 1002),
    "a fragmented ping": (with_first(0x09), 1002),
    "a fragmented close": (with_first(0x08, b""), 1002),
    "a ping of 126 bytes": (frame(b"x" * 126, 9), 1002),
    "a continuation without a start": (frame(b"x", 0), 1002),
    "a start in a message": (frame(b"x", is_last=False) + frame(b"y"), 1002),
    "a close of one byte": (frame(b"\x03", 8), 1002),
    "a close with an invalid code": (frame((1005).to_bytes(2, "big"), 8), 1002),
    "a close with invalid UTF-8": (frame((1000).to_bytes(2, "big") + b"\xff", 8), 1007),
    "invalid UTF-8": (frame(b"\xff\xfe"), 1007),
    "invalid UTF-8 over fragments": (frame(b"\xe2\x82", is_last=False) + frame(b"", 0), 1007),
    "a frame beyond the limit": (huge(64 * MIB + 1), 1009),
    "a frame of 2^63 bytes": (huge(2**63 - 1), 1009),
    "fragments beyond the limit": (
        frame(b"x" * 33 * MIB, is_last=False) + b"\x80\xff" + (33 * MIB).to_bytes(8, "big") + bytes(4),
        1009,
    ),
}


@pytest.mark.parametrize(("sent", "code"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_closes_the_connection_with_its_code(gateway: Attacked, sent: bytes, code: int) -> None:
    client = connect(gateway.running, upgrade())
    assert client.recv(65536).startswith(b"HTTP/1.1 101")
    memory = gateway.memory()
    client.sendall(sent)
    data = b""
    while b"\x88" not in data:
        more = client.recv(65536)
        assert more, data
        data += more
    closing = data[data.rindex(b"\x88") :]
    assert int.from_bytes(closing[2:4], "big") == code
    assert is_closed(client)
    assert memory.peak() < 100 * MIB
    assert gateway.is_unharmed()


def test_a_hundred_thousand_pings_are_answered_and_a_turn_still_runs(gateway: Attacked) -> None:
    client = connect(gateway.running, upgrade())
    client.recv(65536)
    memory = gateway.memory()
    pongs, rest = 0, b""
    for _ in range(100):
        client.sendall(frame(b"", 9) * 1000)
        received = 0
        while received < 2000:  # each pong has two bytes
            received += len(client.recv(65536))
        pongs += received // 2
    assert pongs >= 100_000
    client.sendall(frame(CREATE))
    while b"response.completed" not in rest:
        more = client.recv(65536)
        assert more
        rest += more
    assert b"as always" in rest
    assert memory.peak() < 20 * MIB
    assert gateway.is_unharmed()


def test_a_flood_of_messages_closes_the_connection(gateway: Attacked) -> None:
    """More than may be queued while turns run."""
    client = connect(gateway.running, upgrade())
    client.recv(65536)
    memory = gateway.memory()
    client.sendall(frame(CREATE) * 5000)
    data = b""
    try:
        while more := client.recv(1 << 20):
            data = data[-10:] + more
    except ConnectionResetError:
        pass
    assert (b"\x88\x02" + (1008).to_bytes(2, "big")) in data or b"too many" in data
    assert memory.peak() < 50 * MIB
    assert gateway.is_unharmed()


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/responses", "/v1/responses/", "/v1//responses", "//responses"]
)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://", "x"]
)
def test_a_page_of_another_origin_opens_no_websocket(gateway: Attacked, path: str, origin: str) -> None:
    reply = answer(connect(gateway.running, upgrade(f"origin: {origin}", start=f"GET {path} HTTP/1.1")))
    assert (reply.status, reply.error["code"]) in ((403, "permission_denied"), (404, "not_found"))
    assert gateway.is_unharmed()


def test_a_page_whose_name_points_here_opens_no_websocket(gateway: Attacked) -> None:
    request = upgrade("origin: http://evil.example").replace(b"host: 127.0.0.1", b"host: evil.example")
    assert answer(connect(gateway.running, request)).status == 403
