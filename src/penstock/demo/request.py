"""The demo model's request: the body that its dialect renders."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class DemoTool(Struct, frozen=True, omit_defaults=True):
    """`name` is the name in a call, `title` the client's name for the tool."""

    name: str
    title: str
    description: str = ""
    parameters: dict[str, Any] = {}
    custom: bool = False


class DemoTurn(Struct, frozen=True, omit_defaults=True):
    """`role` is `user`, `system`, `assistant` or `tool`; each tool output is a turn of its own."""

    role: str
    text: str = ""
    media: list[str] = []
    """Descriptions of images and files. Their content is not included."""
    tool: str = ""
    """For a tool output: the tool that returned it."""
    remembered: list[str] = []
    """For an assistant turn: topics from encrypted reasoning that the client sent back."""


class DemoFormat(Struct, frozen=True, omit_defaults=True):
    """`type` is `text`, `json_object` or `json_schema`."""

    type: str = "text"
    schema: dict[str, Any] = {}


class DemoRequest(Struct, frozen=True, omit_defaults=True):
    model: str
    instructions: list[str] = []
    turns: list[DemoTurn] = []
    has_result: bool = False
    """Whether the input ends with a tool output."""
    tools: list[DemoTool] = []
    tool_mode: str = "auto"
    """`auto`, `none`, `required`, or `tool` with the tool's name in `tool_name`."""
    tool_name: str = ""
    parallel_calls: bool = True
    max_calls: int | None = None
    format: DemoFormat = DemoFormat()
    verbosity: str = "medium"
    effort: str = ""
    summary: str = ""
    seals: bool = False
    """Whether to return encrypted reasoning as well."""
    logprobs: int | None = None
    """How many alternatives to return for each word; None for no probabilities."""
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """The text of the last user message."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")
