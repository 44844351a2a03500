"""The law of a stream, as a table: what must hold, why, and whom it hurts when it does not.

`docs/rules.md` is written from this table (`as_markdown`). Ids are stable: they appear in reports and tests.
A rule with `tolerant=False` is not reported when a vendor's stream is read in tolerant mode, because the
clients that were measured live with the fault; our own streams keep every rule.
"""

from __future__ import annotations

import re

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One thing that holds for every event of a lawful stream."""

    id: str
    title: str
    """What must hold, in one line."""
    explanation: str
    """Why, and the statement or decision behind it."""
    hurts: str = ""
    """Which real client is hurt, and how; empty when none is known."""
    tolerant: bool = True
    """Is it enforced in tolerant mode too?"""


class Violation(Struct, frozen=True):
    """One rule broken by one event."""

    rule: str
    sequence: int
    """The event's position in the stream, from 0; for what shows only at the end, the number of events."""
    message: str


_TABLE = (
    # --- transport
    Rule(
        "transport.json",
        "The data of a frame is one JSON object.",
        "Spec N5, invariant 1. Text that is no JSON, a JSON value that is no object, or several objects in "
        "one frame.",
        "Codex skips the line, and with it whatever it said.",
    ),
    Rule(
        "transport.one-line",
        "The JSON of a frame is on one line.",
        "Invariant 1. An object spread over several `data:` lines is legal in server-sent events, and "
        "read well by many parsers, but not by all. Tolerated from vendors.",
        "The official compliance suite cannot read a pretty-printed stream.",
        tolerant=False,
    ),
    Rule(
        "transport.event-name",
        "The `event:` field of a frame equals the `type` of its data.",
        "Spec N7. A reader may dispatch on either of the two, so where they differ two readers see two "
        "events.",
    ),
    Rule(
        "transport.event-name-missing",
        "A frame on SSE has an `event:` field.",
        "Spec N7. OpenRouter and Bedrock leave it out (quirk R8) and every client measured reads `type` "
        "instead, so it is tolerated from vendors.",
        tolerant=False,
    ),
    Rule(
        "transport.done-missing",
        "A stream on SSE ends with `[DONE]`.",
        "Spec N6. OpenAI itself never sends it (quirk R1), so it is tolerated from vendors. On NDJSON it is "
        "optional.",
        tolerant=False,
    ),
    Rule(
        "transport.done-twice",
        "`[DONE]` is sent once.",
        "Spec N6: it is the last thing sent, and two things cannot both be last.",
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
        "Spec N6. In tolerant mode events that no client knows (pings) may follow.",
    ),
    Rule(
        "transport.error-envelope",
        "On a WebSocket a failure before `response.created` is one error envelope; after it, "
        "`response.failed`.",
        "Spec N26 and decision 9: never both. The envelope has a whole-number `status`, and an `error` with "
        "a `code` and a `message`; it has no sequence number and ends the turn.",
        "The compliance suite fails when an envelope comes in addition to `response.failed`.",
    ),
    # --- sequence
    Rule(
        "sequence.number",
        "Every event has a `sequence_number`, a whole number.",
        "Spec N66, and a required field of all events. Older OpenAI streams and pings have none (quirk R8).",
        "Ten of the compliance suite's tests pass instead of seventeen. Other clients do not mind.",
        tolerant=False,
    ),
    Rule(
        "sequence.start",
        "The first sequence number is 0.",
        "Decision 2. A resumed stream (`starting_after`, quirk R9) starts later, which tolerant mode allows.",
        tolerant=False,
    ),
    Rule(
        "sequence.step",
        "Sequence numbers rise by exactly 1.",
        "Spec N66, decision 2, invariant 2. A gap means that an event was lost, a repetition that it was "
        "sent twice. Tolerant mode checks events that have a number.",
        "openai-python resumes a stream by skipping numbers that it has seen: it repeats or loses events.",
    ),
    # --- event
    Rule(
        "event.type",
        "Every event has a `type`, a non-empty string.",
        "Spec N66. Without it nobody can tell what the event says.",
    ),
    Rule(
        "event.fields",
        "An event has the fields that place it, and its payload, with the right types.",
        "Spec N31: `item_id`, `output_index`, `content_index` or `summary_index`, and `delta`, `text`, "
        "`arguments`, `item`, `part` or `response`, as the schema of the event lists them.",
        "Without the indices openai-python's stream helper raises TypeError and the AI SDK fails its type "
        "validation.",
    ),
    Rule(
        "event.logprobs",
        "`logprobs` on a text event is a list of log probabilities, or absent.",
        "The schema allows no null. openai-python declares the list as required, so we always send one.",
        "`logprobs: null` fails twelve of the seventeen compliance tests.",
        tolerant=False,
    ),
    # --- delta
    Rule(
        "delta.empty",
        "A delta is not empty.",
        "An empty delta says nothing and costs an event; one that carries log probabilities says "
        "something. Harmless, so tolerated from vendors.",
        tolerant=False,
    ),
    # --- name
    Rule(
        "name.event",
        "In the `openresponses` accent an event type is the specification's, carries a vendor's slug, or "
        "belongs to a declared tool.",
        "Spec N58, spec N65, decision 1. Clients of OpenAI's wire ignore events that they do not know "
        "(pings, rate limits), so the other accents allow any. Reading vendors, unknown events are ignored.",
        "The compliance suite validates every event against a closed union.",
        tolerant=False,
    ),
    Rule(
        "name.item",
        "In the `openresponses` accent an item type is the specification's, carries a vendor's slug, or is "
        "that of a declared tool.",
        "Spec N35, spec N58, spec N62, decision 1. Items of hosted tools, and new ones, go out bare only to "
        "clients that know OpenAI's wire. What each of those may receive is settled before the stream, since "
        "one of them, openai-agents, fails on an item type that it does not know.",
        "The compliance suite validates every item against a closed union.",
        tolerant=False,
    ),
    Rule(
        "name.accent",
        "Reasoning and annotations are spelled as the client's accent reads them.",
        "Decision 1: `response.reasoning.*` in the specification, `response.reasoning_text.*` on "
        "OpenAI's wire, summaries only for Copilot. Reading vendors, every spelling is accepted.",
        "Codex, openai-python and the AI SDK see no reasoning under the specification's name; the "
        "compliance suite rejects the other one; Copilot Chat reads neither.",
        tolerant=False,
    ),
    Rule(
        "name.annotation",
        "In the `openresponses` accent an annotation is a `url_citation`, or carries a vendor's slug.",
        "The schema's union of annotations has this one member (decision 1).",
        "The compliance suite rejects any other.",
        tolerant=False,
    ),
    # --- lifecycle
    Rule(
        "lifecycle.created-first",
        "The first event is `response.created`.",
        "Decision 2, invariant 3. Tolerant mode also takes a stream that was resumed (quirk R9): one that "
        "starts at `response.queued` or `response.in_progress`, or at a sequence number above 0; and "
        "pings before it.",
        "openai-python's stream helper raises RuntimeError.",
    ),
    Rule(
        "lifecycle.created-once",
        "`response.created` comes once.",
        "Decision 2. A response cannot be created again; what it said before would be void.",
    ),
    Rule(
        "lifecycle.started",
        "`response.in_progress` comes before any output.",
        "Invariant 3, and spec N43 for a response that was queued. No client measured needs it.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.queued-late",
        "A response that is in progress does not go back to the queue.",
        "Spec N43: the one way is from queued to in progress. `response.queued` may repeat while queued, and "
        "`response.in_progress` may repeat until the end, as a heartbeat (decision 10).",
    ),
    Rule(
        "lifecycle.response-id",
        "Every snapshot has the same response id, a non-empty string.",
        "Invariant 3. GitHub Copilot's endpoint rotates it (quirk R2).",
    ),
    Rule(
        "lifecycle.response-id-length",
        "The response id has at most 64 characters.",
        "Decision 3: it comes back as `previous_response_id`. Vendors' ids are replaced by ours.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.status",
        "The status of a snapshot agrees with its event.",
        "Spec N43, invariant 4: queued or in_progress when created, then what the event's name says.",
    ),
    Rule(
        "lifecycle.created-at",
        "`created_at` stays the same in every snapshot.",
        "A response is created at one moment. No client is known to compare.",
        tolerant=False,
    ),
    Rule(
        "lifecycle.model",
        "Every snapshot names a model.",
        "A required string of the schema; an empty one says nothing.",
        tolerant=False,
    ),
    # --- terminal
    Rule(
        "terminal.missing",
        "A stream ends with `response.completed`, `.failed` or `.incomplete`.",
        "Invariant 4, also when the upstream was cut or sent nothing.",
        "openai-python's helper and openai-agents raise; the AI SDK stops in silence with what it has; "
        "Codex sends the whole request again, six times in all.",
    ),
    Rule(
        "terminal.twice",
        "There is one terminal event.",
        "Invariant 4. The clients measured live with the same end told twice; of two different ends "
        "nobody can say which holds.",
    ),
    Rule(
        "terminal.after",
        "Nothing follows the terminal event but `[DONE]`.",
        "Invariant 4. In tolerant mode events that no client knows (pings, quirk R8) may follow.",
    ),
    Rule(
        "terminal.error-alone",
        "An `error` event is followed at once by `response.failed`.",
        "Spec N40, decision 9, quirk R12. It is the last event but one.",
        "Codex ignores `error`: without `response.failed` it retries and the message is lost.",
    ),
    Rule(
        "terminal.error-payload",
        "An `error` event carries `error` with `type`, `code`, `message` and `param`, and on SSE copies of "
        "the last three beside it.",
        "Spec N39 and the event's schema for the nested form, decision 9 for the flat one, which OpenAI's "
        "libraries declare. Either alone is tolerated from vendors.",
        "openai-python's helper and openai-agents raise without the message of a flat error.",
        tolerant=False,
    ),
    Rule(
        "terminal.error-differs",
        "An error is the same wherever it is told: the flat copies equal the nested fields, and the "
        "`response.failed` that follows has the same code.",
        "Decision 9. Clients read one of the three, and act on the code. The messages of the two events may "
        "be worded differently.",
        tolerant=False,
    ),
    Rule(
        "terminal.failed-error",
        "`response.failed` has `error` with a `code` and a `message`, both strings.",
        "Invariant 16, spec N43.",
        "Codex decides by the code whether to try again: without one it sends the request again.",
    ),
    Rule(
        "terminal.incomplete-reason",
        "`response.incomplete` has `incomplete_details.reason`.",
        "The schema of the snapshot; decision 5 and decision 6 name the reasons.",
    ),
    Rule(
        "terminal.completed-at",
        "`completed_at` is a whole number on `response.completed`, not before `created_at`, and null before "
        "the end.",
        "The schema: set if the response was completed. Streams of 2025 lack the field.",
        tolerant=False,
    ),
    Rule(
        "terminal.output",
        "The terminal snapshot's `output` holds every item of the stream, in order, and no other.",
        "Invariant 8. OpenAI's OAuth endpoint sends an empty list (quirk R3).",
        "openai-python's helper and every reader of the final response find no tool call, and no text.",
    ),
    Rule(
        "terminal.output-differs",
        "An item in the terminal snapshot equals the item as it was closed.",
        "Spec N29, invariant 7 and invariant 8. In tolerant mode what a client acts on is compared (type, "
        "name, call id, arguments, texts), not `encrypted_content` (quirk R4).",
    ),
    Rule(
        "terminal.incomplete-item",
        "A completed response has only completed items.",
        "Spec N28, decision 5: an item that ended incomplete means that its response is not completed.",
    ),
    # --- usage
    Rule(
        "usage.shape",
        "`usage` has three whole numbers and both details objects, none negative.",
        "Decision 11 and the schema. In tolerant mode the details may be absent, but not half there.",
        "Codex cannot read the terminal event: the turn is retried and fails.",
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
        "Spec N30. The schema lets it be null, and then the event says nothing.",
    ),
    Rule(
        "item.added-missing",
        "The first event of an item is `response.output_item.added`.",
        "Spec N30.",
        "openai-python's helper, LangChain and the AI SDK raise; the AI SDK has already run the tool.",
    ),
    Rule(
        "item.added-twice",
        "`response.output_item.added` comes once per item.",
        "Decision 2, invariant 5, ask B4.",
        "openai-python's helper raises; LangChain does not run the tool and goes on.",
    ),
    Rule(
        "item.done-missing",
        "Every item is closed by `response.output_item.done` before the terminal event.",
        "Spec N34, invariant 5. Some streams leave items of hosted tools open (quirk R7).",
        "Codex runs nothing and ends without a message; the AI SDK stops in silence.",
    ),
    Rule(
        "item.done-twice",
        "`response.output_item.done` comes once per item.",
        "Invariant 5.",
        "Codex and the AI SDK run the tool twice; Codex shows a message twice.",
    ),
    Rule(
        "item.closed",
        "No event of an item comes after its `response.output_item.done`.",
        "Spec N29, invariant 6.",
    ),
    Rule(
        "item.index-order",
        "`output_index` counts the items from 0, in the order in which they are added.",
        "Invariant 5.",
        "openai-python's helper raises when an index comes twice.",
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
        "pydantic-ai does not run the tool and goes on; the AI SDK fails its type validation.",
    ),
    Rule(
        "item.id-length",
        "Item ids have at most 64 characters.",
        "Decision 3: ids come back as input. Vendors' ids are replaced by ours.",
        tolerant=False,
    ),
    Rule(
        "item.id-reused",
        "Item ids are unique in the response, and none is the id of the response.",
        "Spec N61, invariant 5. All of them come back as references, to items and to responses.",
    ),
    Rule(
        "item.id-changed",
        "An item has the same id when added, in every `item_id`, when done and in the terminal snapshot.",
        "Invariant 5. GitHub Copilot's endpoint rotates ids in every event (quirk R2).",
        "openai-python's helper and pydantic-ai raise; the AI SDK raises, and has already run the tool.",
    ),
    Rule(
        "item.id-is-call-id",
        "`item_id` is the id of the item, not its call id.",
        "Ask B4: a gateway told the end of a call under the call id, its beginning under the item id.",
        "As `item.id-changed`: openai-python's helper, pydantic-ai and the AI SDK raise.",
    ),
    Rule(
        "item.changed",
        "Type, role, name, call id, namespace and phase of an item stay what they were when it was added.",
        "Decision 4, invariant 9. The name also where the end of the arguments repeats it.",
    ),
    Rule(
        "item.fields",
        "An item has the fields that its type requires, and no null where the schema has none.",
        "Spec N31, spec N60: `type` and `status` on every item; `content` and `summary` are lists; "
        "`encrypted_content`, `content` and `phase` are left out rather than null. The id has rules of "
        "its own. Vendors leave fields out.",
        "The compliance suite fails; @ai-sdk/openai rejects items without status.",
        tolerant=False,
    ),
    Rule(
        "item.role",
        "A message in the output has the role `assistant`.",
        "The output is the model's own.",
    ),
    Rule(
        "item.added-status",
        "A streamed item is `in_progress` when it is added.",
        "Spec N60. Items that are not streamed (outputs, hosted tools) may be added already completed. "
        "Vendors leave the status out, or add whole calls.",
        tolerant=False,
    ),
    Rule(
        "item.done-status",
        "An item is `completed` or `incomplete` when it is done.",
        "Spec N60, spec N29. Tools may also have `failed`, extensions their own words (spec N63), but "
        "nothing that is done is in progress. Azure and others close hosted tools as `searching` (quirk R7), "
        "and no client is known to mind.",
        tolerant=False,
    ),
    Rule(
        "item.prefilled",
        "An item is added empty: its content, summary, arguments or input come as deltas.",
        "Decision 4. What is in `added` and comes again in deltas would count twice. Tolerant mode "
        "reports it when deltas do follow.",
    ),
    Rule(
        "item.event-kind",
        "An event suits the type of its item.",
        "Invariant 6: text belongs to messages, reasoning to reasoning items, arguments to calls of their "
        "kind.",
    ),
    Rule(
        "item.after-incomplete",
        "Nothing is added after an item ended incomplete.",
        "Spec N27 as decision 5 reads it. Several items may end incomplete together.",
        tolerant=False,
    ),
    Rule(
        "item.content-differs",
        "An item is done with the content and the summary that were streamed.",
        "Spec N32, invariant 7: the same parts, with the same texts. Content that was never streamed counts "
        "too.",
        "Readers of deltas and readers of the item disagree: LangChain, pydantic-ai and the AI SDK see "
        "nothing of a text without deltas.",
    ),
    # --- call
    Rule(
        "call.id",
        "A tool call has a call id, a non-empty string.",
        "Invariant 9. A search that the server runs itself may have none.",
        "Codex drops the call in silence; LangChain and the AI SDK raise.",
    ),
    Rule(
        "call.id-length",
        "Call ids have at most 64 characters.",
        "The schema of the input, where they come back; decision 7.",
        tolerant=False,
    ),
    Rule(
        "call.id-is-item-id",
        "The call id of an item is not its own id.",
        "Decision 3 and decision 7: the one is ours, the other is the upstream's. Where they are one string, "
        "whatever confuses the two (ask B4) goes unseen. No client is known to mind.",
        tolerant=False,
    ),
    Rule(
        "call.duplicate",
        "A call id belongs to one item of the response.",
        "Ask B4: a gateway announced one call twice, under two item ids. Invariant 9. Holds for "
        "every item that makes a client act, `computer_call` too.",
        "Codex and the AI SDK run the tool twice; openai-python's helper and pydantic-ai raise; the next "
        "request has two calls with one id, which strict upstreams refuse.",
    ),
    Rule(
        "call.name",
        "A call of a function or custom tool has a name, a non-empty string.",
        "Spec N30: the name is there when the item is added.",
    ),
    # --- part
    Rule(
        "part.added-missing",
        "Text streams inside a part that was opened by its `.added` event.",
        "Spec N32, spec N33. Vendors' raw reasoning comes without (quirk R10), which tolerant mode allows.",
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
        "Events of a part, and its end, are of the type with which it was opened; the item may hold that "
        "type.",
        "Spec N33, invariant 6: `output_text` and `refusal` in messages, `reasoning_text` and `summary_text` "
        "in reasoning.",
    ),
    Rule(
        "part.fields",
        "A part has the fields that its type requires, and no null where the schema has none.",
        "The schema: `annotations` is a list on `output_text`, `logprobs` a list or absent. Vendors leave "
        "annotations out.",
        "Null `logprobs` or missing `annotations` fail twelve of the seventeen compliance tests.",
        tolerant=False,
    ),
    Rule(
        "part.prefilled",
        "A part is opened empty.",
        "Spec N33: what is in `added` (text, annotations, log probabilities) and comes again in deltas would "
        "count twice; what does not come again is missed.",
    ),
    Rule(
        "part.closed",
        "After a text is done no delta of it comes, and after a part is done nothing of it; neither ends "
        "twice.",
        "Spec N33, invariant 6.",
    ),
    Rule(
        "part.text-done-missing",
        "The text of a part ends with its own `.done` before the part ends.",
        "Spec N33. No client measured needs it.",
        tolerant=False,
    ),
    Rule(
        "part.done-missing",
        "Every part is closed before its item is done.",
        "Spec N33, invariant 6. No client measured needs it.",
        tolerant=False,
    ),
    Rule(
        "part.text-differs",
        "The text told at `.done` equals the deltas joined.",
        "Invariant 7. A delta lost or sent twice shows here.",
        "A doubled delta is doubled text in every client; a lost one is lost in LangChain and the AI SDK.",
    ),
    Rule(
        "part.done-differs",
        "A part ends with the text that was streamed.",
        "Invariant 7.",
    ),
    Rule(
        "part.logprobs",
        "The log probabilities at the end of a text, and in the closed part, are those of its deltas.",
        "Invariant 7; absent is the same as none. OpenAI has been seen to close the part without them.",
        tolerant=False,
    ),
    # --- annotation
    Rule(
        "annotation.index",
        "`annotation_index` counts the annotations of a part from 0, in order.",
        "Invariant 6. A null annotation counts. Every recording keeps this.",
    ),
    Rule(
        "annotation.differs",
        "A part ends with exactly the annotations that were added.",
        "Invariant 7. A null annotation adds nothing. Every recording keeps this.",
    ),
    # --- arguments
    Rule(
        "arguments.no-delta",
        "Arguments, or the input of a custom tool, come as at least one delta.",
        "Spec N43, quirk R5: LM Studio sends only the end.",
        "LangChain takes arguments only from deltas: the tool is not run, and it goes on.",
    ),
    Rule(
        "arguments.closed",
        "After the `.done` of arguments or input no delta of them comes, and no second `.done`.",
        "Invariant 6.",
    ),
    Rule(
        "arguments.done-missing",
        "Arguments or input end with their own `.done` before the item is done.",
        "Spec N43, invariant 6. No client measured needs it.",
        tolerant=False,
    ),
    Rule(
        "arguments.differs",
        "The arguments or input told at `.done` equal the deltas joined.",
        "Invariant 7.",
    ),
    Rule(
        "arguments.item-differs",
        "An item is done with the arguments or the input that were streamed.",
        "Invariant 7, also for a call that ended incomplete.",
        "Codex takes the item, LangChain the deltas: they call the tool with different arguments.",
    ),
    Rule(
        "arguments.json",
        "The arguments of a completed function call are JSON.",
        "Invariant 10: `{}` for none. Half a document means that the call is incomplete.",
        "Codex gives the model an error text instead of a result.",
    ),
    # --- snapshot
    Rule(
        "snapshot.missing",
        "A snapshot has all 31 fields that the schema requires.",
        "Spec N31, decision 3, also in `response.created`. Vendors send fewer, and clients live with nine.",
        "The compliance suite fails up to thirteen tests.",
        tolerant=False,
    ),
    Rule(
        "snapshot.type",
        "The fields of a snapshot have the types of the schema, and no null where it has none.",
        "Spec N31, decision 3. `text.format.schema` is null in the `openresponses` accent and may be an "
        "object for clients that know OpenAI's wire. Function tools are echoed with all their fields, "
        "others as they came.",
        "The compliance suite fails up to thirteen tests.",
        tolerant=False,
    ),
    Rule(
        "snapshot.outcome",
        "`error` is set in `response.failed` alone, and `incomplete_details` in no snapshot but those of "
        "`response.incomplete` and `response.failed`.",
        "Spec N43, invariant 4: a response that goes on, or is completed, has nothing to say there. What "
        "failed may say why it also is incomplete.",
        "The AI SDK and pydantic-ai take the reason to finish from `incomplete_details`, whatever the "
        "status: a completed answer counts as cut off.",
    ),
    Rule(
        "snapshot.output",
        "A snapshot before the end holds the items so far, with what was streamed of them.",
        "Invariant 17: empty when created, current in every heartbeat (decision 10). Not asked of "
        "vendors: a resumed stream may start at such a snapshot.",
        tolerant=False,
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _TABLE}

_HEAD = """\
# The rules of a lawful stream

Written from the table in `src/penstock/stream/checker/rules.py`; `make docs` writes it anew. The checker
reports the rule that an event breaks under the id given here.

*Strict* rules hold for the streams that Penstock sends, and are not reported when a vendor's stream is read
in tolerant mode; all others are reported in both modes. The reasons cite [decisions.md](decisions.md) and
[requirements.md](requirements.md).
"""

_CITATION = re.compile(r"\b(?:[Dd]ecision|[Ii]nvariant) \d+\b|\b(?:[Ss]pec|[Qq]uirk|[Aa]sk) [A-Z]\d+\b")


def as_markdown() -> str:
    """The page `docs/rules.md`."""
    lines = [_HEAD]
    group = ""
    for rule in RULES.values():
        prefix = rule.id.partition(".")[0]
        if prefix != group:
            group = prefix
            lines.append(f"## {prefix}\n")
        lines.append(f"### `{rule.id}`{'' if rule.tolerant else ' (strict)'}\n")
        lines.append(f"**{rule.title}** {_linked(rule.explanation)}\n")
        if rule.hurts:
            lines.append(f"*Hurts:* {rule.hurts}\n")
    return "\n".join(lines)


def _linked(text: str) -> str:
    """The text with a link from each citation to its entry in docs/."""
    return _CITATION.sub(_link, text)


def _link(citation: re.Match[str]) -> str:
    anchor = citation[0].lower().replace(" ", "-")
    page = "decisions.md" if anchor.startswith("decision") else "requirements.md"
    return f"[{citation[0]}]({page}#{anchor})"
