"""Lawful streams, written by hand as JSON objects, for tests that read or check streams.

Written from the specification alone: it shares no code with the state machine or with the checker.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]

USAGE: Event = {
    "input_tokens": 12,
    "output_tokens": 8,
    "total_tokens": 20,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens_details": {"reasoning_tokens": 2},
}
CITATION: Event = {
    "type": "url_citation",
    "url": "https://example.org/",
    "start_index": 0,
    "end_index": 5,
    "title": "Example",
}
FUNCTION_TOOL: Event = {
    "type": "function",
    "name": "get_weather",
    "description": None,
    "parameters": {"type": "object"},
    "strict": True,
}
CUSTOM_TOOL: Event = {"type": "custom", "name": "apply_patch"}

_KINDS = {
    "output_text": ("response.output_text", "text", "content"),
    "refusal": ("response.refusal", "refusal", "content"),
    "reasoning_text": ("response.reasoning", "text", "content"),
    "summary_text": ("response.reasoning_summary_text", "text", "summary"),
}
_PART_EVENTS = {
    "content": ("response.content_part", "content_index"),
    "summary": ("response.reasoning_summary_part", "summary_index"),
}


def snapshot(status: str, output: list[Event]) -> Event:
    """A response with its 31 fields."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": 1_700_000_009 if status == "completed" else None,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": "test-model",
        "previous_response_id": None,
        "instructions": None,
        "output": copy.deepcopy(output),
        "error": {"code": "server_error", "message": "The upstream went away."}
        if status == "failed"
        else None,
        "tools": [copy.deepcopy(FUNCTION_TOOL)],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1.0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "top_logprobs": 0,
        "temperature": 1,
        "reasoning": {"effort": None, "summary": None},
        "usage": copy.deepcopy(USAGE) if status in ("completed", "incomplete") else None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": True,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
    }


class Item:
    """An item under construction."""

    def __init__(self, stream: Stream, value: Event) -> None:
        self._stream = stream
        self.value = value
        self.index = len(stream.items)
        stream.items.append(value)
        stream.emit("response.output_item.added", output_index=self.index, item=value)

    def _emit(self, type: str, **fields: Any) -> None:
        self._stream.emit(type, item_id=self.value["id"], output_index=self.index, **fields)

    def open(self, type: str) -> Item:
        """Open a part."""
        _, field, where = _KINDS[type]
        event, index = _PART_EVENTS[where]
        part: Event = {"type": type, field: ""}
        if type == "output_text":
            part |= {"annotations": [], "logprobs": []}
        parts: list[Event] = self.value.setdefault(where, [])
        parts.append(part)
        self._emit(f"{event}.added", **{index: len(parts) - 1}, part=part)
        return self

    def _last(self, type: str) -> tuple[Event, str, Event]:
        _, field, where = _KINDS[type]
        index = len(self.value[where]) - 1
        return self.value[where][index], field, {_PART_EVENTS[where][1]: index}

    def add_text(self, type: str, *deltas: str) -> Item:
        """Stream text into the part that was opened last."""
        part, field, place = self._last(type)
        for delta in deltas:
            part[field] += delta
            self._emit(f"{self._stream.event_name(type)}.delta", **place, delta=delta)
        return self

    def add_text_with_logprobs(self, *deltas: str) -> Item:
        """Stream text with the log probability of each delta."""
        part, field, place = self._last("output_text")
        for number, delta in enumerate(deltas):
            part[field] += delta
            token = {"token": delta, "logprob": -0.5 * number, "bytes": list(delta.encode())}
            logprobs = [{**token, "top_logprobs": [token]}]
            part["logprobs"] += logprobs
            self._emit("response.output_text.delta", **place, delta=delta, logprobs=logprobs)
        return self

    def annotate(self, annotation: Event | None) -> Item:
        part, _, place = self._last("output_text")
        count = sum(e["type"] == "response.output_text.annotation.added" for e in self._stream.events)
        fields = {"annotation_index": count, "annotation": annotation}
        self._emit("response.output_text.annotation.added", **place, **fields)
        if annotation is not None:
            part["annotations"].append(annotation)
        return self

    def end_text(self, type: str) -> Item:
        part, field, place = self._last(type)
        logprobs = {"logprobs": part["logprobs"]} if part.get("logprobs") else {}
        self._emit(f"{self._stream.event_name(type)}.done", **place, **{field: part[field]}, **logprobs)
        return self

    def close(self, type: str) -> Item:
        """End the text and the part that were opened last."""
        self.end_text(type)
        part, _, place = self._last(type)
        self._emit(f"{_PART_EVENTS[_KINDS[type][2]][0]}.done", **place, part=part)
        return self

    def add_part(self, type: str, *deltas: str) -> Item:
        """Open a part, stream its text and close it."""
        return self.open(type).add_text(type, *deltas).close(type)

    def stream_in(self, *deltas: str) -> Item:
        """Stream the arguments of a function call, or the input of a custom tool."""
        event, field = self._flow()
        for delta in deltas:
            self.value[field] += delta
            self._emit(f"{event}.delta", delta=delta)
        return self

    def end_stream(self, **fields: Any) -> Item:
        event, field = self._flow()
        self._emit(f"{event}.done", **{field: self.value[field]}, **fields)
        return self

    def _flow(self) -> tuple[str, str]:
        if self.value["type"] == "function_call":
            return "response.function_call_arguments", "arguments"
        return "response.custom_tool_call_input", "input"

    def sub_event(self, type: str, **fields: Any) -> Item:
        """Add a sub-event of a tool."""
        self._emit(type, **fields)
        return self

    def done(self, status: str = "completed", **changes: Any) -> Item:
        self.value.update(status=status, **changes)
        self._stream.emit("response.output_item.done", output_index=self.index, item=self.value)
        return self


