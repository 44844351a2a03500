"""Write the generated parts of the documentation. A test fails if one is out of date.

A page with generated parts has markers around each: `<!-- generated: NAME -->` and
`<!-- end of generated -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.connect import guides
from penstock.demo import wishes
from penstock.demo.render import HANDLED
from penstock.dialects import presets, request_fields
from penstock.explain.meanings import MEANINGS
from penstock.gateway.config.schema import config_schema
from penstock.gateway.limits_page import as_markdown as limits
from penstock.gateway.refusals import STATUSES, status_of
from penstock.gateway.telemetry.otel import attributes, instruments
from penstock.protocol import chat_requests
from penstock.stream import phases
from penstock.stream.calls import assembler
from penstock.stream.checker.rules import as_markdown
from penstock.stream.diagnostics import MESSAGES

DOCS = Path(__file__).parent


def diagram() -> str:
    return f"```mermaid\n{phases.diagram()}\n```"


def policy() -> str:
    rows = [
        f"| {id.value} | {key.value} | {row.action.value} | {row.reason} |"
        for (id, key), row in assembler.POLICY.items()
    ]
    return "\n".join(["| id | key | the assembler will | because |", "|---|---|---|---|", *rows])


def diagnostics() -> str:
    plain = re.compile(r"\{(\w+)(!r)?\}")
    messages = {code: plain.sub(r"*\1*", message) for code, message in MESSAGES.items()}
    rows = [f"| `{code}` | {message} |" for code, message in messages.items()]
    return "\n".join(["| code | what happened |", "|---|---|", *rows])


def demo_fields() -> str:
    shown = {"extra": "any other field"}
    rows = [f"| {shown.get(field, f'`{field}`')} | {handling} |" for field, handling in HANDLED.items()]
    return "\n".join(["| field | demo |", "|---|---|", *rows])


def error_codes() -> str:
    """Return what each error code means, and the status of a response that is refused or fails with it."""
    rows = [f"| `{code}` | {_statuses_of(code)} | {MEANINGS[code]} |" for code in sorted(MEANINGS)]
    return "\n".join(["| code | HTTP status | what happened |", "|---|---|---|", *rows])


def refused_statuses() -> dict[str, set[int]]:
    """Return the statuses with which the gateway refuses requests, by code, as its source has them."""
    found: dict[str, set[int]] = {}
    for file in (DOCS.parent / "src").rglob("*.py"):
        for status, code in re.findall(r'RequestRefused\(\s*(\d{3}),\s*"(\w+)"', file.read_text()):
            found.setdefault(code, set()).add(int(status))
    return found


def _statuses_of(code: str) -> str:
    statuses = set(refused_statuses().get(code, ()))
    if code in STATUSES or code.startswith(("upstream_", "bridge.")) or code in BAD_GATEWAY:
        statuses.add(status_of(code))
    return ", ".join(map(str, sorted(statuses)))


BAD_GATEWAY = ("certificate_error", "proxy_error", "tls_error")


def settings() -> str:
    """Return a table for each table of `penstock.toml`, from its JSON Schema."""
    schema = config_schema()
    top = {name: each for name, each in schema["properties"].items() if not _inner(each)}
    tables = [_settings_table("Above the first table", "", top)]
    for name, each in schema["properties"].items():
        if inner := _inner(each):
            heading = TABLE_HEADINGS.get(name, f"`[{name}]`")
            tables.append(_settings_table(heading, each.get("description", ""), inner))
    return "\n\n".join(tables)


TABLE_HEADINGS = {
    "targets": "`[targets.NAME]`",
    "models": "`[models.NAME]`",
    "keys": "`[[keys]]`",
}


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings in a table, or in each of several tables."""
    each = schema.get("items") or schema.get("additionalProperties")
    table = each if isinstance(each, dict) else schema
    if alternatives := table.get("anyOf"):
        table = next((one for one in alternatives if "properties" in one), table)
    found: Mapping[str, Any] = table.get("properties", {})
    return found


