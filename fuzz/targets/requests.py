"""Requests of clients: what they are, what becomes of them at every upstream, and what editors send."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import cache, partial
from itertools import count
from typing import Any

import msgspec
from tests.gateway.in_process import Caller

from fuzz.target import Target
from fuzz.targets.inline import InlineExecutor
from penstock.demo import DIALECT as DEMO_DIALECT
from penstock.demo.request import DemoRequest
from penstock.demo.script import script_of
from penstock.demo.upstream import DemoUpstream
from penstock.demo.wishes import wishes_in
from penstock.dialects.plan import Dialect
from penstock.dialects.plan import Target as ModelTarget
from penstock.dialects.presets import target_for
from penstock.dialects.registry import rendered_dialect
from penstock.dialects.toolset import identities_of, plan_for
from penstock.errors import DecodeError
from penstock.gateway.api.websocket_frames import STREAM_ID, address_of, read_create
from penstock.gateway.app import GatewayApp
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import normalised, public_request
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Limits, Settings
from penstock.gateway.turn.requests import (
    fingerprints,
    own_diagnostics,
    read_request,
    used_call_ids,
)
from penstock.lenient import is_json, parse_json, read_json
from penstock.models.listing import read_listing
from penstock.parts.messages import translate_messages
from penstock.parts.wire import decode_message, encode_line, message_to_json
from penstock.protocol.large_json import encode_in_pieces, encode_stepwise, has_more_values, parse_in_pieces
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.wire import encode, parse, read, to_builtins
from penstock.replay.recording import CannotReplay, exported_recording, read_exported
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter
from penstock.tokens.media import file_tokens, image_size, image_tokens
from penstock.tokens.request_estimates import count_input, estimate_usage
from penstock.upstream.affinity import conversation_root

LIMITS = Limits()

# JSON


def read_all_json(data: bytes) -> None:
    """Every reader of JSON agrees about a document, and about how many values it has."""
    text = data.decode("utf-8", "replace")
    strict = _outcome(parse, data)
    assert _outcome(parse_in_pieces, data) == strict or TOO_DEEP in (_outcome(parse_in_pieces, data), strict)
    lenient = read_json(text)
    with suppress(ValueError):
        assert parse_json(text) == lenient or lenient != lenient  # not a number
    if strict[0] == "value":
        values = _values(strict[1])
        assert not has_more_values(data, values + data.count(b",") + data.count(b"[") + data.count(b"{"))
        assert values <= 1 or has_more_values(data, 0)
        written = encode_stepwise(strict[1])
        assert b"".join(encode_in_pieces(strict[1])) == written == encode(strict[1])
        assert is_json(text) or not data.isascii()


TOO_DEEP = ("refused", "nested too deeply")
"""How deep is too deep depends on the caller."""


def _outcome(read_json: Any, data: bytes) -> tuple[str, Any]:
    try:
        return "value", read_json(data)
    except DecodeError as error:
        return "refused", str(error)


def _values(value: Any) -> int:
    each = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_values, each))


# POST /v1/responses

DIALECTS: tuple[tuple[str, str, str], ...] = (
    ("chat", "openai", "gpt-5.2"),
    ("chat", "deepseek", "deepseek-reasoner"),
    ("chat", "openrouter", "anthropic/claude-opus-4.7"),
    ("chat", "", "qwen3-32b"),
    ("responses", "openai", "gpt-5.2"),
    ("responses", "", "m"),
    ("anthropic", "anthropic", "claude-opus-4-7"),
    ("anthropic", "", "claude-3-5-haiku-latest"),
    ("gemini", "gemini", "gemini-3-pro"),
    ("gemini", "gemini", "gemini-2.5-flash"),
)
"""Dialect, vendor and model of the upstreams that every request is rendered for."""


@cache
def _upstream(name: str, vendor: str, model: str) -> tuple[Dialect, ModelTarget]:
    return rendered_dialect(name), target_for(model, vendor, dialect=name, key="k")


COUNTER = TokenCounter()


def prepare(data: bytes) -> None:
    """A request is refused with a typed error, or rendered for every upstream."""
    try:
        request = read_request(data, "demo", LIMITS)
    except RequestRefused as refused:
        assert 400 <= refused.status < 500
        assert json.loads(refused.body())["error"]["message"]
        return
    prepared(request)
    for row in DIALECTS:
        dialect, target = _upstream(*row)
        try:
            rendered = dialect.render(plan_for(request, target))
        except DecodeError:
            continue
        body = rendered.data or encode(rendered.body)
        assert isinstance(msgspec.json.decode(body), dict)
        for diagnostic in rendered.diagnostics:
            assert diagnostic.code
            assert diagnostic.message.encode("utf-8", "surrogatepass")
    demo(request)


def prepared(request: CreateResponse) -> None:
    """What the gateway does with every request, whatever its upstream."""
    identities_of(request)
    used_call_ids(request)
    conversation_root(request, "tenant")
    fingerprints(request)
    own_diagnostics(request)
    encode(public_request(request))
    response = response_for(request, id="resp_1", created_at=0)
    again = read(msgspec.json.decode(encode(request)), CreateResponse)
    assert to_builtins(again) == to_builtins(request)
    items = request.input if isinstance(request.input, list) else []
    for item in items:
        encode(normalised(item))
    assert count_input(request, "gpt-5.2", COUNTER) >= 0
    usage = estimate_usage(request, "claude-opus-4-7", items, COUNTER)
    assert min(usage.input_tokens or 0, usage.output_tokens or 0, usage.reasoning_tokens or 0) >= 0
    encode(response)


def demo(request: CreateResponse) -> None:
    """The demo model answers every request that it accepts."""
    try:
        rendered = DEMO_DIALECT.render(plan_for(request, ModelTarget(model="demo", dialect="demo")))
        body = msgspec.convert(rendered.body, DemoRequest)
    except DecodeError:
        return
    wishes = wishes_in(body.prompt)
    if wishes.refused is None:
        script_of(body, wishes)


# A whole gateway

_PATIENCE = 3000


async def _asked(data: bytes, path: str) -> Caller:
    asyncio.get_running_loop().set_default_executor(InlineExecutor(1))
    settings = Settings()
    numbers = count()
    gateway = Gateway(settings, store=MemoryStore(clock=lambda: float(next(numbers))))

    async def no_pause(_: float) -> None:
        await asyncio.sleep(0)

    known: dict[str, Any] = {DEMO: DemoUpstream(no_pause, pace=0)}
    gateway.services = Services(settings, known, gateway.metrics, COUNTER)
    caller = Caller(gateway, path, data=data, app=GatewayApp)
    for _ in range(_PATIENCE):
        if caller.task.done():
            break
        await asyncio.sleep(0)
    else:
        caller.disconnect()
    await asyncio.wait([caller.task], timeout=10)
    assert caller.task.done()
    caller.task.result()
    await gateway.aclose()
    return caller


PATHS = (
    "/v1/responses",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "/v1/conversations",
    "/v1/chat/completions",
)


def ask_gateway(data: bytes) -> None:
    """`/path` and a line feed, then the body: never an internal error."""
    line, _, rest = data.partition(b"\n")
    path = line.decode("latin-1")
    if path not in PATHS:
        path, rest = PATHS[0], data
    caller = asyncio.run(_asked(rest, path))
    if not caller.sent:
        return  # the demo model was asked to be silent, and the client has left
    assert caller.status != 500, caller.body
    if caller.status >= 400:
        assert caller.error["message"]


# Other input


def read_frame(data: bytes) -> None:
    """A frame that a client sends over a WebSocket."""
    frame = data.decode("utf-8", "replace")
    address = address_of(frame)
    if isinstance(address.stream_id, str):
        STREAM_ID.fullmatch(address.stream_id)
    try:
        create = read_create(frame, LIMITS)
    except RequestRefused as refused:
        refused.body()
        return
    prepared(create.request)


def read_messages(data: bytes) -> None:
    """Messages of an editor, one per line: what is sent for them, and what they count."""
    messages = []
    for line in data.splitlines():
        try:
            message = decode_message(line)
        except DecodeError:
            continue
        messages.append(message)
        again = decode_message(encode_line(message_to_json(message)))
        assert message_to_json(again) == message_to_json(message)
    for role in ("system", "developer"):
        translated = translate_messages(messages, model="m", endpoint="e", system_role=role)
        if translated.input:
            read_request(encode({"model": "m", "input": translated.input}), "demo", LIMITS)
    for model in ("gpt-5.2", "claude-opus-4-7"):
        assert COUNTER.count_conversation(model, messages).tokens >= 0


def read_media(data: bytes) -> None:
    size = image_size(data)
    assert size is None or min(size) > 0
    for model in ("gpt-5.2", "gpt-4o", "claude-opus-4-7", "gemini-3-pro", "m"):
        assert image_tokens(model, data) >= 0
    assert file_tokens(data) >= 0


def read_models(data: bytes) -> None:
    """The list of models of any server."""
    value = read_json(data.decode("utf-8", "replace"))
    entries = value.get("data", value.get("models")) if isinstance(value, dict) else value
    for facts in read_listing(entries if isinstance(entries, list) else []):
        encode(facts)


def read_exports(data: bytes) -> None:
    """Exported responses with their traces, of this version or another."""
    for line in data.splitlines():
        try:
            record = read_exported(line)
            if record is not None:
                exported_recording(record)
        except (DecodeError, CannotReplay):
            continue


_target = partial(Target, group="requests", format="json")

TARGETS = [
    _target(
        name="json",
        about="every reader of JSON agrees",
        run=read_all_json,
        words=("lenient",),
    ),
    _target(
        name="request",
        about="POST /v1/responses: a typed error, or requests for every upstream",
        run=prepare,
        words=(
            "protocol",
            "tools",
            "gateway.turn.requests",
            "dialects.history",
            "dialects.schemas",
            "demo.wishes",
        ),
        base_work=400_000,
        work_per_byte=3000,
    ),
    _target(
        name="gateway",
        about="a whole gateway with the demo model: never an internal error",
        run=ask_gateway,
        words=("protocol", "tools", "gateway", "demo"),
        base_work=1_000_000,
        work_per_byte=4000,
    ),
    _target(
        name="websocket_json",
        about="what a client sends over a WebSocket",
        run=read_frame,
        words=("protocol", "gateway.api.websocket_frames"),
        base_work=200_000,
        work_per_byte=1000,
    ),
    _target(
        name="messages",
        about="an editor's messages, one per line",
        run=read_messages,
        format="json lines",
        words=("parts",),
        base_work=200_000,
        work_per_byte=1500,
    ),
    _target(
        name="media",
        about="sizes of images and files",
        run=read_media,
        format="bytes",
        words=("tokens.media",),
    ),
    _target(name="models", about="lists of models", run=read_models, words=("models",)),
    _target(
        name="exports",
        about="exported recordings",
        run=read_exports,
        format="json lines",
        words=("replay.recording", "gateway.telemetry.traces", "store.records", "protocol"),
    ),
]