class Stream:
    """A response under construction. `events` are its events so far, numbered."""

    def __init__(self, *tools: Event, accent: str = "openresponses", queued: bool = False) -> None:
        self.accent = accent
        self.tools = [FUNCTION_TOOL, *tools]
        self.events: list[Event] = []
        self.items: list[Event] = []
        self.snapshot("response.created", "queued" if queued else "in_progress")

    def emit(self, type: str, **fields: Any) -> None:
        self.events.append({"type": type, "sequence_number": len(self.events), **copy.deepcopy(fields)})

    def snapshot(self, type: str, status: str, **changes: Any) -> Stream:
        self.emit(type, response=snapshot(status, self.items) | {"tools": self.tools} | changes)
        return self

    def event_name(self, part: str) -> str:
        if part == "reasoning_text" and self.accent == "openai":
            return "response.reasoning_text"
        return _KINDS[part][0]

    def wait(self) -> Stream:
        return self.snapshot("response.queued", "queued")

    def work(self) -> Stream:
        return self.snapshot("response.in_progress", "in_progress")

    def item(self, type: str, id: str, status: str = "in_progress", **fields: Any) -> Item:
        return Item(self, {"type": type, "id": id, "status": status, **copy.deepcopy(fields)})

    def message(self, id: str = "msg_1") -> Item:
        return self.item("message", id, role="assistant", content=[])

    def reasoning(self, id: str = "rs_1") -> Item:
        return self.item("reasoning", id, summary=[])

    def call(self, id: str = "fc_1", call_id: str = "call_1", name: str = "get_weather") -> Item:
        return self.item("function_call", id, call_id=call_id, name=name, arguments="")

    def custom(self, id: str = "ctc_1", call_id: str = "call_1", name: str = "apply_patch") -> Item:
        return self.item("custom_tool_call", id, call_id=call_id, name=name, input="")

    def complete(self) -> Stream:
        return self.snapshot("response.completed", "completed")

    def truncate(self) -> Stream:
        return self.snapshot("response.incomplete", "incomplete")

    def fail(self) -> Stream:
        return self.snapshot("response.failed", "failed")

    def error(self) -> Stream:
        message = {"type": "server_error", "code": "server_error", "message": "Gone.", "param": None}
        self.emit("error", error=message, code="server_error", message="Gone.", param=None)
        return self


def renumber(events: list[Event]) -> list[Event]:
    """Return the events with consecutive sequence numbers."""
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def frames(events: list[Event], *, done: bool = True) -> list[tuple[str | None, str]]:
    """Return the events as frames of server-sent events: name and data."""
    frames: list[tuple[str | None, str]] = [(event["type"], json.dumps(event)) for event in events]
    return [*frames, (None, "[DONE]")] if done else frames


# --- streams of every kind


def text() -> Stream:
    stream = Stream().work()
    stream.message().add_part("output_text", "Hel", "lo", " world").done()
    return stream.complete()