def _settings_table(heading: str, description: str, rows: Mapping[str, Any]) -> str:
    lines = [
        f"| `{name}` | {_values(row)} | {_default(row)} | {_meaning(row)} |" for name, row in rows.items()
    ]
    head = [f"## {heading}", "", *([description, ""] if description else [])]
    return "\n".join([*head, "| setting | values | default | meaning |", "|---|---|---|---|", *lines])


def _values(row: Mapping[str, Any]) -> str:
    if len(row.get("enum", ())) > MOST_VALUES:
        return "the name of a [preset](presets.md)"
    if "enum" in row or "const" in row:
        return ", ".join(f"`{json.dumps(each)}`" for each in row.get("enum", [row.get("const")]))
    if alternatives := row.get("anyOf") or row.get("oneOf"):
        return " or ".join(_values(each) for each in alternatives)
    match row.get("type"):
        case "array":
            return f"list of {_values(row.get('items', {}))}"
        case "object":
            return "table"
        case "string":
            return "text"
        case "integer" | "number" as kind:
            return NUMBER_NAMES[kind] + _range(row)
        case "boolean":
            return "`true`, `false`"
    return "any"


MOST_VALUES = 10
NUMBER_NAMES = {"integer": "whole number", "number": "number"}


def _range(row: Mapping[str, Any]) -> str:
    low, above, high = row.get("minimum"), row.get("exclusiveMinimum"), row.get("maximum")
    bounds = [
        *([f"from {low}"] if low is not None else []),
        *([f"above {above}"] if above is not None else []),
        *([f"to {high}"] if high is not None else []),
    ]
    return " " + " ".join(bounds) if bounds else ""


def _default(row: Mapping[str, Any]) -> str:
    return f"`{json.dumps(row['default'])}`" if "default" in row else ""


def _meaning(row: Mapping[str, Any]) -> str:
    return str(row.get("description", "")).replace("|", "\\|")


def content_attributes() -> str:
    rows = [f"| `{name}` | {help} |" for name, help in attributes.CONTENT.items()]
    return "\n".join(["| attribute | meaning |", "|---|---|", *rows])


def telemetry_cost() -> str:
    found = json.loads((DOCS.parent / "bench" / "results" / "telemetry.json").read_text())["microseconds"]
    rows = [f"| {name} | {each / 1000:.2f} ms | {each / found['off']:.2f} |" for name, each in found.items()]
    return "\n".join(["| telemetry | CPU time of a turn | ratio |", "|---|---|---|", *rows])


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "diagram": ("machine.md", diagram),
    "policy": ("tool-calls.md", policy),
    "diagnostics": ("diagnostics.md", diagnostics),
    "presets": ("presets.md", presets.as_markdown),
    "fields": ("fields.md", request_fields.as_markdown),
    "chat requests": ("fields.md", chat_requests.as_markdown),
    "settings": ("settings.md", settings),
    "error codes": ("troubleshooting.md", error_codes),
    "limits": ("limits.md", limits),
    "wishes": ("demo.md", wishes.as_markdown),
    "demo fields": ("demo.md", demo_fields),
    "turn attributes": ("telemetry.md", partial(attributes.as_markdown, attributes.TURN)),
    "attempt attributes": ("telemetry.md", partial(attributes.as_markdown, attributes.ATTEMPT)),
    "content attributes": ("telemetry.md", content_attributes),
    "instruments": ("telemetry.md", instruments.as_markdown),
    "telemetry cost": ("telemetry.md", telemetry_cost),
    **{
        f"connect {guide.name}": (f"clients/{guide.name}.md", partial(guides.as_markdown, guide))
        for guide in guides.GUIDES.values()
    },
}


def with_part(page: str, name: str, content: str) -> str:
    marked = re.compile(rf"(<!-- generated: {name} -->\n).*?(\n<!-- end of generated -->)", re.DOTALL)
    page, count = marked.subn(lambda match: match[1] + content + match[2], page)
    if count != 1:
        raise SystemExit(f"the markers of {name!r} are missing or doubled")
    return page


def main() -> None:
    for name, (file, make) in PARTS.items():
        page = DOCS / file
        page.write_text(with_part(page.read_text(), name, make()))
    (DOCS / "rules.md").write_text(as_markdown())
    (DOCS / "penstock.schema.json").write_text(json.dumps(config_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
