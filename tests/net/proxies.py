"""A step of scripted servers that act as proxies."""

from __future__ import annotations

import asyncio

from tests.client.server import Connection, Step


def tunnel(port: int, status: str = "200 Connection established") -> Step:
    """Copy bytes in both directions, as a proxy does after CONNECT."""

    async def step(connection: Connection) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        connection.writer.write(f"HTTP/1.1 {status}\r\nserver: proxy\r\n\r\n".encode())

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    target.write(data)
            except OSError:
                pass
            target.close()

        try:
            await asyncio.gather(copy(connection.reader, writer), copy(reader, connection.writer))
        finally:
            writer.close()

    return step
