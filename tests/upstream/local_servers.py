"""Local model servers that answer like the real ones: a list of models, a page at `/`, and a chat."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from penstock.dialects.presets import PRESETS, Preset
from tests.client.server import Asked, Script, Server, answer
from tests.gateway.upstream import said, streamed

PAGE = [answer(200, b"<html>a chat</html>", "text/html")]


class LocalServer(Server):
    """A server with a Chat Completions API. `models` and `root` are the answers to `/v1/models` and `/`."""

    def __init__(self, models: Any, root: Script = PAGE, *, chat: Script | None = None) -> None:
        super().__init__()
        self._models = models if isinstance(models, list) else [answer(200, models)]
        self._root = root
        self._chat = chat or streamed(*said("Hello!"))

    def script_for(self, asked: Asked) -> Script:
        if asked.target == "/v1/models":
            return self._models
        return self._root if asked.target == "/" else self._chat

    @property
    def chats(self) -> list[Asked]:
        return [each for each in self.asked if each.method == "POST"]


def listed(*names: str, owner: str = "library") -> dict[str, Any]:
    """Return a list of models as these servers send it."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": owner} for name in names],
    }


def preset_at(preset: str, url: str) -> Preset:
    """Return the row of a preset with another address."""
    return replace(PRESETS[preset], base_url=f"{url}/v1")
