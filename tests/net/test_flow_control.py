"""Flow control on transports. `server/test_server.py` and `test_dialing.py` test it with TLS on sockets."""

from __future__ import annotations

import asyncio
from socket import socketpair
from typing import Any

import pytest

from penstock.net.flow_control import PIECE, SMALL, is_readable, set_reading, write_all
from tests.net.server.fake_connections import FakeTransport


def test_a_connection_that_the_peer_has_closed_is_readable() -> None:
    class Idle:
        def __init__(self, socket: Any) -> None:
            self._socket = socket

        def get_extra_info(self, name: str) -> Any:
            return self._socket if name == "socket" else None

    ours, theirs = socketpair()
    with ours, theirs:
        assert not is_readable(Idle(ours))  # type: ignore[arg-type]
        theirs.close()
        assert is_readable(Idle(ours))  # type: ignore[arg-type]
        assert not is_readable(Idle(None))  # type: ignore[arg-type]


class FakeTls(FakeTransport):
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "ssl_object" else default


@pytest.mark.parametrize(
    ("size", "is_tls", "writes"),
    [(SMALL, True, 1), (PIECE, True, 1), (PIECE * 3, True, 4), (PIECE * 3, False, 1)],
)
def test_large_writes_are_split_for_tls_only(size: int, is_tls: bool, writes: int) -> None:
    transport = FakeTls() if is_tls else FakeTransport()
    parts = [b"head", b"x" * (size - 4), b"end"] if size > PIECE else [b"head", b"x" * (size - 4)]
    write_all(transport, parts)
    assert transport.written == b"".join(parts)
    assert transport.writes == writes


def test_reading_is_changed_only_when_it_must_be() -> None:
    """The fake transport does not accept to be paused or resumed twice."""

    async def main() -> None:
        transport = FakeTransport()
        for should_read in (True, False, False, True, True, False):
            set_reading(transport, should_read)
            assert transport.is_paused is not should_read
        transport.protocol = asyncio.Protocol()
        transport.close()
        set_reading(transport, True)
        assert transport.is_paused
        await asyncio.sleep(0)

    asyncio.run(main())
