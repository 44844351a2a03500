"""Run many requests concurrently; each is answered with its own lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from penstock.errors import DecodeError, NotFoundError, OpenResponsesError
from penstock.models.learned_limits import LearnedLimits
from penstock.parts.wire import JSON, encode_line
from penstock.provider.host.answers import answer
from penstock.provider.host.error_messages import (
    ErrorContext,
    failure_line,
    internal_error_line,
    invalid_request_line,
    known_code,
    notice_line,
)
from penstock.provider.host.figures import UsageUpdates, usage_to_json
from penstock.provider.host.groups import Group
from penstock.provider.host.lines import read_object
from penstock.provider.host.logs import log_failure, log_internal_error, log_request, trace_of
from penstock.provider.host.outbox import Outbox
from penstock.provider.host.requests import (
    CancelRequest,
    ConfigureRequest,
    CountTokensRequest,
    ForgetLimitsRequest,
    HostRequest,
    Id,
    ModelsRequest,
    RespondRequest,
    id_of,
    read_request,
)
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

MAX_RUNNING = 4096
"""The maximum number of concurrent requests. Further requests wait in the pipe, so memory stays bounded."""

GRACE = 1.5
"""Seconds that running requests have to finish after the editor has disconnected."""


class RunningRequest(Struct, frozen=True):
    """A running request. Setting `cancel` ends its response cleanly."""

    task: asyncio.Task[None]
    cancel: asyncio.Event


class EditorHost:
    """Answers the requests of one editor. Use it in one event loop."""

    def __init__(self, out: Outbox, limits: LearnedLimits | None = None) -> None:
        """`limits` are the learned limits of all endpoints; without them, they are kept in memory."""
        self._out = out
        self._limits = limits or LearnedLimits()
        self._limits.on_change(self._limits_changed)
        self._groups: dict[str, Group] = {}
        self._retired: list[Group] = []
        self._trackers: dict[str, UsageTracker] = {}
        self._running: dict[Id, RunningRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._counter = TokenCounter()
        self._usage_updates = UsageUpdates(self._send_usage, asyncio.get_running_loop())

    async def handle_lines(self, lines: Sequence[bytes | None]) -> None:
        """Handle lines from the editor; None stands for a line that was too long."""
        for line in lines:
            try:
                await self._handle_line(line)
            except Exception as error:  # an error in one line must not stop the next
                log_internal_error(error, None)
                self._put(notice_line("internal_error", "A line could not be handled; see the log"))

    async def _handle_line(self, line: bytes | None) -> None:
        if line is None:
            self._put(
                notice_line(
                    "line_too_long", "A line was longer than 64 MiB and was skipped; send shorter lines"
                )
            )
            return
        while len(self._tasks) >= MAX_RUNNING:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        try:
            raw = read_object(line)
            id = id_of(raw)
        except DecodeError as error:
            self._put(notice_line("invalid_line", f"A line was not a valid request: {error}"))
            return
        if id is None:
            self._put(notice_line("missing_id", "A request had no `id`, so it cannot be answered"))
        elif id in self._running:
            self._put(
                notice_line("duplicate_id", f"A request with the id {str(id)[:80]!r} is already running")
            )
        else:
            self._start(id, raw)

    async def aclose(self) -> None:
        """Cancel all responses and give the running requests a moment to finish."""
        for running in self._running.values():
            running.cancel.set()
        self._out.wake()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for group in (*self._groups.values(), *self._retired):
            await group.aclose()

    def _start(self, id: Id, raw: JSON) -> None:
        cancel = asyncio.Event()
        task = asyncio.create_task(self._run(id, raw, cancel), name="penstock request")
        self._running[id] = RunningRequest(task, cancel)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, id: Id, raw: JSON, cancel: asyncio.Event) -> None:
        """Run a request and end it with exactly one line. Then its id can be used again."""
        try:
            end = await self._last_line(id, raw, cancel)
            await self._out.wait_for_room()
        finally:
            del self._running[id]
        self._put({"id": id, **end})

    async def _last_line(self, id: Id, raw: JSON, cancel: asyncio.Event) -> JSON:
        context = ErrorContext()
        try:
            request = read_request(raw)
            log_request(raw["method"], id)
            context = self._error_context(request)
            return {"type": "done", **await self._answer(id, request, cancel)}
        except DecodeError as error:
            return invalid_request_line(error)
        except OpenResponsesError as error:
            log_failure(error, known_code(error), raw["method"], id)
            return failure_line(error, context)
        except Exception as error:
            log_internal_error(error, id)
            return internal_error_line(error)

    async def _answer(self, id: Id, request: HostRequest, cancel: asyncio.Event) -> JSON:
        if isinstance(request, ConfigureRequest):
            return await self._configure(request)
        if isinstance(request, CancelRequest):
            self._cancel(request.request)
            return {}
        group = self._groups.get(getattr(request, "group", ""))
        if group is None:
            return self._without_group(request)

        async def send(line: JSON) -> None:
            await self._out.wait_for_room(cancel.is_set)
            if not cancel.is_set():  # after a cancel only the last line follows
                self._put({"id": id, **line})

        tools = request.options.tools if isinstance(request, RespondRequest) else []
        with group.used():
            trace = trace_of(id, [tool.name for tool in tools])
            done = await answer(group.provider, request, send, cancel, self._usage, trace)
        await self._close_retired()
        return done

    def _without_group(self, request: HostRequest) -> JSON:
        """Answer without a group: an editor lists models and counts tokens before anything is configured."""
        if isinstance(request, ModelsRequest):
            return {"models": []}
        if isinstance(request, CountTokensRequest):
            counted, model = request.counted, request.model
            is_text = isinstance(counted, str)
            count = self._counter.count_text if is_text else self._counter.count_message
            return {"tokens": count(model, counted)}  # type: ignore[arg-type]  # `count` matches its type
        if isinstance(request, RespondRequest):
            raise NotFoundError("the group is not configured", code="group_not_configured")
        if isinstance(request, ForgetLimitsRequest):
            return {"forgotten": []}
        return {"usage": self._usage()}

    async def _configure(self, request: ConfigureRequest) -> JSON:
        """Configure a group. The same configuration changes nothing: editors often repeat it (editor 11)."""
        old = self._groups.get(request.group)
        if old is None or old.request != request:
            self._groups[request.group] = Group(request, self._tracker(request.group), self._limits)
            if old is not None:
                self._retired.append(old)
            await self._close_retired()
            self._put({"type": "models_changed", "group": request.group})
        return {"endpoint": self._groups[request.group].display_url}

    def _limits_changed(self, endpoint: str) -> None:
        """Tell the editor, so that it summarises a conversation in time."""
        for name, group in self._groups.items():
            if group.limits.endpoint == endpoint:
                self._put({"type": "models_changed", "group": name, "reason": "limits"})

    async def _close_retired(self) -> None:
        idle = [group for group in self._retired if group.is_idle]
        self._retired = [group for group in self._retired if not group.is_idle]
        for group in idle:
            await group.aclose()

    def _cancel(self, id: Id) -> None:
        """Cancel a request, unless it has already ended."""
        if id in self._running:
            self._running[id].cancel.set()
            self._out.wake()

    def _error_context(self, request: HostRequest) -> ErrorContext:
        name, model = getattr(request, "group", ""), getattr(request, "model", "")
        group = self._groups.get(name)
        if group is None:
            return ErrorContext(group=name, model=model)
        return group.error_context(model, request.settings if isinstance(request, RespondRequest) else None)

    def _tracker(self, group: str) -> UsageTracker:
        """Return the tracker of a group, which outlives its configuration."""
        if group not in self._trackers:
            self._trackers[group] = UsageTracker()
            self._trackers[group].on_change(self._usage_updates.changed)
        return self._trackers[group]

    def _usage(self) -> JSON:
        return usage_to_json(self._trackers)

    def _send_usage(self) -> bool:
        if not self._out.has_room:
            return False
        self._put({"type": "usage_changed", "usage": self._usage()})
        return True

    def _put(self, line: JSON) -> None:
        self._out.put(encode_line(line))
