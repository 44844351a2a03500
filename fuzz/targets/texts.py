"""Texts: secrets that must be masked, what a terminal shows, configuration, URLs, ids and cursors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from fuzz.target import Target
from fuzz.targets.pieces import ways_to_cut
from penstock.cli.chat.markdown import MarkdownRenderer
from penstock.cli.terminal_text import CONTROLS, escaped, one_line, safe
from penstock.dialects.envelope import key_of, unseal
from penstock.errors import ConfigError, DecodeError, InvalidRequestError
from penstock.failures import classify
from penstock.formatting import columns
from penstock.gateway.config.file import read_settings
from penstock.gateway.config.key_edits import key_entry, names_of, with_key, with_new_hash, without_key
from penstock.gateway.config.toml_lines import TomlLines, parse
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.sealing import Sealer
from penstock.gateway.http.paging import number, page_options
from penstock.likely_secrets import mask_likely_secrets
from penstock.models.identity import parse_model_id
from penstock.models.overrides import parse_override
from penstock.net.error_responses import refusal
from penstock.net.masking import Secrets, secrets_in, secrets_in_query
from penstock.net.urls import is_loopback, is_private, read_address, read_proxy
from penstock.store.ledger import position_of

# Masking

SECRET = 'sk-f"uzz/ä&7Q2wX9'
"""Characters that JSON, URLs and HTML write in different ways."""
KEY = b"KEY"
"""Where an input has this, the secret is inserted, spelled in different ways."""
SPELLINGS = (
    SECRET,
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
)


def mask(data: bytes) -> None:
    secrets = Secrets([SECRET])
    for spelling in SPELLINGS:
        leaking = data.replace(KEY, spelling.encode())
        text = leaking.decode("utf-8", "replace")
        _assert_masked(secrets.mask(text))
        _assert_masked(secrets.mask_body(leaking).decode("utf-8", "replace"))
        failure = refusal(400, {"content-type": "application/json"}, leaking, secrets)
        _assert_masked(f"{failure} {failure.message} {failure!r} {failure.code} {failure.param}")
        for pieces in (*ways_to_cut(leaking), *_cuts_within(leaking, spelling.encode())):
            before, masked = b"", b""
            for piece in filter(None, pieces):
                masked += secrets.mask_bytes(piece, before)
                before = (before + piece)[-2 * len(SECRET) :]
            _assert_masked(masked.decode("utf-8", "replace"))
    with suppress(ValueError, RecursionError):
        value = json.loads(data.replace(KEY, json.dumps(SECRET)[1:-1].encode()))
        _assert_no_secret_in(secrets.mask_value(value))
        if isinstance(value, dict):
            secrets.mask_event(value)


def _cuts_within(data: bytes, secret: bytes) -> Iterator[list[bytes]]:
    """Cut the first and the last secret at every place."""
    for begin in {data.find(secret), data.rfind(secret)} - {-1}:
        for at in range(begin + 1, begin + len(secret)):
            yield [data[:at], data[at:]]


def _assert_masked(text: str) -> None:
    for spelling in SPELLINGS:
        assert spelling not in text, "the key survived"


def _assert_no_secret_in(value: Any) -> None:
    """Look at every string, and at every name."""
    if isinstance(value, str):
        assert SECRET not in value, "the key survived"
    elif isinstance(value, list):
        for each in value:
            _assert_no_secret_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            _assert_no_secret_in(name)
            _assert_no_secret_in(each)


LIKELY = "sk-proj-4f9Q2wX9abcdefgh1234567890"


def mask_likely(data: bytes) -> None:
    """A key that nobody named, alone between spaces, is recognised in any text."""
    text = data.decode("utf-8", "replace")
    assert LIKELY not in mask_likely_secrets(f"{text} {LIKELY} {text}")
    headers = dict(line.partition(":")[::2] for line in text.splitlines())
    list(secrets_in(headers))
    list(secrets_in_query(text))


def classify_failure(data: bytes) -> None:
    """Whatever a server answers with an error status: a message that can be shown."""
    for status in (400, 401, 404, 429, 500, 529):
        failure = classify(status, {"retry-after": data[:40].decode("latin-1")}, data)
        assert failure.code
        assert failure.message.encode()
        assert failure.retry_after is None or 0 <= failure.retry_after < float("inf")


# Terminals

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def render(pieces: list[str]) -> str:
    renderer = MarkdownRenderer(width=lambda: 40)
    return "".join(renderer.feed(piece) for piece in pieces) + renderer.end()


def markdown(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    whole = render([text])
    assert not CONTROLS.search(STYLE.sub("", whole)), "a control character reaches the terminal"
    for cut in ways_to_cut(data):
        ends = 0
        pieces = []
        for piece in cut:  # the same places, in characters
            begin, ends = ends, ends + len(piece)
            pieces.append(text[begin:ends])
        pieces.append(text[ends:])
        assert STYLE.sub("", render(pieces)) == STYLE.sub("", whole)
    assert not CONTROLS.search(safe(text))
    assert not CONTROLS.search(escaped(text))
    assert columns(one_line(text, 20)) <= 20


# Configuration

ENVIRONMENT = {"OPENAI_API_KEY": "sk-openai-1234", "KEY": "k", "EMPTY": " "}


def configuration(data: bytes) -> None:
    """A file gives settings, or an error with a line of the file."""
    text = data.decode("utf-8", "replace")
    try:
        settings = read_settings(text, file="/nowhere/penstock.toml", environment=ENVIRONMENT)
    except ConfigError as error:
        assert str(error)
        assert "sk-openai-1234" not in str(error)
    else:
        assert "sk-openai-1234" not in repr(settings.targets)
    with suppress(ConfigError):
        document = parse(text, "f")
        lines = TomlLines(text)
        _check_lines(document, lines, text.count("\n") + 1)


def _check_lines(table: dict[str, Any], lines: TomlLines, last: int) -> None:
    for name in table:
        assert (name,) in lines.spans
        assert 1 <= lines.line((name,)) <= last


def key_file(data: bytes) -> None:
    """Editing keys changes nothing else in a file, or is refused."""
    file, entry = "f", key_entry("fuzzed", "sha256:00", {"models": ["a", 'b"c']})
    try:
        names = names_of(data, file)
        changed = with_key(data, "fuzzed", entry, file)
    except ConfigError:
        return
    assert names_of(changed, file) == [*names, "fuzzed"]
    with suppress(ConfigError):
        rehashed = with_new_hash(changed, "fuzzed", "sha256:11", "2026-12-01T00:00:00Z", file)
        assert names_of(rehashed, file) == [*names, "fuzzed"]
    with suppress(ConfigError):
        removed = without_key(changed, "fuzzed", file)
        assert parse(removed.decode("utf-8-sig"), file).get("keys", []) == parse(
            data.decode("utf-8-sig"), file
        ).get("keys", [])


# URLs, ids, cursors


def urls(data: bytes) -> None:
    url = data.decode("utf-8", "replace")
    with suppress(InvalidRequestError):
        address = read_address(url)
        assert address.host_header.isascii()
        assert address.request_target(address.url("a/b", q="c")).isascii()
        assert "\r" not in address.path and "\n" not in address.path
    with suppress(InvalidRequestError):
        read_proxy(url)
    is_loopback(url), is_private(url)


SEALER = Sealer("a secret of a test")


def ids(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse_model_id(text)
    with suppress(DecodeError):
        parse_override(text)
    assert number(text, -1) >= -1
    with suppress(RequestRefused):
        page_options({"limit": text, "after": text})
    with suppress(ValueError):
        moment, id = position_of(text)
        assert moment == moment and id
    sealed = unseal(text)
    if sealed is not None:
        msgspec.json.encode(sealed)
    assert isinstance(key_of(text), str)
    SEALER.open("tenant", text)


_target = partial(Target, group="texts")

TARGETS = [
    _target(
        name="masking",
        about="a key never survives, however it is spelled and cut",
        run=mask,
        format="json",
        words=("net.masking", "failures"),
        base_work=400_000,
        work_per_byte=1500,
    ),
    _target(
        name="likely_secrets",
        about="a key that nobody named is recognised in any text",
        run=mask_likely,
        format="lines",
        words=("likely_secrets", "net.masking"),
    ),
    _target(
        name="failures",
        about="error bodies of any server",
        run=classify_failure,
        format="json",
        words=("failures",),
        work_per_byte=1500,
    ),
    _target(
        name="markdown",
        about="a model's text in a terminal, whatever the cuts",
        run=markdown,
        format="lines",
        words=("cli.chat",),
        work_per_byte=2000,
    ),
    _target(
        name="configuration",
        about="penstock.toml: settings, or errors with their lines",
        run=configuration,
        format="lines",
        words=("gateway.config", "gateway.settings", "dialects.presets"),
        base_work=200_000,
        work_per_byte=1500,
    ),
    _target(
        name="key_file",
        about="edits of keys change nothing else",
        run=key_file,
        format="lines",
        words=("gateway.config.keys", "gateway.config.key_edits"),
        work_per_byte=1500,
    ),
    _target(name="urls", about="URLs of endpoints and proxies", run=urls, words=("net.urls",)),
    _target(
        name="ids",
        about="ids, cursors, model names and sealed texts",
        run=ids,
        words=("models.identity", "models.overrides", "dialects.envelope", "gateway.history.sealing"),
    ),
]
