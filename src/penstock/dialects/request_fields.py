"""How each dialect that can be rendered handles every field of a request: one table (ask E6).

Each dialect has a table `HANDLED` next to the code; this module combines them. A test checks that no
dialect omits a field.
"""

from __future__ import annotations

from penstock.dialects.anthropic.render import HANDLED as _ANTHROPIC
from penstock.dialects.chat.render import HANDLED as _CHAT
from penstock.dialects.gemini.render import HANDLED as _GEMINI
from penstock.dialects.responses.render import HANDLED as _RESPONSES
from penstock.protocol.request import CreateResponse

MEANINGS: dict[str, str] = {
    "mapped": "sent in the upstream's format; a value that the vendor or model does not support is dropped "
    "with a diagnostic, or refused with status 400 if the request cannot work without it",
    "dropped": "not sent; a diagnostic reports it",
    "gateway": "not sent; Penstock implements it",
    "refused": "status 400, with an error that names the field",
}
"""The ways to handle a field."""

HANDLED: dict[str, dict[str, str]] = {
    "chat": _CHAT,
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
}
"""By dialect and field, how it is handled: a key of `MEANINGS`."""

FIELDS = CreateResponse.__struct_fields__
"""Every field of a request. `extra` stands for all fields that are not in the specification."""

_SHOWN = {"extra": "any other field"}


def as_markdown() -> str:
    """Return the table in `docs/fields.md`."""
    meanings = [f"- **{name}**: {meaning}." for name, meaning in MEANINGS.items()]
    head = ["| field | " + " | ".join(HANDLED) + " |", "|---|" + "---|" * len(HANDLED)]
    rows = [
        f"| {_SHOWN.get(field, f'`{field}`')} | "
        + " | ".join(table.get(field, "?") for table in HANDLED.values())
        + " |"
        for field in FIELDS
    ]
    return "\n".join([*meanings, "", *head, *rows])
