"""The table of rules for a lawful stream: what must hold, why, and which clients break if it does not.

`docs/rules.md` is generated from this table (`as_markdown`). Ids are stable: they appear in reports and
tests. A rule with `tolerant=False` is not reported when a vendor's stream is checked in tolerant mode,
because the tested clients cope with the fault; our own streams obey every rule.
"""

from __future__ import annotations

import re

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One rule of a lawful stream."""

    id: str
    title: str
    """What must hold, in one line."""
    explanation: str
    """Why, with the statement or decision behind it."""
    breaks: str = ""
    """Which real clients break, and how; empty if none is known."""
    tolerant: bool = True
    """Whether tolerant mode enforces it too."""


class Violation(Struct, frozen=True):
    """One rule broken by one event."""

    rule: str
    sequence: int
    """The event's position in the stream, from 0; for a violation found at the end, the number of events."""
    message: str


_TABLE = (
    # --- transport
    Rule(
        "transport.json",
        "The data of a frame is one JSON object.",
        "Spec N5, invariant 1. It is not plain text, not another JSON value, and not several objects.",
        "Codex skips the line and loses its content.",
    ),
    Rule(
        "transport.one-line",
        "The JSON of a frame is on one line.",
        "Invariant 1. An object spread over several `data:` lines is valid in server-sent events, but not "
        "every parser reads it. Tolerated from vendors.",
        "The official compliance suite cannot read a pretty-printed stream.",
        tolerant=False,
    ),
    Rule(
        "transport.event-name",
        "The `event:` field of a frame equals the `type` of its data.",
        "Spec N7. A client may dispatch on either of the two. If they differ, two clients see different "
        "events.",
    ),
    Rule(
        "transport.event-name-missing",
        "An SSE frame has an `event:` field.",
        "Spec N7. OpenRouter and Bedrock omit it (quirk R8), and every tested client reads `type` instead, "
        "so this is tolerated from vendors.",
        tolerant=False,
    ),
    Rule(
        "transport.done-missing",
        "An SSE stream ends with `[DONE]`.",
        "Spec N6. OpenAI itself never sends it (quirk R1), so its absence is tolerated from vendors. On "
        "NDJSON it is optional.",
        tolerant=False,
    ),
    Rule(
        "transport.done-twice",
        "`[DONE]` is sent once.",
        "Spec N6: it is the last frame of the stream.",
        tolerant=False,
    ),
    Rule(
        "transport.done-forbidden",
        "`[DONE]` is never sent on a WebSocket.",
        "Decision 2: a socket outlives the turn, and every frame on it is JSON.",
        "Three WebSocket tests of the compliance suite fail.",
    ),
    Rule(
        "transport.after-done",
        "Nothing follows `[DONE]`.",
        "Spec N6. In tolerant mode unknown events (pings) may follow.",
    ),
    Rule(
        "transport.error-envelope",
        "On a WebSocket a failure before `response.created` is sent as one error envelope; a failure after "
        "it, as `response.failed`.",
        "Spec N26 and decision 9: never both. The envelope has an integer `status`, and an `error` with a "
        "`code` and a `message`; it has no sequence number and ends the turn.",
        "The compliance suite fails if an envelope is sent in addition to `response.failed`.",
    ),
    # --- sequence
    Rule(
        "sequence.number",
        "Every event has a `sequence_number`, an integer.",
        "Spec N66; a required field of all events. Older OpenAI streams and pings have none (quirk R8).",
        "Only ten of the compliance suite's seventeen tests pass. Other clients are not affected.",
        tolerant=False,
    ),
    Rule(
        "sequence.start",
        "The first sequence number is 0.",
        "Decision 2. A resumed stream (`starting_after`, quirk R9) starts higher, which tolerant mode "
        "allows.",
        tolerant=False,
    ),
    Rule(
        "sequence.step",
        "Sequence numbers increase by exactly 1.",
        "Spec N66, decision 2, invariant 2. A gap means that an event was lost, a repetition that it was "
        "sent twice. Tolerant mode checks only events that have a number.",
        "openai-python resumes a stream by skipping numbers that it has seen, so it repeats or loses events.",
    ),
    # --- event
    Rule(
        "event.type",
        "Every event has a `type`, a non-empty string.",
        "Spec N66. Without a type, a client cannot interpret the event.",
    ),
    Rule(
        "event.fields",
        "An event has its position fields and its payload, with the right types.",
        "Spec N31: `item_id`, `output_index`, `content_index` or `summary_index`, and `delta`, `text`, "
        "`arguments`, `item`, `part` or `response`, as the schema of the event lists them.",
        "Without the indices, openai-python's stream helper raises TypeError, and the type validation of the "
        "AI SDK fails.",
    ),
    Rule(
        "event.logprobs",
        "`logprobs` on a text event is a list of log probabilities, or absent.",
        "The schema does not allow null. openai-python declares the list as required, so we always send one.",
        "With `logprobs: null`, twelve of the seventeen compliance tests fail.",
        tolerant=False,
    ),
    # --- delta
    Rule(
        "delta.empty",
        "A delta is not empty.",
        "An empty delta is a useless event, unless it has log probabilities. Harmless, so tolerated from "
        "vendors.",
        tolerant=False,
    ),
    # --- name
    Rule(
        "name.event",
        "In the `openresponses` accent an event type is in the specification, has a vendor prefix, or "
        "belongs to a declared tool.",
        "Spec N58, spec N65, decision 1. Clients of OpenAI's wire format ignore unknown events (pings, rate "
        "limits), so the other accents allow any. Unknown events from vendors are ignored.",
        "The compliance suite validates every event against a closed union.",
        tolerant=False,
    ),
    Rule(
        "name.item",
        "In the `openresponses` accent an item type is in the specification, has a vendor prefix, or is that "
        "of a declared tool.",
        "Spec N35, spec N58, spec N62, decision 1. Items of hosted tools, and new item types, are sent "
        "without a prefix only to clients of OpenAI's wire format. Of these, openai-agents fails on an "
        "unknown item type.",
        "The compliance suite validates every item against a closed union.",
        tolerant=False,
    ),
    Rule(
        "name.accent",
        "Reasoning and annotation events have the names of the client's accent.",
        "Decision 1: `response.reasoning.*` in the specification, `response.reasoning_text.*` in "
        "OpenAI's wire format, only summaries for Copilot. From vendors every spelling is accepted.",
        "Codex, openai-python and the AI SDK do not read reasoning under the specification's name; the "
        "compliance suite rejects OpenAI's name; Copilot Chat reads neither.",
        tolerant=False,
    ),
    Rule(
        "name.annotation",
        "In the `openresponses` accent an annotation is a `url_citation`, or has a vendor prefix.",
        "The schema's union of annotations has only this member (decision 1).",
        "The compliance suite rejects any other annotation.",
        tolerant=False,
    ),
    # --- lifecycle
    Rule(
        "lifecycle.created-first",
        "The first event is `response.created`.",
        "Decision 2, invariant 3. Tolerant mode also accepts a resumed stream (quirk R9), which starts with "
        "`response.queued` or `response.in_progress` or with a sequence number above 0, and pings before the "
        "first event.",
        "openai-python's stream helper raises RuntimeError.",
    ),
    Rule(
        "lifecycle.created-once",
        "`response.created` is sent once.",
        "Decision 2. A response cannot be created again; that would invalidate its earlier events.",
    ),
    Rule(
        "lifecycle.started",
        "`response.in_progress` is sent before any output.",
        "Invariant 3, and spec N43 for a queued response. No tested client needs it.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.queued-late",
        "A response that is in progress does not return to the queue.",
        "Spec N43: the only transition is from queued to in progress. `response.queued` may repeat while "
        "queued, and `response.in_progress` may repeat until the end, as a heartbeat (decision 10).",
    ),
    Rule(
        "lifecycle.response-id",
        "Every snapshot has the same response id, a non-empty string.",
        "Invariant 3. GitHub Copilot's endpoint changes it with every event (quirk R2).",
    ),
    Rule(
        "lifecycle.response-id-length",
        "The response id has at most 64 characters.",
        "Decision 3: clients send it back as `previous_response_id`. Vendors' ids are replaced by ours.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.status",
        "The status of a snapshot matches its event.",
        "Spec N43, invariant 4: `queued` or `in_progress` when created, then the status in the event's name.",
    ),
    Rule(
        "lifecycle.created-at",
        "`created_at` stays the same in every snapshot.",
        "A response is created once. No client is known to compare it.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.model",
        "Every snapshot names a model.",
        "The schema requires a string; an empty one is useless.",
        tolerant=False,
    ),
    # --- terminal
    Rule(
        "terminal.missing",
        "A stream ends with `response.completed`, `.failed` or `.incomplete`.",
        "Invariant 4, even if the upstream was cut off or sent nothing.",
        "openai-python's helper and openai-agents raise; the AI SDK stops silently with a partial response; "
        "Codex sends the whole request six times in total.",
    ),
    Rule(
        "terminal.twice",
        "There is only one terminal event.",
        "Invariant 4. The tested clients cope with a repeated terminal event; but if two terminal events "
        "differ, it is unclear which one is right.",
    ),
    Rule(
        "terminal.after",
        "Only `[DONE]` follows the terminal event.",
        "Invariant 4. In tolerant mode unknown events (pings, quirk R8) may follow.",
    ),
    Rule(
        "terminal.error-alone",
        "An `error` event is followed immediately by `response.failed`.",
        "Spec N40, decision 9, quirk R12. It is the second-to-last event.",
        "Codex ignores `error`: without `response.failed` it retries and the message is lost.",
    ),
    Rule(
        "terminal.error-payload",
        "An `error` event has `error` with `type`, `code`, `message` and `param`, and in an SSE stream also "
        "flat copies of the last three.",
        "Spec N39 and the event's schema for the nested form, decision 9 for the flat form, which OpenAI's "
        "libraries declare. Either form alone is tolerated from vendors.",
        "openai-python's helper and openai-agents raise if the flat message is missing.",
        tolerant=False,
    ),
    Rule(
        "terminal.error-differs",
        "An error is the same everywhere: the flat copies equal the nested fields, and the `response.failed` "
        "that follows has the same code.",
        "Decision 9. Clients read one of the three and act on the code. The messages of the two events may "
        "differ.",
        tolerant=False,
    ),
    Rule(
        "terminal.failed-error",
        "`response.failed` has `error` with a `code` and a `message`, both strings.",
        "Invariant 16, spec N43.",
        "Codex decides by the code whether to retry: without a code it sends the request again.",
    ),
    Rule(
        "terminal.incomplete-reason",
        "`response.incomplete` has `incomplete_details.reason`.",
        "The schema of the snapshot requires it; decision 5 and decision 6 list the reasons.",
    ),
    Rule(
        "terminal.completed-at",
        "`completed_at` is an integer in `response.completed`, at least `created_at`, and null before the "
        "end.",
        "According to the schema, it is set if the response was completed. Streams from 2025 lack the field.",
        tolerant=False,
    ),
    Rule(
        "terminal.output",
        "The terminal snapshot's `output` contains exactly the items of the stream, in order.",
        "Invariant 8. OpenAI's OAuth endpoint sends an empty list (quirk R3).",
        "openai-python's helper, and every client that reads the final response, find no tool call and no "
        "text.",
    ),
    Rule(
        "terminal.output-differs",
        "An item in the terminal snapshot equals the item as it was closed.",
        "Spec N29, invariant 7 and invariant 8. Tolerant mode compares only what a client acts on (type, "
        "name, call id, arguments, texts), not `encrypted_content` (quirk R4).",
    ),
    Rule(
        "terminal.incomplete-item",
        "A completed response has only completed items.",
        "Spec N28, decision 5: a response with an incomplete item is not completed.",
    ),
    # --- usage
    Rule(
        "usage.shape",
        "`usage` has three counts and both details objects, all non-negative integers.",
        "Decision 11 and the schema. In tolerant mode the details may be absent, but not incomplete.",
        "Codex cannot read the terminal event: it retries the turn, which fails.",
    ),
    Rule(
        "usage.sum",
        "Total is input plus output, cached is at most input, reasoning is at most output.",
        "Decision 11, invariant 14.",
    ),
    # --- item
    Rule(
        "item.null",
        "The `item` of an item event is an object.",
        "Spec N30. The schema allows null, but then the event is useless.",
    ),
    Rule(
        "item.added-missing",
        "The first event of an item is `response.output_item.added`.",
        "Spec N30.",
        "openai-python's helper, LangChain and the AI SDK raise; the AI SDK has already run the tool by "
        "then.",
    ),
    Rule(
        "item.added-twice",
        "`response.output_item.added` is sent once per item.",
        "Decision 2, invariant 5, ask B4.",
        "openai-python's helper raises; LangChain continues without running the tool.",
    ),
    Rule(
        "item.done-missing",
        "Every item is closed by `response.output_item.done` before the terminal event.",
        "Spec N34, invariant 5. Some streams leave items of hosted tools open (quirk R7).",
        "Codex runs nothing and ends without a message; the AI SDK stops silently.",
    ),
    Rule(
        "item.done-twice",
        "`response.output_item.done` is sent once per item.",
        "Invariant 5.",
        "Codex and the AI SDK run the tool twice; Codex shows a message twice.",
    ),
    Rule(
        "item.closed",
        "No event of an item follows its `response.output_item.done`.",
        "Spec N29, invariant 6.",
    ),
    Rule(
        "item.index-order",
        "`output_index` counts the items from 0, in the order in which they are added.",
        "Invariant 5.",
        "openai-python's helper raises if an index is repeated.",
    ),
    Rule(
        "item.index-changed",
        "Every event of an item has the item's `output_index`.",
        "Invariant 5.",
    ),
    Rule(
        "item.id",
        "An item has an id, a non-empty string.",
        "Spec N60, spec N31.",
        "pydantic-ai continues without running the tool; the type validation of the AI SDK fails.",
    ),
    Rule(
        "item.id-length",
        "Item ids have at most 64 characters.",
        "Decision 3: clients send ids back as input. Vendors' ids are replaced by ours.",
        tolerant=False,
    ),
    Rule(
        "item.id-reused",
        "Item ids are unique in the response, and none is the id of the response.",
        "Spec N61, invariant 5. Clients send them back as references to items and to responses.",
    ),
    Rule(
        "item.id-changed",
        "An item has the same id when added, in every `item_id`, when done and in the terminal snapshot.",
        "Invariant 5. GitHub Copilot's endpoint changes ids with every event (quirk R2).",
        "openai-python's helper and pydantic-ai raise; the AI SDK raises after it has run the tool.",
    ),
    Rule(
        "item.id-is-call-id",
        "`item_id` is the id of the item, not its call id.",
        "Ask B4: a gateway sent the start of a call under the item id, and its end under the call id.",
        "As for `item.id-changed`: openai-python's helper, pydantic-ai and the AI SDK raise.",
    ),
    Rule(
        "item.changed",
        "Type, role, name, call id, namespace and phase of an item do not change after it is added.",
        "Decision 4, invariant 9. This includes the name that is repeated at the end of the arguments.",
    ),
    Rule(
        "item.fields",
        "An item has the fields that its type requires, and no null that the schema does not allow.",
        "Spec N31, spec N60: `type` and `status` on every item; `content` and `summary` are lists; "
        "`encrypted_content`, `content` and `phase` are omitted rather than null. The id has rules of "
        "its own. Vendors omit fields.",
        "The compliance suite fails; @ai-sdk/openai rejects items without a status.",
        tolerant=False,
    ),
    Rule(
        "item.role",
        "A message in the output has the role `assistant`.",
        "The model writes the output.",
    ),
    Rule(
        "item.added-status",
        "A streamed item is `in_progress` when it is added.",
        "Spec N60. Items that are not streamed (outputs, hosted tools) may be added as completed. "
        "Vendors omit the status, or add complete calls.",
        tolerant=False,
    ),
    Rule(
        "item.done-status",
        "An item is `completed` or `incomplete` when it is done.",
        "Spec N60, spec N29. Tools may also be `failed`, and extensions may have their own statuses (spec "
        "N63), but a done item is never `in_progress`. Azure and others close hosted tools as `searching` "
        "(quirk R7), and no client is known to break.",
        tolerant=False,
    ),
    Rule(
        "item.prefilled",
        "An item is added empty: its content, summary, arguments or input are sent as deltas.",
        "Decision 4. Content in `added` that is repeated in deltas would count twice. Tolerant mode reports "
        "it only if deltas follow.",
    ),
    Rule(
        "item.event-kind",
        "An event matches the type of its item.",
        "Invariant 6: text belongs to messages, reasoning to reasoning items, arguments to function calls, "
        "input to custom tool calls.",
    ),
    Rule(
        "item.after-incomplete",
        "No item is added after an item has ended with status `incomplete`.",
        "Spec N27 as decision 5 interprets it. Several items may end with that status together.",
        tolerant=False,
    ),
    Rule(
        "item.content-differs",
        "A done item has exactly the content and the summary that were streamed.",
        "Spec N32, invariant 7: the same parts, with the same texts, and nothing that was never streamed.",
        "Clients that read deltas and clients that read the item differ: LangChain, pydantic-ai and the AI "
        "SDK miss a text without deltas.",
    ),
    # --- call
    Rule(
        "call.id",
        "A tool call has a call id, a non-empty string.",
        "Invariant 9. A search that the server runs itself may have none.",
        "Codex drops the call silently; LangChain and the AI SDK raise.",
    ),
    Rule(
        "call.id-length",
        "Call ids have at most 64 characters.",
        "Decision 7: clients send call ids back as input, where the schema allows no more.",
        tolerant=False,
    ),
    Rule(
        "call.id-is-item-id",
        "The call id of an item is not its own id.",
        "Decision 3 and decision 7: the item id is ours, the call id the upstream's. If they are equal, code "
        "that confuses the two (ask B4) goes unnoticed. No client is known to break.",
        tolerant=False,
    ),
    Rule(
        "call.duplicate",
        "A call id belongs to one item of the response.",
        "Ask B4: a gateway announced one call twice, under two item ids. Invariant 9. This applies to "
        "every item that a client acts on, including `computer_call`.",
        "Codex and the AI SDK run the tool twice; openai-python's helper and pydantic-ai raise; the next "
        "request has two calls with the same id, which strict upstreams reject.",
    ),
    Rule(
        "call.name",
        "A call of a function or custom tool has a name, a non-empty string.",
        "Spec N30: an item has its name when it is added.",
    ),
    # --- part
    Rule(
        "part.added-missing",
        "Text is streamed into a part that was opened by its `.added` event.",
        "Spec N32, spec N33. Vendors send raw reasoning without it (quirk R10), which tolerant mode allows.",
        "openai-python's helper raises IndexError.",
    ),
    Rule(
        "part.added-twice",
        "A part is opened once.",
        "Spec N33, invariant 6.",
    ),
    Rule(
        "part.index",
        "`content_index` and `summary_index` count the parts of an item from 0, in order.",
        "Invariant 6.",
    ),
    Rule(
        "part.type",
        "All events of a part have the type with which it was opened, and its item can contain that type.",
        "Spec N33, invariant 6: `output_text` and `refusal` in messages, `reasoning_text` and `summary_text` "
        "in reasoning items.",
    ),
    Rule(
        "part.fields",
        "A part has the fields that its type requires, and no null that the schema does not allow.",
        "According to the schema, `annotations` of an `output_text` part is a list, and `logprobs` is a list "
        "or absent. Vendors omit annotations.",
        "With null `logprobs` or without `annotations`, twelve of the seventeen compliance tests fail.",
        tolerant=False,
    ),
    Rule(
        "part.prefilled",
        "A part is opened empty.",
        "Spec N33: content in `added` (text, annotations, log probabilities) would count twice if it is "
        "repeated in deltas, and be missed if it is not.",
    ),
    Rule(
        "part.closed",
        "No delta follows the end of its text, and no event follows the end of its part; neither ends twice.",
        "Spec N33, invariant 6.",
    ),
    Rule(
        "part.text-done-missing",
        "The text of a part ends with its own `.done` before the part ends.",
        "Spec N33. No tested client needs it.",
        tolerant=False,
    ),
    Rule(
        "part.done-missing",
        "Every part is closed before its item is done.",
        "Spec N33, invariant 6. No tested client needs it.",
        tolerant=False,
    ),
    Rule(
        "part.text-differs",
        "The text in `.done` equals the joined deltas.",
        "Invariant 7. This detects lost and repeated deltas.",
        "A repeated delta is repeated text in every client; a lost one is lost in LangChain and the AI SDK.",
    ),
    Rule(
        "part.done-differs",
        "The final text of a part is the text that was streamed.",
        "Invariant 7.",
    ),
    Rule(
        "part.logprobs",
        "The log probabilities at the end of a text, and in the closed part, are those of its deltas.",
        "Invariant 7; absent counts as empty. OpenAI sometimes closes the part without them.",
        tolerant=False,
    ),
    # --- annotation
    Rule(
        "annotation.index",
        "`annotation_index` counts the annotations of a part from 0, in order.",
        "Invariant 6. A null annotation counts. Every recording obeys this.",
    ),
    Rule(
        "annotation.differs",
        "The final annotations of a part are exactly those that were added.",
        "Invariant 7. A null annotation adds nothing. Every recording obeys this.",
    ),
    # --- arguments
    Rule(
        "arguments.no-delta",
        "Arguments, or the input of a custom tool, are sent in at least one delta.",
        "Spec N43, quirk R5: LM Studio sends only the `.done` event.",
        "LangChain reads arguments only from deltas: it continues without running the tool.",
    ),
    Rule(
        "arguments.closed",
        "No delta and no second `.done` follow the `.done` of arguments or input.",
        "Invariant 6.",
    ),
    Rule(
        "arguments.done-missing",
        "Arguments or input end with their own `.done` before the item is done.",
        "Spec N43, invariant 6. No tested client needs it.",
        tolerant=False,
    ),
    Rule(
        "arguments.differs",
        "The arguments or input in `.done` equal the joined deltas.",
        "Invariant 7.",
    ),
    Rule(
        "arguments.item-differs",
        "A done item has the arguments or the input that were streamed.",
        "Invariant 7, also for an incomplete call.",
        "Codex reads the item, LangChain the deltas: they call the tool with different arguments.",
    ),
    Rule(
        "arguments.json",
        "The arguments of a completed function call are JSON.",
        "Invariant 10: `{}` if there are none. Partial JSON means that the call is incomplete.",
        "Codex sends the model an error message instead of a result.",
    ),
    # --- snapshot
    Rule(
        "snapshot.missing",
        "A snapshot has all 31 fields that the schema requires.",
        "Spec N31, decision 3. This includes `response.created`. Vendors send fewer; the tested clients need "
        "only nine of them.",
        "Up to thirteen tests of the compliance suite fail.",
        tolerant=False,
    ),
    Rule(
        "snapshot.type",
        "The fields of a snapshot have the types of the schema, and no null that it does not allow.",
        "Spec N31, decision 3. `text.format.schema` is null in the `openresponses` accent and may be an "
        "object for clients of OpenAI's wire format. Function tools are echoed with all their fields, other "
        "tools unchanged.",
        "Up to thirteen tests of the compliance suite fail.",
        tolerant=False,
    ),
    Rule(
        "snapshot.outcome",
        "`error` is set only in `response.failed`, and `incomplete_details` only in `response.incomplete` "
        "and `response.failed`.",
        "Spec N43, invariant 4: both are null while a response is in progress and when it is completed. A "
        "failed response may also have `incomplete_details`.",
        "The AI SDK and pydantic-ai read the finish reason from `incomplete_details`, whatever the status: "
        "they treat a completed response as cut off.",
    ),
    Rule(
        "snapshot.output",
        "A snapshot before the end contains the items so far, with the content streamed so far.",
        "Invariant 17: the output is empty when created, and current in every heartbeat (decision 10). Not "
        "required of vendors: a resumed stream may start with a snapshot that already has items.",
        tolerant=False,
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _TABLE}

_HEAD = """\
# The rules of a lawful stream

Generated from the table in `src/penstock/stream/checker/rules.py` by `make docs`. The checker reports the id
of each rule that an event breaks.

*Strict* rules apply to the streams that Penstock sends. They are not reported when a vendor's stream is
checked in tolerant mode; all other rules are reported in both modes. *Breaks* lists the clients that a
violation affects. The reasons cite [decisions.md](decisions.md) and [requirements.md](requirements.md).

An [*accent*](gateway.md#event-naming-accents) is a set of event names: clients of different origin expect
different names. A *snapshot* is the `response` object in events such as `response.created` and
`response.completed`: the whole response so far.
"""

_CITATION = re.compile(r"\b(?:[Dd]ecision|[Ii]nvariant) \d+\b|\b(?:[Ss]pec|[Qq]uirk|[Aa]sk) [A-Z]\d+\b")


def as_markdown() -> str:
    """Return the page `docs/rules.md`."""
    lines = [_HEAD]
    group = ""
    for rule in RULES.values():
        prefix = rule.id.partition(".")[0]
        if prefix != group:
            group = prefix
            lines.append(f"## {prefix}\n")
        lines.append(f"### `{rule.id}`{'' if rule.tolerant else ' (strict)'}\n")
        lines.append(f"**{rule.title}** {_linked(rule.explanation)}\n")
        if rule.breaks:
            lines.append(f"*Breaks:* {rule.breaks}\n")
    return "\n".join(lines)


def _linked(text: str) -> str:
    """Return the text with a link from each citation to its entry in docs/."""
    return _CITATION.sub(_link, text)


def _link(citation: re.Match[str]) -> str:
    anchor = citation[0].lower().replace(" ", "-")
    page = "decisions.md" if anchor.startswith("decision") else "requirements.md"
    return f"[{citation[0]}]({page}#{anchor})"
