"""Sources and the inbox that buffers what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.errors import NetworkError
from penstock.net.source import Inbox, PulledSource


class Pieces(PulledSource):
    """Returns pieces, then ends, raises or waits forever."""

    status, content_type = 200, "text/event-stream"
    request_id: str | None = None

    def __init__(self, pieces: Sequence[bytes], end: Exception | str = "") -> None:
        super().__init__()
        self.pieces, self._end = list(pieces), end

    async def read(self) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if isinstance(self._end, Exception):
            raise self._end
        if self._end:
            await asyncio.get_running_loop().create_future()
        return b""

    def mask(self, text: str) -> str:
        return text

    def mask_value(self, value: Any) -> Any:
        return value

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:  # noqa: ARG002
        return data


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_take_returns_everything_received() -> None:
    async def main() -> None:
        inbox = Inbox(Pieces([b"a", b"b", b"c"]))
        assert not inbox.is_ready
        await settled()
        assert inbox.is_ready
        assert await inbox.take() == b"abc"
        assert await inbox.take() == b"" == await inbox.take()

    asyncio.run(main())


@pytest.mark.parametrize("error", [NetworkError("cut"), RuntimeError("a bug on our side")])
def test_a_failure_is_raised_after_the_data_before_it(error: Exception) -> None:
    async def main() -> None:
        inbox = Inbox(Pieces([b"a"], error))
        assert await inbox.take() == b"a"
        for _ in range(2):
            with pytest.raises(type(error)):
                await inbox.take()

    asyncio.run(main())


def test_a_faster_source_is_paused_until_everything_was_taken() -> None:
    async def main() -> None:
        source = Pieces([b"x" * Inbox.ROOM] * 3)
        inbox = Inbox(source)
        await settled()
        assert len(source.pieces) == 2
        assert len(await inbox.take()) == Inbox.ROOM
        await settled()
        assert len(source.pieces) == 2  # it was taken, but `take` is not waiting for more yet
        assert len(await inbox.take()) == Inbox.ROOM

    asyncio.run(main())


@pytest.mark.parametrize("is_closed", [True, False])
def test_closing_ends_callbacks_and_leaves_no_task(is_closed: bool) -> None:
    async def main() -> None:
        source = Pieces([], "waits")
        inbox = Inbox(source)
        await settled()
        if is_closed:
            source.close()
            source.close()
            await settled()
        else:
            source.finish()
            await settled()
        assert not inbox.is_ready
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
