"""Read a stream of `generateContent`: each frame is a complete response with the next parts.

The stream has no end marker: it is complete if a finish reason was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.envelope import sealed_reasoning
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.gemini.common_chunks import CommonGeminiChunk, read_common
from penstock.dialects.gemini.finishes import blocked, finish, name_of
from penstock.dialects.gemini.grounding import Grounding
from penstock.dialects.gemini.partial_args import PartialArguments
from penstock.dialects.gemini.server_tools import GeminiServerTools, image
from penstock.dialects.plan import Plan
from penstock.lenient import camel_field, count_of, object_of, objects_of, text_of
from penstock.protocol.content import LogProb, TopLogProb
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ItemDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)

COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)
TIERS = {
    # `serviceTier` of the Gemini API in its two spellings, `trafficType` of Vertex
    "standard": "default",
    "flex": "flex",
    "priority": "priority",
    "on_demand_flex": "flex",
    "on_demand_priority": "priority",
}


class StreamedCall(Struct):
    """A call whose arguments arrive in pieces (quirk G5)."""

    key: int
    id: str
    arguments: PartialArguments


class GeminiPart(Struct):
    """A part that is not text."""

    name: str
    value: dict[str, Any]
    signature: str
    is_thought: bool


class GeminiReader:
    """Read one answer."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._keys = count()
        self._streamed: StreamedCall | None = None
        self._thought: list[str] = []
        """The text of the thought that is being received."""
        self._seals_results = False
        self._prompt: int | None = None
        self._tool_use: int | None = None
        self._candidates: int | None = None
        self._thoughts: int | None = None
        self._cached: int | None = None
        self._info = UpstreamInfo()
        self._last_info: tuple[str, str, str] | None = None
        self._grounding = Grounding()
        self._server_tools = GeminiServerTools(self._keys)
        self._received = self._failed = self._saw_done = False
        self._finish: FinishReason | None = None

    @property
    def is_over(self) -> bool:
        return self._saw_done or self._failed

    def feed(self, frame: Frame) -> list[Delta]:
        self._received = True
        common = read_common(frame.data)
        if common is not None:
            return self._read_common(common)
        if frame.data.strip() == DONE:
            self._saw_done = True
            return []
        chunk = read_object(frame)
        deltas: list[Delta] = [chunk] if isinstance(chunk, ErrorDelta) else self._chunk(chunk)
        for delta in deltas:
            if isinstance(delta, FinishDelta):
                self._finish = delta.reason
            elif isinstance(delta, ErrorDelta):
                self._failed = True
        return deltas

    def end(self) -> list[Delta]:
        if self._failed:
            return []
        if not self._received:
            return [ErrorDelta("upstream_empty", "the upstream's answer is empty")]
        if self._finish is None and not self._saw_done:
            error = ErrorDelta("upstream_truncated", "the upstream's answer ended before it was complete")
            return [*self._grounding.citations(), error]
        deltas = self._end_call() if self._finish in (None, FinishReason.STOP) else []
        deltas += self._grounding.finish()
        return deltas if self._finish else [*deltas, FinishDelta(FinishReason.STOP)]

    def _read_common(self, chunk: CommonGeminiChunk) -> list[Delta]:
        """Return what `_chunk` returns for this chunk. It leaves out the steps that would find nothing."""
        usage = chunk.usage_metadata
        tier = (usage.service_tier or usage.traffic_type or "") if usage is not None else ""
        deltas = self._read_info(chunk.response_id or "", chunk.model_version or "", tier)
        if usage is not None:
            deltas += self._count(
                usage.prompt_token_count,
                usage.tool_use_prompt_token_count,
                usage.candidates_token_count,
                usage.thoughts_token_count,
                usage.cached_content_token_count,
            )
        for part in chunk.candidates[0].content.parts:
            if not part.thought:
                self._thought = []
            if part.text:
                deltas += self._text(part.text, "", is_thought=part.thought is True)
        return deltas

    def _chunk(self, chunk: dict[str, Any]) -> list[Delta]:
        deltas = self._metadata(chunk)
        for position, candidate in enumerate(objects_of(chunk.get("candidates"))):
            index = count_of(candidate.get("index"))
            if (position if index is None else index) == 0:
                deltas += self._candidate(candidate)
            else:
                # quirk C33
                deltas.append(DiagnosticDelta("extra_candidate", "only the first candidate is used"))
        feedback = object_of(camel_field(chunk, "promptFeedback"))
        reason = camel_field(feedback, "blockReason")
        if reason and reason != "BLOCK_REASON_UNSPECIFIED":
            deltas += blocked(str(reason), text_of(camel_field(feedback, "blockReasonMessage")))
        if chunk.get("error"):
            deltas.append(error_delta(chunk))
        return deltas

    # Metadata

    def _metadata(self, chunk: dict[str, Any]) -> list[Delta]:
        usage = object_of(camel_field(chunk, "usageMetadata"))
        tier = text_of(camel_field(usage, "serviceTier")) or text_of(camel_field(usage, "trafficType"))
        id, model = text_of(camel_field(chunk, "responseId")), text_of(camel_field(chunk, "modelVersion"))
        deltas = self._read_info(id, model, tier)
        if usage:
            deltas += self._count(*(count_of(camel_field(usage, name)) for name in COUNTS))
        return deltas

    def _read_info(self, id: str, model: str, tier: str) -> list[Delta]:
        raw_info = (id, model, tier)
        if raw_info == self._last_info:
            return []
        self._last_info = raw_info
        info = UpstreamInfo(
            id=id or self._info.id,
            model=model or self._info.model,
            service_tier=TIERS.get(tier.lower(), self._info.service_tier),
        )
        if info == self._info:
            return []
        self._info = info
        return [info]

    def _count(
        self,
        prompt: int | None,
        tool_use: int | None,
        candidates: int | None,
        thoughts: int | None,
        cached: int | None,
    ) -> list[Delta]:
        """Read cumulative counts, which are often missing. Candidates do not include thoughts (quirk G8)."""
        if prompt is tool_use is candidates is thoughts is cached is None:
            return []
        if prompt is not None:
            self._prompt = prompt
        if tool_use is not None:
            self._tool_use = tool_use
        if candidates is not None:
            self._candidates = candidates
        if thoughts is not None:
            self._thoughts = thoughts
        if cached is not None:
            self._cached = cached
        return [
            UsageDelta(
                _sum(self._prompt, self._tool_use),
                _sum(self._candidates, self._thoughts),
                self._cached,
                None,
                self._thoughts,
            )
        ]

    # Content

    def _candidate(self, candidate: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for part in objects_of(object_of(candidate.get("content")).get("parts")):
            deltas += self._part(part)
        if logprobs := _logprobs_of(candidate):
            _attach(logprobs, deltas)
        deltas += self._grounding.read(candidate)
        reason = name_of(camel_field(candidate, "finishReason"), self._target)
        if reason:
            end = finish(reason, text_of(camel_field(candidate, "finishMessage")))
            if FinishDelta(FinishReason.STOP) in end:
                deltas += self._end_call()
            deltas += self._grounding.finish() + end
        return deltas

    def _part(self, part: dict[str, Any]) -> list[Delta]:
        """Read a part: one kind of content. A signature belongs to the part it arrives on (quirk G6)."""
        text = text_of(part.get("text"))
        signature = text_of(camel_field(part, "thoughtSignature"))
        is_thought = part.get("thought") is True
        if not is_thought:
            self._thought = []
        if text:
            return self._text(text, signature, is_thought=is_thought)
        for name, read in _PARTS.items():
            value = camel_field(part, name)
            if isinstance(value, dict):
                return read(self, GeminiPart(name, value, signature, is_thought))
        if signature:
            return [self._signed_block("thought" if is_thought else "empty_text", signature)]
        unknown = sorted(name for name in part.keys() - _FIELDS if part[name] is not None)
        return [_left_out(f"a part with {', '.join(unknown)[:200]}")] if unknown else []

    def _text(self, text: str, signature: str, *, is_thought: bool) -> list[Delta]:
        deltas: list[Delta] = []
        if is_thought:
            self._grounding.text.interrupt()
            self._thought.append(text)
            deltas.append(SummaryDelta(text))
        else:
            self._grounding.text.add(text)
            deltas.append(TextDelta(text))
        if signature:
            deltas.append(self._signed_block("thought" if is_thought else "text", signature))
        return deltas

    def _signed_block(self, part: str, signature: str) -> Delta:
        """Return a signature after its text: it belongs to the message or the reasoning before it."""
        payload = {"thoughtSignature": signature, "part": part}
        if part == "thought":
            # A signature cannot be separated from its text, and clients lose text.
            payload["text"], self._thought = "".join(self._thought), []
        return sealed_reasoning(self._target, payload)

    def _signed(self, part: GeminiPart, key: int, **extra: Any) -> list[Delta]:
        """Return the signature of a call or another part that becomes an item; it precedes the item. After a
        signed part of a server tool, its results are sealed even without a signature."""
        is_server_tool = part.name in GeminiServerTools.PARTS
        self._seals_results = self._seals_results or (is_server_tool and bool(part.signature))
        if not part.signature and not (is_server_tool and self._seals_results):
            return []
        attached = "call" if part.name == "functionCall" else "item"
        payload = {"thoughtSignature": part.signature, "part": part.name, **extra}
        return [sealed_reasoning(self._target, payload, attached=attached, call=key)]

    # Calls

    def _function_call(self, part: GeminiPart) -> list[Delta]:
        call = part.value
        name, id = text_of(call.get("name")), text_of(call.get("id"))
        pieces = objects_of(camel_field(call, "partialArgs"))
        will_continue = camel_field(call, "willContinue") is True
        open_call = self._streamed
        if open_call is not None and (not name or (id and id == open_call.id)):
            # Too late to place the signature before its call.
            deltas = self._signed(part, open_call.key, after=True)
            return deltas + self._continue_call(open_call, call, pieces, will_continue=will_continue)
        deltas = self._end_call()
        if not (name or id or pieces or call.get("args")):
            return [*deltas, self._signed_block("empty_text", part.signature)] if part.signature else deltas
        self._grounding.text.interrupt()
        key = next(self._keys)
        deltas += self._signed(part, key)
        if not will_continue and not pieces:
            return [*deltas, ToolCallDelta(key, id, name, arguments=_arguments(call), whole=True)]
        self._streamed = StreamedCall(key, id, PartialArguments())
        deltas.append(ToolCallDelta(key, id, name))
        return deltas + self._continue_call(self._streamed, call, pieces, will_continue=will_continue)

    def _continue_call(
        self,
        streamed: StreamedCall,
        call: dict[str, Any],
        pieces: list[dict[str, Any]],
        *,
        will_continue: bool,
    ) -> list[Delta]:
        text = "".join(streamed.arguments.add(piece) for piece in pieces)
        deltas: list[Delta] = [ToolCallDelta(streamed.key, arguments=text)] if text else []
        if call.get("args"):
            deltas.append(ToolCallDelta(streamed.key, arguments=_arguments(call), whole=True))
            self._streamed = None
        elif not will_continue:
            deltas += self._end_call()
        return deltas

    def _end_call(self) -> list[Delta]:
        streamed, self._streamed = self._streamed, None
        if streamed is None:
            return []
        text = streamed.arguments.close()
        deltas: list[Delta] = [ToolCallDelta(streamed.key, arguments=text)] if text else []
        deltas.append(ToolCallDelta(streamed.key, whole=True))
        if streamed.arguments.rewritten:
            names = ", ".join(map(str, streamed.arguments.rewritten))[:200]
            deltas.append(
                DiagnosticDelta(
                    "arguments_out_of_order",
                    f"arguments arrived out of order and were sent twice; the last value is used: {names}",
                )
            )
        return deltas + [
            _left_out(f"an argument at the path {path}") for path in streamed.arguments.invalid_paths
        ]

    # Parts from the vendor's own tools

    def _item(self, part: GeminiPart) -> list[Delta]:
        """Read a server tool's part. If signed, the whole part is sealed, so that it can be sent back."""
        self._grounding.text.interrupt()
        deltas = self._server_tools.read(part.name, part.value)
        for delta in deltas:
            if isinstance(delta, ItemDelta):
                self._grounding.called_types.add(delta.item.type)
        return self._signed(part, next(self._keys), value=part.value) + deltas

    def _inline_data(self, part: GeminiPart) -> list[Delta]:
        self._grounding.text.interrupt()
        key = next(self._keys)
        item = None if part.is_thought else image(part.value)
        kind = text_of(camel_field(part.value, "mimeType")) or "unknown"
        delta: Delta = ItemDelta(key, item, done=True) if item else _left_out(f"data of type {kind[:100]}")
        return [*self._signed(part, key), delta]

    def _file_data(self, part: GeminiPart) -> list[Delta]:
        left_out = _left_out(f"the file {text_of(camel_field(part.value, 'fileUri'))[:200]}")
        return [*self._signed(part, next(self._keys), value=part.value), left_out]


_PARTS: dict[str, Callable[[GeminiReader, GeminiPart], list[Delta]]] = {
    "functionCall": GeminiReader._function_call,
    "inlineData": GeminiReader._inline_data,
    "fileData": GeminiReader._file_data,
    **dict.fromkeys(GeminiServerTools.PARTS, GeminiReader._item),
}
"""The handlers for all parts except text."""

_FIELDS = {"text", "thought", "thoughtSignature", "thought_signature", "videoMetadata", "partMetadata"}
"""Fields that are not content by themselves."""


def _attach(logprobs: list[LogProb], deltas: list[Delta]) -> None:
    """Attach the logprobs of a frame to its last text: Gemini does not send them per part."""
    for index in reversed(range(len(deltas))):
        delta = deltas[index]
        if isinstance(delta, TextDelta):
            deltas[index] = replace(delta, logprobs=logprobs)
            return


def _arguments(call: dict[str, Any]) -> Any:
    """Return an object unchanged (quirk G1), None if missing (quirk G4), anything else as JSON text."""
    arguments = call.get("args")
    if arguments is None or isinstance(arguments, dict | str):
        return arguments
    return msgspec.json.encode(arguments).decode()


def _sum(first: int | None, second: int | None) -> int | None:
    return first if second is None else (first or 0) + second


def _left_out(what: str) -> Delta:
    return DiagnosticDelta("left_out", f"{what} was left out")


def _logprobs_of(candidate: dict[str, Any]) -> list[LogProb]:
    """Return the chosen tokens with their log probabilities and alternatives, in OpenAI's format."""
    result = object_of(camel_field(candidate, "logprobsResult"))
    chosen = objects_of(camel_field(result, "chosenCandidates"))
    alternatives = objects_of(camel_field(result, "topCandidates"))
    alternatives += [{}] * (len(chosen) - len(alternatives))
    return [
        {
            **_logprob(token),
            "top_logprobs": [_logprob(each) for each in objects_of(options.get("candidates"))],
        }
        for token, options in zip(chosen, alternatives, strict=False)
    ]


def _logprob(raw: dict[str, Any]) -> TopLogProb:
    """Return one token. A missing log probability is 0, as always in protobuf's JSON."""
    token, logprob = text_of(raw.get("token")), camel_field(raw, "logProbability")
    is_number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
    return {"token": token, "logprob": float(logprob) if is_number else 0.0, "bytes": list(token.encode())}
