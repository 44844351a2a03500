"""A provider with a scripted endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.models.directory import ModelDirectory
from penstock.models.learned_limits import EndpointLimits
from penstock.models.overrides import parse_override
from penstock.parts.parts import ChatMessage, Part, Role, TextPart
from penstock.protocol.content import JsonObject
from penstock.provider.editor_turn import Host
from penstock.provider.provider import LanguageModelProvider
from tests.cli import streams
from tests.client.asking import asking
from tests.client.server import Script, Server, answer

MODEL = "test-model"
OVERRIDE = "test-model = window:1000 output:200 tools price:2/10/0.5"


def user(text: str) -> ChatMessage:
    return ChatMessage(Role.USER, [TextPart(text)])


HELLO = [user("Hello")]


class ModelList:
    """Lists one model, so that the scripts contain only responses."""

    def __init__(self, reasoning: bool = False) -> None:
        self._entry: JsonObject = {"id": MODEL, "supported_parameters": ["reasoning"] if reasoning else []}

    async def models(self) -> list[JsonObject]:
        return [self._entry]


@asynccontextmanager
async def scripted_provider(
    *scripts: Script,
    host: Host | None = None,
    reasoning: bool = False,
    limits: EndpointLimits | None = None,
    override: str = OVERRIDE,
    **settings: Any,
) -> AsyncIterator[tuple[LanguageModelProvider, Server]]:
    async with asking(*scripts, **settings) as (client, server):
        overrides = [parse_override(override)]
        directory = ModelDirectory(ModelList(reasoning), overrides=overrides, limits=limits)
        yield LanguageModelProvider(client, directory, host=host), server


def call_stream(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> list[streams.Event]:
    """Return a response that calls tools, each given as (call id, name, input)."""
    events, output = streams.message("msg_1", 0, [text]) if text else ([], None)
    items = [output] if output else []
    for index, (id, name, input) in enumerate(calls, start=len(items)):
        made, item = streams.call(id, index, name, [json.dumps(input)])
        events += made
        items.append(item)
    return streams.response(events, items)


def text_stream(text: str, usage: dict[str, Any] | bool | None = True) -> list[streams.Event]:
    events, item = streams.message("msg_1", 0, [text])
    made = streams.response(events, [item])
    if usage is not True:
        made[-1]["response"]["usage"] = usage
    return made


def refused(status: int, code: str, message: str, **headers: str) -> Script:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}
    return [answer(status, body, **headers)]


class ReceivedParts:
    def __init__(self) -> None:
        self.parts: list[Part] = []

    def __call__(self, part: Part) -> None:
        self.parts.append(part)

    @property
    def text(self) -> str:
        return "".join(part.value for part in self.parts if isinstance(part, TextPart))
