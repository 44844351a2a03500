"""`apply_patch`: creates, updates or deletes one file. The diff is streamed as the model writes it.

A client reads the operation and the path from the announcement (the AI SDK writes them into its own stream),
so a call is announced only when both are complete.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from penstock.lenient import text_of
from penstock.protocol.content import JsonObject
from penstock.protocol.events import Event, PatchDiffEvent
from penstock.protocol.items import ApplyPatchCall, ApplyPatchCallOutput
from penstock.tools.family import Declaration, Numbers, ToolFamily, TypedCallStream, fields_of, json_of
from penstock.tools.jsontext import StringValues

CREATE, UPDATE, DELETE = OPERATIONS = ("create_file", "update_file", "delete_file")

_DESCRIPTION = """\
Create, update or delete one file. Call this tool once for each file.

To create a file, `diff` is its whole content, with a `+` before every line.
To update a file, `diff` has one section for each place to change. A section begins with a line `@@`, which \
may be followed by a line of the file that helps to find the place (`@@ def main():`). The lines of the \
section follow: unchanged lines begin with a space, removed lines with `-`, and added lines with `+`. Give \
about three unchanged lines before and after a change. There are no line numbers.
To delete a file, leave `diff` empty."""
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": list(OPERATIONS), "description": "What to do with the file."},
        "path": {"type": "string", "description": "The path of the file."},
        "diff": {"type": "string", "description": "The content of a new file, or the changes."},
    },
    "required": ["type", "path", "diff"],
}
_WRAPPER = "operation"

_ENVELOPE = re.compile(
    r"\s*\*{3} Begin Patch[^\n]*\n\*{3} (Add|Update|Delete) File: ([^\n]+)\n?"
    r"(.*?)(?:\n?\*{3} End Patch\s*)?\Z",
    re.DOTALL,
)
_OTHER_NAMES = {
    **dict.fromkeys(("create", "add", "new"), CREATE),
    **dict.fromkeys(("update", "edit", "modify"), UPDATE),
    **dict.fromkeys(("delete", "remove"), DELETE),
}
"""Names of the operations that models use as well, without `_file`."""
_ENVELOPE_OPERATIONS = {"Add": CREATE, "Update": UPDATE, "Delete": DELETE}


class ApplyPatchCallStream(TypedCallStream):
    item_type: ClassVar[str] = "apply_patch_call"

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._strings = StringValues()
        self._fields: dict[str, list[str]] = {"type": [], "path": [], "diff": []}
        self._ended: set[str] = set()
        self._unsent: list[str] = []
        """Text of the diff without an event yet: the call is not announced."""
        self._type = ""
        """The operation, once it is complete."""

    @property
    def is_ready(self) -> bool:
        return "path" in self._ended and self._type in OPERATIONS

    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        for piece in [] if self.raw else self._strings.feed(fragment):
            path = piece.path[1:] if piece.path[:1] == (_WRAPPER,) else piece.path
            name = path[0] if len(path) == 1 else None
            if isinstance(name, str) and name in self._fields and name not in self._ended:
                self._fields[name].append(piece.text)
                self._unsent += [piece.text] if name == "diff" else []
                if piece.ended:
                    self._ended.add(name)
                    self._type = self._text("type") if name == "type" else self._type
        return self._diff_delta(number)

    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        events = self._diff_delta(number)
        if self._type == DELETE:
            return events
        if complete and "diff" not in self._ended:
            self._flaw = self._flaw or "the arguments have no `diff`"
        done = PatchDiffEvent(
            type="response.apply_patch_call_operation_diff.done",
            sequence_number=number(),
            item_id=self.item_id,
            output_index=self.output_index,
            diff=self._text("diff"),
        )
        return [*events, done]

    def make_ready(self) -> None:
        self._flaw = "the arguments have no operation `type` with a `path`"
        fields = (None if self.raw else fields_of(self.received, _WRAPPER)) or {}
        texts = {name: text_of(value) for name, value in fields.items()}
        patch = self.received if self.raw else texts.get("input") or texts.get("patch") or ""
        type = texts.get("type") or texts.get(_WRAPPER) or ""
        operation = _from_envelope(patch) or {
            "type": _OTHER_NAMES.get(type.lower().removesuffix("_file"), UPDATE),
            "path": texts.get("path") or texts.get("file_path") or "",
            "diff": texts.get("diff") or texts.get("content") or patch,
        }
        self._type = operation["type"]
        self._fields = {name: [text] for name, text in operation.items()}
        self._unsent = [operation["diff"]] if operation["diff"] else []
        self._ended = set(operation)

    def item(self, status: str) -> ApplyPatchCall:
        operation: JsonObject = {"type": self._type, "path": self._text("path")}
        if self._type != DELETE:
            sent = len(self._fields["diff"]) - len(self._unsent)
            operation["diff"] = "".join(self._fields["diff"][:sent])
        return ApplyPatchCall(id=self.item_id, call_id=self.call_id, operation=operation, status=status)

    def _text(self, name: str) -> str:
        return "".join(self._fields[name])

    def _diff_delta(self, number: Numbers) -> list[Event]:
        if self.output_index < 0 or not self._unsent or self._type == DELETE:
            return []  # nothing is joined before it is sent: the cost must not depend on what came before
        text = "".join(self._unsent)
        self._unsent.clear()
        if not text:
            return []
        return [
            PatchDiffEvent(
                type="response.apply_patch_call_operation_diff.delta",
                sequence_number=number(),
                item_id=self.item_id,
                output_index=self.output_index,
                delta=text,
            )
        ]


def _from_envelope(patch: str) -> dict[str, str] | None:
    """Return the operation of a patch for one file in the `*** Begin Patch` format, which models know too."""
    found = _ENVELOPE.match(patch)
    if found is None or "\n*** " in f"\n{found[3]}":
        return None
    return {"type": _ENVELOPE_OPERATIONS[found[1]], "path": found[2].strip(), "diff": found[3]}


def _content(output: ApplyPatchCallOutput, _: Any) -> str:
    """Return whether the patch was applied, and what the client says about it."""
    return ": ".join(text for text in (output.status or "completed", output.output or "") if text)


FAMILY = ToolFamily(
    type="apply_patch",
    call=ApplyPatchCall,
    output=ApplyPatchCallOutput,
    stream=ApplyPatchCallStream,
    declare=lambda _: Declaration(_DESCRIPTION, _PARAMETERS),
    arguments=lambda call: json_of(call.operation),
    content=_content,
)
