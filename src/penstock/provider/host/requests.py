"""The requests of an editor, parsed from JSON (docs/host.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from msgspec import Struct

from penstock.errors import DecodeError
from penstock.parts.citations import Citations
from penstock.parts.item_parts import Thinking
from penstock.parts.messages import SystemRole
from penstock.parts.parts import ChatMessage, ChatTool
from penstock.parts.wire import message_from_json
from penstock.provider.editor_turn import HostSettings
from penstock.provider.host.lines import JSON
from penstock.provider.options import ResponseOptions

Id = str | int | float

_CHOICES = {"thinking": Thinking, "citations": Citations, "system_role": SystemRole}
"""The settings with a fixed set of values."""


class ConfigureRequest(Struct, frozen=True, kw_only=True):
    """The endpoint of a group, and how to use it."""

    group: str = ""
    endpoint: str = ""
    preset: str = ""
    key: str = ""
    headers: Mapping[str, str] = {}
    settings: HostSettings = HostSettings()
    account: str = ""
    """An opaque id of the account that owns the responses; defaults to the group's name."""

    def __repr__(self) -> str:
        """Omit the key, the header values and the URL, whose query may contain a key."""
        names = sorted(self.headers)
        return f"ConfigureRequest(group={self.group!r}, preset={self.preset!r}, headers={names!r})"


class ModelsRequest(Struct, frozen=True):
    group: str = ""
    refresh: bool = False


class RespondRequest(Struct, frozen=True):
    group: str
    model: str
    messages: Sequence[ChatMessage]
    options: ResponseOptions
    settings: HostSettings = HostSettings()
    """Overrides the settings of the group for this response."""


class CancelRequest(Struct, frozen=True):
    request: Id


class CountTokensRequest(Struct, frozen=True):
    group: str
    model: str
    counted: str | ChatMessage


class UsageRequest(Struct, frozen=True):
    pass


class ForgetLimitsRequest(Struct, frozen=True):
    group: str | None = None
    """None: the limits of all endpoints."""
    models: Sequence[str] | None = None
    """None: all models of the endpoint."""


HostRequest = (
    ConfigureRequest
    | ModelsRequest
    | RespondRequest
    | CancelRequest
    | CountTokensRequest
    | UsageRequest
    | ForgetLimitsRequest
)


def id_of(raw: JSON) -> Id | None:
    """Return the id of a request; None if it has none. Raise `DecodeError` if it is not valid."""
    id = raw.get("id")
    if id is None or (isinstance(id, str | int | float) and not isinstance(id, bool)):
        return id
    raise DecodeError("expected a string or a number", "id")


def read_request(raw: JSON) -> HostRequest:
    """Parse a request. Raise `DecodeError` with the invalid field."""
    read = METHODS.get(raw["method"]) if isinstance(raw.get("method"), str) else None
    if read is None:
        raise DecodeError(f"expected one of {', '.join(METHODS)}", "method")
    return read(raw)


def _configure(raw: JSON) -> ConfigureRequest:
    return ConfigureRequest(
        group=_text(raw, "group"),
        endpoint=_text(raw, "endpoint").strip(),
        preset=_text(raw, "preset").strip(),
        key=_text(raw, "key").strip(),
        headers=_headers(raw),
        settings=_settings(raw),
        account=_text(raw, "account"),
    )


def _models(raw: JSON) -> ModelsRequest:
    return ModelsRequest(_text(raw, "group"), raw.get("refresh") is True)


def _respond(raw: JSON) -> RespondRequest:
    mode = raw.get("tool_mode")
    if isinstance(mode, bool) or not isinstance(mode, int | str | None):
        raise DecodeError("expected 1 (auto) or 2 (required)", "tool_mode")
    return RespondRequest(
        _text(raw, "group"),
        _required_text(raw, "model"),
        [_message(each, f"messages[{index}]") for index, each in enumerate(_list(raw, "messages"))],
        ResponseOptions(
            _object(raw, "options"),
            [_tool(each, f"tools[{index}]") for index, each in enumerate(_list(raw, "tools"))],
            mode,
        ),
        _settings(raw),
    )


def _cancel(raw: JSON) -> CancelRequest:
    request = id_of({"id": raw.get("request")})
    if request is None:
        raise DecodeError("expected the id of a request", "request")
    return CancelRequest(request)


def _count_tokens(raw: JSON) -> CountTokensRequest:
    if raw.get("message") is not None:
        counted: str | ChatMessage = _message(raw["message"], "message")
    elif isinstance(raw.get("text"), str):
        counted = raw["text"]
    else:
        raise DecodeError("expected a string, unless `message` is set", "text")
    return CountTokensRequest(_text(raw, "group"), _text(raw, "model"), counted)


def _usage(_: JSON) -> UsageRequest:
    return UsageRequest()


def _forget_limits(raw: JSON) -> ForgetLimitsRequest:
    group = None if raw.get("group") is None else _text(raw, "group")
    if raw.get("models") is None:
        return ForgetLimitsRequest(group)
    models = _list(raw, "models")
    if not all(isinstance(model, str) for model in models):
        raise DecodeError("expected an array of strings", "models")
    return ForgetLimitsRequest(group, models)


METHODS: dict[str, Callable[[JSON], HostRequest]] = {
    "configure": _configure,
    "models": _models,
    "respond": _respond,
    "cancel": _cancel,
    "count_tokens": _count_tokens,
    "usage": _usage,
    "forget_limits": _forget_limits,
}


def _text(raw: JSON, name: str) -> str:
    """Return an optional string; "" if it is missing."""
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DecodeError("expected a string", name)
    return value


def _settings(raw: JSON) -> HostSettings:
    """Return the settings. What is missing is None."""
    as_text = raw.get("errors_as_text")
    if as_text is not None and not isinstance(as_text, bool):
        raise DecodeError("expected true or false", "errors_as_text")
    chosen: Any = {name: _choice(raw, name, get_args(values)) for name, values in _CHOICES.items()}
    return HostSettings(**chosen, errors_as_text=as_text)


def _choice(raw: JSON, name: str, values: tuple[str, ...]) -> str | None:
    chosen = _text(raw, name)
    if chosen and chosen not in values:
        raise DecodeError(f"expected one of {', '.join(values)}", name)
    return chosen or None


def _required_text(raw: JSON, name: str) -> str:
    if not (value := _text(raw, name)):
        raise DecodeError("is missing", name)
    return value


def _list(raw: JSON, name: str) -> list[Any]:
    value = [] if raw.get(name) is None else raw[name]
    if not isinstance(value, list):
        raise DecodeError("expected an array", name)
    return value


def _object(raw: JSON, name: str) -> JSON:
    value = {} if raw.get(name) is None else raw[name]
    if not isinstance(value, dict):
        raise DecodeError("expected an object", name)
    return value


def _headers(raw: JSON) -> dict[str, str]:
    """Return the headers. Errors do not show the values: they may be secrets."""
    headers = _object(raw, "headers")
    if not all(isinstance(value, str) for value in headers.values()):
        raise DecodeError("expected an object of strings", "headers")
    return headers


def _message(raw: Any, place: str) -> ChatMessage:
    try:
        return message_from_json(raw)
    except DecodeError as error:
        raise error.within(place) from None


def _tool(raw: Any, place: str) -> ChatTool:
    if not isinstance(raw, dict):
        raise DecodeError("expected an object", place)
    try:
        schema = raw.get("schema")
        if schema is not None and not isinstance(schema, dict):
            raise DecodeError("expected an object", "schema")
        return ChatTool(_required_text(raw, "name"), _text(raw, "description"), schema)
    except DecodeError as error:
        raise error.within(place) from None
