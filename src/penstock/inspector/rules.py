"""`GET inspector/api/rules`: the checker's table of rules, for the page of each rule."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import answer
from penstock.stream.checker import RULES
from penstock.stream.checker.rules import Rule


class RuleGroup(Struct, frozen=True):
    """The rules whose ids begin with the same word."""

    title: str
    advice: str
    """What to do in a server that breaks one of them."""


GROUPS = {
    "transport": RuleGroup(
        "Frames",
        "Look at the code of the server that writes frames: it must write an `event:` line and one `data:` "
        "line with one JSON object for each event, and `data: [DONE]` once at the end.",
    ),
    "event": RuleGroup(
        "Events",
        "Compare the event with its schema: its type, and the fields that this type requires.",
    ),
    "sequence": RuleGroup(
        "Sequence numbers",
        "Count the events where they are written, in one place, and after everything that adds or drops "
        "events.",
    ),
    "delta": RuleGroup(
        "Deltas",
        "Send each piece of a text once, as it comes from the model, with the item and the part to which it "
        "belongs, and leave out empty pieces.",
    ),
    "name": RuleGroup(
        "Names of events",
        "Send only the events and the items that the client's accent has, under its names. `penstock serve` "
        "chooses the accent that fits the client.",
    ),
    "lifecycle": RuleGroup(
        "Life of a response",
        "Send `response.created` first and `response.in_progress` after it, and nothing before them, also if "
        "the answer fails at once.",
    ),
    "terminal": RuleGroup(
        "End of a response",
        "Send exactly one of `response.completed`, `response.incomplete` and `response.failed`, on every way "
        "out of the server's code: also after an error, a timeout and a cancelled request. If there is none, "
        "the connection was perhaps cut off: look for a proxy with a time limit.",
    ),
    "usage": RuleGroup(
        "Usage",
        "Read the numbers of the upstream's last event, or count the tokens, and put them into the terminal "
        "event.",
    ),
    "item": RuleGroup(
        "Items",
        "Keep one record per item, with its id, its index and its type; add it once, fill it by deltas, and "
        "close it once, from that record.",
    ),
    "call": RuleGroup(
        "Tool calls",
        "Keep one record per tool call, from its first event to its last, and find it by the call id of the "
        "model.",
    ),
    "part": RuleGroup(
        "Parts of an item",
        "Open each part before its first delta, and close it with the text of all of its deltas.",
    ),
    "annotation": RuleGroup(
        "Annotations",
        "Keep the annotations of a part in one list; send each when it is added to the list, and the whole "
        "list when the part ends.",
    ),
    "arguments": RuleGroup(
        "Arguments of tool calls",
        "Collect the deltas of the arguments, and end with exactly what was collected.",
    ),
    "snapshot": RuleGroup(
        "Snapshots",
        "Make every `response` object by one function, from the state of the response at that moment.",
    ),
}


async def list_rules(_: Gateway, exchange: Exchange, __: ClientKey | None) -> None:
    await answer(exchange, {"rules": [_shown(rule) for rule in RULES.values()]})


def _shown(rule: Rule) -> dict[str, Any]:
    group = GROUPS[rule.id.partition(".")[0]]
    return {
        "id": rule.id,
        "group": group.title,
        "title": rule.title,
        "explanation": rule.explanation,
        "breaks": rule.breaks,
        "advice": group.advice,
        "is_tolerated": not rule.tolerant,
    }