def log_probabilities() -> Stream:
    """The heartbeat in the middle contains those so far."""
    stream = Stream().work()
    words = stream.message().open("output_text").add_text_with_logprobs("Hel", "lo")
    stream.work()
    words.add_text("output_text", " world").close("output_text").done()
    return stream.complete()


def phases() -> Stream:
    stream = Stream().work()
    for number, phase in enumerate(("commentary", "final_answer")):
        message = stream.item("message", f"msg_{number}", role="assistant", content=[], phase=phase)
        message.add_part("output_text", "So").done()
    return stream.complete()


def two_parts() -> Stream:
    stream = Stream().work()
    stream.message().add_part("output_text", "So far").add_part("refusal", "but ", "no further").done()
    return stream.complete()


def refusal() -> Stream:
    stream = Stream().work()
    stream.message().add_part("refusal", "I ", "will not").done()
    return stream.complete()


def reasoning(accent: str = "openresponses") -> Stream:
    """Summary and content of one item, then an answer. Copilot gets only the summary."""
    stream = Stream(accent=accent).work()
    thought = stream.reasoning().add_part("summary_text", "Plan").add_part("summary_text", "Check", "ing")
    if accent != "copilot":
        thought.add_part("reasoning_text", "First, ", "then")
    thought.done(encrypted_content="gAAA")
    stream.message().add_part("output_text", "Done").done()
    return stream.complete()


def function_call() -> Stream:
    stream = Stream().work()
    stream.call().stream_in('{"city":', '"Oslo"}').end_stream(name="get_weather").done()
    return stream.complete()


def parallel_tool_calls() -> Stream:
    """Two open calls, with their arguments in turn."""
    stream = Stream().work()
    one, two = stream.call("fc_1", "call_1"), stream.call("fc_2", "call_2", "get_time")
    one.stream_in('{"city":"Oslo"}')
    two.stream_in('{"zone":"CET"}')
    one.end_stream()
    two.end_stream()
    one.done()
    two.done()
    return stream.complete()


def text_and_tool_call_interleaved() -> Stream:
    """The text continues while a call is open."""
    stream = Stream().work()
    words = stream.message().open("output_text").add_text("output_text", "Let me ")
    call = stream.call()
    words.add_text("output_text", "check that...")
    call.stream_in("{}")
    words.close("output_text")
    call.end_stream()
    words.done()
    call.done()
    return stream.complete()


def custom_tool() -> Stream:
    stream = Stream(CUSTOM_TOOL).work()
    stream.custom().stream_in("*** Begin", " Patch").end_stream().done()
    stream.custom("ctc_2", "call_2").end_stream().done()  # an empty input is lawful and needs no delta
    return stream.complete()


def annotated_text() -> Stream:
    stream = Stream().work()
    message = stream.message().open("output_text").add_text("output_text", "Hello")
    message.annotate(CITATION).annotate(None).add_text("output_text", " there").annotate(
        {**CITATION, "url": "b"}
    )
    message.close("output_text").done()
    return stream.complete()


def failed() -> Stream:
    stream = Stream().work()
    stream.message().add_part("output_text", "Half a sen").done("incomplete")
    return stream.error().fail()


def failed_at_once() -> Stream:
    return Stream().error().fail()


def truncated() -> Stream:
    """Truncated by length: a complete text, and two calls that end as incomplete together."""
    stream = Stream().work()
    stream.message().add_part("output_text", "Calling").done()
    one, two = stream.call("fc_1", "call_1"), stream.call("fc_2", "call_2")
    one.stream_in('{"ci')
    two.stream_in('{"')
    one.end_stream().done("incomplete")
    two.end_stream().done("incomplete")
    return stream.truncate()


def queued() -> Stream:
    stream = Stream(queued=True).wait().wait().work()
    stream.message().add_part("output_text", "Late").done()
    return stream.complete()


def heartbeats() -> Stream:
    """`response.in_progress` is repeated at every stage, with a current snapshot."""
    stream = Stream().work().work()
    thought = stream.reasoning().open("summary_text").add_text("summary_text", "Hm")
    stream.work()
    thought.close("summary_text").done()
    words = stream.message().open("output_text").add_text("output_text", "Let ")
    call = stream.call().stream_in('{"a":')
    stream.work()
    words.add_text("output_text", "me").close("output_text").done()
    call.stream_in("1}").end_stream().done()
    return stream.work().complete()


