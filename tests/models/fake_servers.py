"""A local server that answers probes from a table."""

from __future__ import annotations

from typing import Any

PROPERTIES: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 8192},
    "total_slots": 4,
    "modalities": {"vision": True},
}
"""What llama.cpp answers at `/props`."""


class Server:
    """Returns the answer for each path, raises it if it is an exception, and records the requests."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, Any]] = []

    async def fetch(self, path: str, body: dict[str, Any] | None = None) -> Any:
        self.requests.append((path, body))
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer
