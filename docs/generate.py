"""Write the generated parts of the documentation. A test fails if one is out of date.

A page with generated parts has markers around each: `<!-- generated: NAME -->` and
`<!-- end of generated -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.connect import guides
from penstock.demo import wishes
from penstock.demo.render import HANDLED
from penstock.dialects import presets, request_fields
from penstock.gateway.config.schema import config_schema
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


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "diagram": ("machine.md", diagram),
    "policy": ("tool-calls.md", policy),
    "diagnostics": ("diagnostics.md", diagnostics),
    "presets": ("presets.md", presets.as_markdown),
    "fields": ("fields.md", request_fields.as_markdown),
    "chat requests": ("fields.md", chat_requests.as_markdown),
    "wishes": ("demo.md", wishes.as_markdown),
    "demo fields": ("demo.md", demo_fields),
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
