"""A consumer of a provider: it shows text, runs tools and continues until the model has answered.

The output of a turn becomes one assistant message, and its tool results the user message after it
(editor 18). The calls of one turn run concurrently. Nothing runs forever: the number of turns is limited, and
cancelling stops everything.
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
CANCELLED = "the user cancelled this call; work that it had started may still continue"

Output = str | TextPart | DataPart | Sequence[TextPart | DataPart] | Mapping[str, Any] | None
"""What a tool may return; an object is sent as JSON."""


class Tool(Struct, frozen=True):
    """A tool and its function, synchronous or async. A synchronous function runs in a thread."""

    spec: ChatTool
    run: Callable[[Mapping[str, Any]], Output | Awaitable[Output]]


class Listener:
    """Receives the parts, calls and results of a conversation. Override the methods that you need."""

    def part(self, part: Part) -> None:
        """Called with each part."""

    async def may_run(self, call: ToolCallPart) -> bool:  # noqa: ARG002
        """Return whether this call may run. Called for one call after another, before any of them runs."""
        return True

    def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
        """Called when a tool has run or was not allowed to run."""


class Answer(Struct, frozen=True):
    """The outcome of a conversation: `messages` has the new messages, `results` one result per turn."""

    text: str
    messages: list[ChatMessage]
    results: list[StreamResult]
    stopped: str
    """Why it ended: `answered`, `cancelled`, or `turns` if the limit on turns was reached."""


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
    """Continue from `messages` until the model has answered. Raises what the provider raises.

    Every complete new message is appended to `record`, so after a failure it has everything before it. It
    never contains a call without its result.
    """
    listener, cancel = listener or Listener(), cancel or asyncio.Event()
    known = {
        tool.spec.name: tool for tool in reversed(tools)
    }  # the first of two tools with the same name is declared
    response_options = ResponseOptions(options or {}, [tool.spec for tool in tools])
    new: list[ChatMessage] = [] if record is None else record
    results: list[StreamResult] = []
    for _ in range(turns):
        received = _ReceivedParts(listener)
        result = await provider.provide_response(
            model, [*messages, *new], response_options, received.add, cancel
        )
        results.append(result)
        message = received.message()
        if cancel.is_set():
            new += _without_calls(message.content)
            return Answer(received.text, [*new], results, "cancelled")
        if not received.calls:
            new.append(message)
            return Answer(received.text, [*new], results, "answered")
        new += [message, ChatMessage(Role.USER, await _run_all(received.calls, known, listener, cancel))]
        if cancel.is_set():  # do not ask the model about the results
            return Answer(received.text, [*new], results, "cancelled")
    return Answer("", [*new], results, "turns")


class _ReceivedParts:
    """Collects the parts of one response as a message; consecutive pieces become one part."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._parts: list[MessagePart] = []
        self.calls: list[ToolCallPart] = []

    def add(self, part: Part) -> None:
        self._listener.part(part)
        if isinstance(part, ToolCallPart):
            self.calls.append(part)
        self._parts.append(part)

    @property
    def text(self) -> str:
        return "".join(part.value for part in self._parts if isinstance(part, TextPart))

    def message(self) -> ChatMessage:
        runs = groupby(self._parts, key=_block_of)
        joined = [part for kind, run in runs for part in (_joined([*run]) if kind else run)]
        return ChatMessage(Role.ASSISTANT, joined)


def _block_of(part: MessagePart) -> tuple[type, str | None] | None:
    """Return the key of the text or thinking block that a piece belongs to; None for other parts."""
    if isinstance(part, TextPart):
        return TextPart, None
    is_piece = isinstance(part, ThinkingPart) and part.metadata is None
    return (ThinkingPart, part.id) if isinstance(part, ThinkingPart) and is_piece else None


def _joined(pieces: Sequence[MessagePart]) -> list[MessagePart]:
    first = pieces[0]
    text = "".join("".join(part.value) for part in pieces if isinstance(part, TextPart | ThinkingPart))
    return [ThinkingPart(text, first.id) if isinstance(first, ThinkingPart) else TextPart(text)]


def _without_calls(parts: Sequence[MessagePart]) -> list[ChatMessage]:
    """Return the message of a cancelled response without its calls, because they will get no result.

    The thinking at the end is removed too: endpoints reject thinking that nothing follows.
    """
    remaining = [part for part in parts if not isinstance(part, ToolCallPart)]
    while remaining and isinstance(remaining[-1], ThinkingPart):
        remaining.pop()
    return [ChatMessage(Role.ASSISTANT, remaining)] if remaining else []


async def _run_all(
    calls: list[ToolCallPart], tools: Mapping[str, Tool], listener: Listener, cancel: asyncio.Event
) -> list[MessagePart]:
    """Return the results of all calls, in order. The allowed calls run concurrently."""
    allowed = [not cancel.is_set() and call.name in tools and await listener.may_run(call) for call in calls]
    if cancel.is_set():  # perhaps while asking for permission: start nothing
        cancelled = [_error_result(call, CANCELLED) for call in calls]
        for call, result in zip(calls, cancelled, strict=True):
            listener.ran(call, result)
        return [*cancelled]
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
        remaining: list[asyncio.Task[Any]] = [*running, stopping]
        for each in remaining:
            each.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)
    return [_result(call, task) for call, task in zip(calls, running, strict=True)]


def _result(call: ToolCallPart, task: asyncio.Task[ToolResultPart]) -> ToolResultPart:
    if task.cancelled():
        return _error_result(call, CANCELLED)
    return task.result()


async def _run(call: ToolCallPart, tools: Mapping[str, Tool], allowed: bool) -> ToolResultPart:
    """Run one call. Errors are reported to the model, which can react to them."""
    tool = tools.get(call.name)
    if tool is None:
        return _error_result(call, f"there is no tool {call.name!r}; available: {', '.join(tools) or 'none'}")
    if not allowed:
        return _error_result(call, "the user did not allow this call")
    try:
        return ToolResultPart(call.call_id, _content(await _call(tool, call.input)))
    except Exception as error:  # including output that cannot be encoded as JSON
        return _error_result(call, f"{type(error).__name__}: {error}")


async def _call(tool: Tool, input: Mapping[str, Any]) -> Output:
    if inspect.iscoroutinefunction(tool.run):
        output: Output = await tool.run(input)
        return output
    result = await in_thread(lambda: tool.run(input))
    return await result if inspect.isawaitable(result) else result


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


def _error_result(call: ToolCallPart, why: str) -> ToolResultPart:
    return ToolResultPart(call.call_id, [TextPart(why)], is_error=True)


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a new daemon thread.

    A thread pool has few threads, and a function that hangs in one would keep the program from exiting.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else set_outcome(value))

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            settle(done.set_exception, error)
        except BaseException as error:  # `sys.exit` in a tool ends only the tool
            ended = RuntimeError(f"the tool ended with {type(error).__name__}: {error}")
            settle(done.set_exception, ended)
        else:
            settle(done.set_result, result)

    threading.Thread(target=copy_context().run, args=(run,), name="penstock tool", daemon=True).start()
    return done
