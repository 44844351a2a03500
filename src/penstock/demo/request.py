"""A request as the demo model is given it: the body that its dialect renders."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class DemoTool(Struct, frozen=True, omit_defaults=True):
    """`name` is what a call says, `title` what the client calls the tool."""

    name: str
    title: str
    description: str = ""
    parameters: dict[str, Any] = {}
    custom: bool = False


class DemoTurn(Struct, frozen=True, omit_defaults=True):
    """`role` is `user`, `system`, `assistant` or `tool`; of a tool there is one turn for each output."""

    role: str
    text: str = ""
    media: list[str] = []
    """What can be seen of images and files, in words. The files themselves are not carried along."""
    tool: str = ""
    """Of an output: the tool that gave it."""
    remembered: list[str] = []
    """Of an assistant: what it thought about, from reasoning that came back sealed."""


class DemoFormat(Struct, frozen=True, omit_defaults=True):
    """`type` is `text`, `json_object` or `json_schema`."""

    type: str = "text"
    schema: dict[str, Any] = {}


class DemoRequest(Struct, frozen=True, omit_defaults=True):
    model: str
    instructions: list[str] = []
    turns: list[DemoTurn] = []
    has_result: bool = False
    """The last thing in the input is a tool's output."""
    tools: list[DemoTool] = []
    tool_mode: str = "auto"
    """`auto`, `none`, `required`, or `tool` with the one to call in `tool_name`."""
    tool_name: str = ""
    parallel_calls: bool = True
    max_calls: int | None = None
    format: DemoFormat = DemoFormat()
    verbosity: str = "medium"
    effort: str = ""
    summary: str = ""
    seals: bool = False
    """Reasoning is to come sealed as well."""
    logprobs: int | None = None
    """How many alternatives each word is given with; None: no probabilities."""
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """What the user said last."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "user"), "")
