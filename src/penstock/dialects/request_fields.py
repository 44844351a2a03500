"""What becomes of every field of a request, in every dialect that can be rendered: one table (ask E6).

Each dialect says it in its own `HANDLED`, next to the code that does it; here the tables stand side by side.
A field that a dialect does not name is a mistake, and a test looks for it.
"""

from __future__ import annotations

from penstock.dialects.anthropic.render import HANDLED as _ANTHROPIC
from penstock.dialects.chat.render import HANDLED as _CHAT
from penstock.dialects.gemini.render import HANDLED as _GEMINI
from penstock.dialects.responses.render import HANDLED as _RESPONSES
from penstock.protocol.request import CreateResponse

MEANINGS: dict[str, str] = {
    "mapped": "sent in the words of the upstream; what a vendor or a model lacks of it is dropped, and told",
    "dropped": "not sent, and a diagnostic says so",
    "refused": "the request is answered with 400, which names the field",
    "gateway": "not the upstream's business: Penstock does it, or answers for it",
}
"""What can become of a field."""

HANDLED: dict[str, dict[str, str]] = {
    "chat": _CHAT,
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
}
"""By dialect and field, what becomes of it: a key of `MEANINGS`."""

FIELDS = CreateResponse.__struct_fields__
"""Every field that a request can have. `extra` is whatever the specification does not know."""

_SHOWN = {"extra": "any other field"}


def as_markdown() -> str:
    """The table in `docs/fields.md`."""
    meanings = [f"- **{name}**: {meaning}." for name, meaning in MEANINGS.items()]
    head = ["| field | " + " | ".join(HANDLED) + " |", "|---|" + "---|" * len(HANDLED)]
    rows = [
        f"| {_SHOWN.get(field, f'`{field}`')} | "
        + " | ".join(table.get(field, "?") for table in HANDLED.values())
        + " |"
        for field in FIELDS
    ]
    return "\n".join([*meanings, "", *head, *rows])