def nothing() -> Stream:
    """A prewarm: created and completed, without output."""
    return Stream().complete()


def declared_tools() -> Stream:
    """Items of tools that the client declared are lawful in every accent."""
    types = ("shell", "apply_patch", "tool_search", "web_search")
    stream = Stream(*({"type": type} for type in types)).work()
    shell = stream.item("shell_call", "sh_1", call_id="call_1", action={"commands": []})
    place = {"output_index": 0, "command_index": 0}
    stream.emit("response.shell_call_command.added", **place, command="")
    stream.emit("response.shell_call_command.delta", **place, delta="ls")
    stream.emit("response.shell_call_command.done", **place, command="ls")
    shell.done(action={"commands": ["ls"]})
    stream.item("shell_call_output", "sho_1", "completed", call_id="call_1", output=[]).done()
    patch = stream.item("apply_patch_call", "apc_1", call_id="call_2", operation={"diff": ""})
    patch.sub_event("response.apply_patch_call_operation_diff.delta", delta="+x").done(
        operation={"diff": "+x"}
    )
    search: Event = {"call_id": None, "execution": "client", "arguments": {}}
    stream.item("tool_search_call", "ts_1", "completed", **search).done()
    stream.item("openai:tool_search_call", "ts_2", "completed", **search, by="vendor").done()
    stream.item("openai:web_search_call", "ws_1", "completed").done()
    stream.item("apply_patch_call_output", "apo_1", "completed", call_id="call_2").done("failed")
    return stream.complete()


def slugged() -> Stream:
    stream = Stream().work()
    stream.emit("acme:trace", note="anything")
    stream.item("acme:search_call", "as_1", "searching", cached=True, hits=[0, 1]).done("found")
    stream.item("compaction", "cmp_1", "completed", encrypted_content="gAAA").done()
    return stream.complete()


def hosted() -> Stream:
    """Tools that the vendor runs, for clients of OpenAI's wire format."""
    stream = Stream(accent="openai").work()
    stream.emit("response.metadata", metadata={})
    search = stream.item("web_search_call", "ws_1", action={})
    search.sub_event("response.web_search_call.searching").sub_event(
        "response.web_search_call.completed"
    ).done()
    stream.item("image_generation_call", "ig_1", "completed", result="iVBO").done()
    words = stream.message().open("output_text").add_text("output_text", "See")
    words.annotate({"type": "file_citation", "file_id": "f_1", "index": 1}).close("output_text").done()
    return stream.complete()


def unknown(accent: str = "openai") -> Stream:
    """Unknown events and items, for clients that ignore them."""
    stream = Stream(accent=accent).work()
    stream.emit("ping", cost="0")
    stream.emit("response.rate_limits.updated", rate_limits=[])
    stream.item("teleport_call", "tp_1", call_id="call_1").done()
    stream.item("teleport_call_output", "tpo_1", "completed", call_id="call_1").done("failed")
    return stream.complete()


def computer_calls() -> Stream:
    stream = Stream({"type": "computer_use_preview"}, accent="openai").work()
    stream.item("computer_call", "cu_1", call_id="call_1", action={"type": "screenshot"}).done()
    stream.item("computer_call", "cu_2", call_id="call_2", action={"type": "wait"}).done()
    return stream.complete()


STREAMS: dict[str, Callable[[], Stream]] = {
    "text": text,
    "log probabilities": log_probabilities,
    "phases": phases,
    "two parts": two_parts,
    "refusal": refusal,
    "reasoning": reasoning,
    "reasoning, openai": lambda: reasoning("openai"),
    "reasoning, copilot": lambda: reasoning("copilot"),
    "function call": function_call,
    "parallel tool calls": parallel_tool_calls,
    "text and tool call interleaved": text_and_tool_call_interleaved,
    "custom tool": custom_tool,
    "annotated text": annotated_text,
    "failed": failed,
    "failed at once": failed_at_once,
    "truncated": truncated,
    "queued": queued,
    "heartbeats": heartbeats,
    "nothing": nothing,
    "declared tools": declared_tools,
    "slugged": slugged,
    "hosted": hosted,
    "unknown": unknown,
    "unknown, copilot": lambda: unknown("copilot"),
    "computer calls": computer_calls,
}
