"""The other side of a provider: a consumer that shows text, runs tools and goes on until there is an answer.

What a turn said becomes one assistant message, what its tools gave back the user message behind it
(editor 18). Calls of one turn run together. Nothing runs without end: turns are bounded, and cancel
stops all of it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from itertools import groupby
from typing import Any, TypeVar

from msgspec import Struct

from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    MessagePart,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.parts.result import StreamResult
from penstock.provider.options import ResponseOptions
from penstock.provider.provider import LanguageModelProvider

T = TypeVar("T")

TURNS = 25
CANCELLED = "the user cancelled this call; what it had begun may still go on"

Output = str | TextPart | DataPart | Sequence[TextPart | DataPart] | Mapping[str, Any] | None
"""What a tool may give back; an object is sent as JSON."""


class Tool(Struct, frozen=True):
    """A tool and what runs it: a function of the input, plain or async. A plain one runs in a thread."""

    spec: ChatTool
    run: Callable[[Mapping[str, Any]], Output | Awaitable[Output]]


class Listener:
    """Told of what happens; every method may be left as it is."""

    def part(self, part: Part) -> None:
        """A part came."""

    async def may_run(self, call: ToolCallPart) -> bool:  # noqa: ARG002
        """May this call run? Asked for one call after the other, before any of them runs."""
        return True

    def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """A tool has run, or was not allowed to."""


class Answer(Struct, frozen=True):
    """How a conversation went on. `messages` are the new ones; `results` has one for each turn."""

    text: str
    messages: list[ChatMessage]
    results: list[StreamResult]
    stopped: str
    """Why it ended: `answered`, `cancelled`, or `turns` when the model wanted to go on for ever."""


async def converse(
    provider: LanguageModelProvider,
    model: str,
    messages: Sequence[ChatMessage],
    tools: Sequence[Tool] = (),
    *,
    options: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
    cancel: asyncio.Event | None = None,
    turns: int = TURNS,
    record: list[ChatMessage] | None = None,
) -> Answer:
    """Go on from `messages` until the model has answered. Raises what the provider raises.

    `record` gets every new message when it is whole: after a failure it has what was done before it. A call
    is there with its result or not at all.
    """
    listener, cancel = listener or Listener(), cancel or asyncio.Event()
    known = {tool.spec.name: tool for tool in reversed(tools)}  # of two with one name the first is declared
    asked = ResponseOptions(options or {}, [tool.spec for tool in tools])
    new: list[ChatMessage] = [] if record is None else record
    results: list[StreamResult] = []
    for _ in range(turns):
        heard = _Heard(listener)
        result = await provider.provide_response(model, [*messages, *new], asked, heard.take, cancel)
        results.append(result)
        said = heard.message()
        if cancel.is_set():
            new += _spoken(said.content)
            return Answer(heard.text, [*new], results, "cancelled")
        if not heard.calls:
            new.append(said)
            return Answer(heard.text, [*new], results, "answered")
        new += [said, ChatMessage(Role.USER, await _run_all(heard.calls, known, listener, cancel))]
        if cancel.is_set():  # nobody waits for what the model would say to the results
            return Answer(heard.text, [*new], results, "cancelled")
    return Answer("", [*new], results, "turns")


class _Heard:
    """The parts of one response, as the message that they become: pieces in a row are one part."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._parts: list[MessagePart] = []
        self.calls: list[ToolCallPart] = []

    def take(self, part: Part) -> None:
        self._listener.part(part)
        if isinstance(part, ToolCallPart):
            self.calls.append(part)
        self._parts.append(part)

    @property
    def text(self) -> str:
        return "".join(part.value for part in self._parts if isinstance(part, TextPart))

    def message(self) -> ChatMessage:
        runs = groupby(self._parts, key=_run_of)
        joined = [part for kind, run in runs for part in (_joined([*run]) if kind else run)]
        return ChatMessage(Role.ASSISTANT, joined)


def _run_of(part: MessagePart) -> tuple[type, str | None] | None:
    """What a piece belongs to: one text, one block of thinking; None for what is no piece."""
    if isinstance(part, TextPart):
        return TextPart, None
    is_piece = isinstance(part, ThinkingPart) and part.metadata is None
    return (ThinkingPart, part.id) if isinstance(part, ThinkingPart) and is_piece else None


