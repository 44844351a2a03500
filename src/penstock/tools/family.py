"""The interface of a family of tools: how tools of one type are declared, called and answered.

A family is one file: a row with everything that is specific to its type, and a class for one call. The class
turns the arguments, which an upstream streams as the JSON text of a function's arguments, into the fields and
events of the family's own item as they arrive. `families.py` lists the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from penstock.lenient import count_of, is_json, parse_json
from penstock.protocol.content import ContentPart
from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.protocol.tools import Tool
from penstock.protocol.wire import to_builtins

Numbers = Callable[[], int]
"""Returns the next sequence number."""

Content = str | list[ContentPart]

UpstreamNames = Callable[[Iterable[Tool]], list[str]]
"""Returns the names that the upstream knows declared tools by."""


class ToolIdentity(Struct, frozen=True):
    """A declared tool. `type` is the declared type and selects the family.

    `name` is the declared name; a tool that has none, such as `shell`, is called by its type.
    """

    type: str
    name: str
    namespace: str | None
    upstream_name: str


class Declaration(Struct, frozen=True):
    """A tool as a function, for upstreams that support nothing else.

    `strict` is None if the client did not set it: defaults differ between upstreams, so it is then not sent
    either (ask H2).
    """

    description: str
    parameters: dict[str, Any]
    strict: bool | None = None


class CallStream(ABC):
    """One call, from its announcement to its end."""

    item_type: ClassVar[str]

    def __init__(self, identity: ToolIdentity, *, item_id: str, call_id: str, raw: bool = False) -> None:
        """`raw`: the arguments are the tool's own text, not wrapped in JSON."""
        self.identity = identity
        self.item_id = item_id
        self.call_id = call_id
        self.raw = raw
        self.output_index = -1
        """The position in the output. There are no events before it is set: the item is not announced."""
        self._chunks: list[str] = []

    @property
    def received(self) -> str:
        """The arguments as received from the upstream."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    @property
    def is_ready(self) -> bool:
        """Whether the item can be announced: it has every field that cannot be added later."""
        return True

    def make_ready(self) -> None:  # noqa: B027 - most families are always ready
        """Fill in what an announcement needs: the arguments are complete, but not of the declared shape."""

    def feed(self, fragment: str, number: Numbers) -> list[Event]:
        """Add a fragment of the arguments; return its events, and those held back before `is_ready`."""
        if fragment:
            self._chunks.append(fragment)
        return self._emit(fragment, number)

    def may_end_with(self, arguments: str) -> bool:  # noqa: ARG002 - families that care override this
        """Return whether this complete object can be all of the arguments, so that other text may follow."""
        return True

    @abstractmethod
    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        """Return the events for a fragment that was just received."""

    @abstractmethod
    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        """Return the events that end the arguments. Unless `complete`, the call was cut off."""

    @abstractmethod
    def item(self, status: str) -> Item:
        """Return the call as an item, with the arguments received so far."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the arguments can end here."""

    @property
    def flaw(self) -> str:
        """What is wrong with the arguments, for a diagnostic; empty if nothing is."""
        return ""


class TypedCallStream(CallStream):
    """A call whose item has fields of its own instead of arguments, which an upstream sends as JSON."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._flaw = ""

    @property
    def is_complete(self) -> bool:
        return self.raw or is_json(self.received)

    @property
    def flaw(self) -> str:
        return self._flaw


ItemType = type[Item]
CallStreamType = type[CallStream]


class ToolFamily(Struct, frozen=True, kw_only=True):
    """Everything that is specific to one type of tool."""

    type: str
    """The type of the declaration."""
    call: ItemType
    output: ItemType
    stream: CallStreamType
    declare: Callable[[Any], Declaration]
    """Returns the declaration for the upstream."""
    arguments: Callable[[Any], str]
    """Returns the arguments of an earlier call, as the upstream would have sent them."""
    content: Callable[[Any, UpstreamNames], Content]
    """Returns the content of an output, in a form that a model reads well."""
    is_named: bool = False
    """Whether the declaration has a name. The name of any other tool is its type."""
    runs_at_client: Callable[[Any], bool] = lambda _: True
    """Returns whether the client runs the calls of a declared tool, and not the provider."""
    output_call_id: Callable[[Any], str] = lambda output: output.call_id or ""

    def name(self, tool: Any) -> str:
        """Return the name of a declared tool."""
        return str(tool.name) if self.is_named else self.type


def json_of(value: Any) -> str:
    """Return a value of an item as JSON text."""
    return msgspec.json.encode(to_builtins(value)).decode()


def fields_of(arguments: str, wrapper: str = "") -> dict[str, Any] | None:
    """Return the arguments as an object, without a field `wrapper` around them; None if they are not one."""
    try:
        fields = parse_json(arguments)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    inner = fields.get(wrapper)
    return inner if isinstance(inner, dict) else fields


def positive(value: Any) -> int | None:
    """Return a positive whole number; None for anything else."""
    number = count_of(value)
    return number if number is not None and number > 0 else None