def _joined(pieces: Sequence[MessagePart]) -> list[MessagePart]:
    first = pieces[0]
    text = "".join("".join(part.value) for part in pieces if isinstance(part, TextPart | ThinkingPart))
    return [ThinkingPart(text, first.id) if isinstance(first, ThinkingPart) else TextPart(text)]


def _spoken(parts: Sequence[MessagePart]) -> list[ChatMessage]:
    """What was heard before a cancel is valid. A call that was not run is no part of it, because nobody will
    answer it; nor is what was thought towards it, because endpoints refuse thinking that leads nowhere."""
    kept = [part for part in parts if not isinstance(part, ToolCallPart)]
    while kept and isinstance(kept[-1], ThinkingPart):
        kept.pop()
    return [ChatMessage(Role.ASSISTANT, kept)] if kept else []


async def _run_all(
    calls: list[ToolCallPart], tools: Mapping[str, Tool], listener: Listener, cancel: asyncio.Event
) -> list[MessagePart]:
    """The results of all calls, in their order. Those that may run, run together."""
    allowed = [not cancel.is_set() and call.name in tools and await listener.may_run(call) for call in calls]
    if cancel.is_set():  # perhaps at the last question: nothing may start now
        stopped = [_refused(call, CANCELLED) for call in calls]
        for call, result in zip(calls, stopped, strict=True):
            listener.ran(call, result)
        return [*stopped]
    running = [
        asyncio.create_task(_run(call, tools, may), name=f"penstock tool {call.name}")
        for call, may in zip(calls, allowed, strict=True)
    ]
    stopping = asyncio.create_task(cancel.wait())
    try:
        for call, task in zip(calls, running, strict=True):
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            listener.ran(call, _result(call, task))
    finally:
        left: list[asyncio.Task[Any]] = [*running, stopping]
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    return [_result(call, task) for call, task in zip(calls, running, strict=True)]


def _result(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.cancelled():
        return _refused(call, CANCELLED)
    return task.result()


async def _run(call: ToolCallPart, tools: Mapping[str, Tool], allowed: bool) -> ToolResultPart:
    """One call. Whatever goes wrong is told to the model, which can do something about it."""
    tool = tools.get(call.name)
    if tool is None:
        return _refused(call, f"there is no tool {call.name!r}; there are: {', '.join(tools) or 'none'}")
    if not allowed:
        return _refused(call, "the user did not allow this call")
    try:
        return ToolResultPart(call.call_id, _content(await _call(tool, call.input)))
    except Exception as error:  # also an output that JSON cannot say
        return _refused(call, f"{type(error).__name__}: {error}")


async def _call(tool: Tool, input: Mapping[str, Any]) -> Output:
    if inspect.iscoroutinefunction(tool.run):
        output: Output = await tool.run(input)
        return output
    given = await in_thread(lambda: tool.run(input))
    return await given if inspect.isawaitable(given) else given


def _content(output: Any) -> Sequence[TextPart | DataPart]:
    if output is None:
        return []
    if isinstance(output, TextPart | DataPart):
        return [output]
    if isinstance(output, str):
        return [TextPart(output)]
    if (
        isinstance(output, list | tuple)
        and output
        and all(isinstance(each, TextPart | DataPart) for each in output)
    ):
        return output
    return [DataPart.json(output)]


def _refused(call: ToolCallPart, why: str) -> ToolResultPart:
    return ToolResultPart(call.call_id, [TextPart(why)], is_error=True)


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a thread of its own, which nobody has to wait for.

    A pool has room for a few, and a function that hangs in one would keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else give(value))

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            settle(done.set_exception, error)
        except BaseException as error:  # `sys.exit` in a tool ends the tool
            ended = RuntimeError(f"the tool ended with {type(error).__name__}: {error}")
            settle(done.set_exception, ended)
        else:
            settle(done.set_result, result)

    threading.Thread(target=copy_context().run, args=(run,), name="penstock tool", daemon=True).start()
    return done
