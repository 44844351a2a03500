"""The JSON Schema of `penstock.toml`, for editors, from the tables and readers that check the file.

A schema cannot express everything that `penstock config check` checks, such as unknown targets or variables
that are not set. What it rejects, the check rejects as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.dialects.plan import Quirks
from penstock.dialects.presets import KEY_HEADERS, PRESETS
from penstock.dialects.registry import RENDERED
from penstock.gateway.config.file import LIMITS, PORT, SERVER, TELEMETRY, TOP, metrics_address
from penstock.gateway.config.keys import KEY, RATE, key_hash, key_name, moment, read_budget
from penstock.gateway.config.models import GROUP_TARGET, MODEL, weight_number
from penstock.gateway.config.routing import ROUTING
from penstock.gateway.config.secrets import SECRET_HEADERS, VARIABLE
from penstock.gateway.config.store import STORE
from penstock.gateway.config.targets import TARGET, TARGET_NAME, quirk_reader
from penstock.gateway.config.values import (
    ABOVE,
    ValueReader,
    flag,
    matching,
    nonempty,
    one_of,
    seconds_or_off,
    text,
    worker_number,
)
from penstock.gateway.settings import DEMO, LOG_LEVELS, Limits, Routing, Settings, TelemetrySettings
from penstock.stream.accents import ACCENTS

Schema = Mapping[str, Any]
Row = tuple[str, ValueReader[Any] | Schema]
"""What a setting means, and what its values are."""


def _list(items: Schema, **more: object) -> Schema:
    return {"type": "array", "items": items, **more}


_VARIABLE = matching(VARIABLE)
_SECRET_HEADER = matching(re.compile("|".join(sorted(SECRET_HEADERS)), re.IGNORECASE))["pattern"]
_HOST = {"type": "string", "pattern": r"^[^/*]+$"}
_ORIGIN = {"type": "string", "pattern": r"^\s*[A-Za-z][A-Za-z0-9+.-]*://[^/*]+\s*$"}
_ADDRESS = {"type": "string", "pattern": r"^\s*[hH][tT][tT][pP][sS]?://[^{?]+(?:\?.*)?$"}
_ALLOWED_MODEL = {"type": "string", "pattern": r"^[^*]*\S\s*$"}

SERVER_ROWS: dict[str, Row] = {
    "host": ("The address to listen on. One that other machines can reach requires [[keys]].", nonempty),
    "port": ("The port; 0 picks a free one.", PORT),
    "tls_cert": ("The certificate chain for HTTPS, as PEM.", nonempty),
    "tls_key": ("The private key of tls_cert, without a password.", nonempty),
    "log_level": ("What is logged.", one_of("", LOG_LEVELS)),
    "store": ('A file for responses, or "none" for an in-memory store.', nonempty),
    "workers": ('Processes that share the address and the store; "auto": one per processor.', worker_number),
    "record": ("Whether the upstreams' bytes are stored, for `penstock replay`.", flag),
    "websocket": ("Whether WebSockets are accepted.", flag),
    "inspector": ("Whether the gateway has a web page at `/`.", flag),
    "allowed_hosts": ("Names that the Host header may have if there are no [[keys]].", _list(_HOST)),
    "allowed_origins": ("Origins whose web pages may use the gateway.", _list(_ORIGIN)),
    "metrics": ('An address of its own for /metrics, such as "127.0.0.1:9464".', metrics_address),
    "metrics_token_env": ("The environment variable with the token for /metrics.", _VARIABLE),
}
STORE_ROWS: dict[str, Row] = {
    "url": ("A file, or postgresql://USER:$PASSWORD@HOST/DATABASE for workers on any machine.", nonempty),
    "direct_url": ("The database itself, if url is a pooler of transactions.", nonempty),
    "redis": ("A Redis or Valkey server, for faster messages between workers.", nonempty),
}
LIMIT_DESCRIPTIONS = {
    "body_bytes": "Size of a request after decompression.",
    "answer_bytes": "Size of an upstream's answer.",
    "output_items": "Items of an upstream's answer.",
    "input_items": "Items of a request.",
    "tools": "Tools of a request, including those in namespaces and items.",
    "content_parts": "Content parts of all items of a request together.",
    "body_values": "JSON values of a request, anywhere in it.",
    "patience": "How long a failure can still be sent as an HTTP status.",
    "comment_every": "Silence after which a comment line is sent.",
    "event_every": "Silence after which response.in_progress is repeated.",
    "retries": "Retries at one target before the next target of the chain.",
    "retry_wait": "Total time that one turn may wait for retries.",
    "client_timeout": "A client that reads nothing for this long is disconnected.",
    "drain": "How long running turns may continue after SIGTERM.",
    "disconnect_grace": "How long a stored stream continues after a disconnect.",
    "store_days": "How many days a response is stored.",
    "ledger_days": "How many days the ledger has a record of a turn.",
    "store_bytes": "Maximum size of the store; beyond it, the oldest responses are deleted.",
    "max_turns": 'Concurrent turns; 0 or "off": unlimited.',
    "connections": 'Connections of clients; "auto": half of the files that the process may open.',
}
ROUTING_DESCRIPTIONS = {
    "affinity": "Whether all turns of a conversation go to the same key and target.",
    "prompt_cache_key": "Whether one is derived for clients that send none.",
    "eject_after": 'Failures in a row after which a target is left out; 0 or "off": never.',
    "eject_time": "How long a target is left out the first time; it doubles while it keeps failing.",
    "eject_time_max": "How long a target is left out at most.",
}
TELEMETRY_ROWS: dict[str, Row] = {
    "enabled": ("Whether traces and metrics are exported to OpenTelemetry, as OTEL_* variables say.", flag),
    "content": ("Whether prompts, answers and the arguments of tools are exported, too.", flag),
    "propagate": ("Whether upstreams get the gateway's trace context instead of the client's.", flag),
}
TARGET_ROWS: dict[str, Row] = {
    "preset": ("A vendor: sets address, dialect, quirks and the variable of the key.", one_of("", PRESETS)),
    "base_url": ("The address, with or without /v1. Required without a preset.", _ADDRESS),
    "dialect": ("The API format.", one_of("", RENDERED)),
    "key_header": ("How a key is sent.", one_of("", KEY_HEADERS)),
    "keys": ("Environment variables that contain keys. Never the keys themselves.", _list(_VARIABLE)),
    "spread_keys": ("Whether conversations are spread over the keys; false: used in order.", flag),
    "pass_key": ("Whether a key from the client takes precedence.", flag),
    "headers": (
        "Sent with every request. $NAME is an environment variable, $$ a dollar sign.",
        {
            "type": "object",
            "propertyNames": {"pattern": r"^\S+$"},
            "patternProperties": {_SECRET_HEADER: {"pattern": r"^$|\$"}},
            "additionalProperties": {"type": "string", "pattern": r"^[^\r\n]*$"},
        },
    ),
    "quirks": ("The vendor's deviations; these override the preset's.", {}),
    "connect_timeout": ("Maximum time for opening a connection.", seconds_or_off),
    "first_byte_timeout": ("Maximum time until the first byte of the answer.", seconds_or_off),
    "idle_timeout": ("Maximum time between two bytes of the answer.", seconds_or_off),
    "ca_file": ("The certificate authorities to trust, as PEM.", nonempty),
    "client_cert": ("The client certificate, as PEM.", nonempty),
    "client_key": ("The key of client_cert, as PEM.", nonempty),
    "proxy": ("The URL of a proxy; empty: none. By default from the environment.", text),
}
GROUP_ROWS: dict[str, Row] = {
    "target": ("The target, or TARGET/MODEL.", nonempty),
    "weight": ("Its share of the conversations, in proportion to the others of the group.", weight_number),
}
MODEL_ROWS: dict[str, Row] = {
    "target": ("The target of this model, or TARGET/MODEL.", nonempty),
    "targets": (
        "A fallback chain: if one fails, the next is tried. Conversations are spread over a list inside it.",
        {},
    ),
    "model": ("The model's name at every target that does not specify one.", nonempty),
    "limits": ('Limits and capabilities, such as "window:128k output:16k no-images tools".', nonempty),
}
_BUDGETS = {"anyOf": [read_budget.schema, _list(read_budget.schema)]}
KEY_ROWS: dict[str, Row] = {
    "name": ("Shown in logs; the owner of everything that the client stores.", key_name),
    "hash": ("The SHA-256 of the key, written by `penstock keys create`.", key_hash),
    "accent": ("The event naming for this client.", one_of("", ACCENTS)),
    "admin": ("Whether the key sees the turns and metrics of all keys.", flag),
    "expires": ("When the key expires: a date, which includes that day, or a date and time.", moment),
    "models": ("The names that it may use; a * only at the end.", _list(_ALLOWED_MODEL, minItems=1)),
    "requests_per_minute": ("Requests in a sliding minute.", RATE),
    "tokens_per_minute": ("Tokens in a sliding minute.", RATE),
    "concurrent_turns": ("Turns at the same time.", RATE),
    "budget": ('A budget such as "20 USD/month" or "1000000 tokens/day", or a list of them.', _BUDGETS),
    "previous_hash": ("The key before the last rotation.", key_hash),
    "previous_expires": ("Until when the key before the last rotation is accepted.", moment),
}
_IS_TELEMETRY_COMPLETE = [
    {"required": ["enabled"], "properties": {"enabled": {"const": True}}},
    {"properties": {"content": {"const": False}, "propagate": {"const": False}}},
]
_TARGET_NAME = {"pattern": f"^{TARGET_NAME.pattern}$", "not": {"const": DEMO}}
_MODEL_NAME = {"pattern": r"^[^\s*]+$", "not": {"const": DEMO}}
_ALIAS_NAME = {"pattern": r"^(?:[^\s*]+|\*)$", "not": {"enum": [DEMO, *ABOVE]}}
_WITH_OWN_ADDRESS = sorted(row.name for row in PRESETS.values() if "{" in row.base_url)


def config_schema() -> dict[str, Any]:
    """Return the schema of a whole file."""
    keys = _table(KEY, KEY_ROWS)
    keys["properties"]["operator"] = {
        "description": "The old spelling of admin.",
        "deprecated": True,
        **flag.schema,
    }
    sections: dict[str, Row] = {
        "default_model": ("The model of requests that name none.", nonempty),
        "passthrough": ("The target that gets every other model name, unchanged.", nonempty),
        "server": (
            "Where and how the gateway listens.",
            {
                **_table(SERVER, SERVER_ROWS, Settings()),
                "dependentRequired": {"tls_cert": ["tls_key"], "tls_key": ["tls_cert"]},
            },
        ),
        "store": ("Where responses are stored.", _table(STORE, STORE_ROWS)),
        "limits": ("Limits and timeouts.", _table(LIMITS, _limit_rows(), Limits())),
        "routing": (
            "How turns are distributed over keys and targets.",
            _table(ROUTING, _routing_rows(), Routing()),
        ),
        "telemetry": (
            "Traces and metrics for OpenTelemetry.",
            {**_table(TELEMETRY, TELEMETRY_ROWS, TelemetrySettings()), "anyOf": _IS_TELEMETRY_COMPLETE},
        ),
        "targets": ("The upstreams.", _named(_target(), _TARGET_NAME)),
        "models": ("Your own names of models.", _named(_model(), _MODEL_NAME)),
        "aliases": ("Alternative names of models.", _named(nonempty.schema, _ALIAS_NAME)),
        "accents": (
            "Event naming by the prefix of a User-Agent.",
            _named(one_of("", ACCENTS).schema, {"pattern": r"\S"}),
        ),
        "keys": (
            "The clients that may use the gateway; `penstock keys create NAME` adds one.",
            _list(
                {
                    **keys,
                    "required": ["name", "hash"],
                    "dependentRequired": {
                        "previous_hash": ["previous_expires"],
                        "previous_expires": ["previous_hash"],
                    },
                }
            ),
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "penstock.toml",
        "description": "The settings of a Penstock gateway.",
        **_table(TOP, sections),
    }


def _table(names: Iterable[str], rows: Mapping[str, Row], defaults: object = None) -> dict[str, Any]:
    """Return the schema of a table with exactly these settings."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _described(*rows[name], getattr(defaults, name, None)) for name in names},
    }


def _described(description: str, values: ValueReader[Any] | Schema, default: object) -> Schema:
    schema = {"description": description, **(values.schema if isinstance(values, ValueReader) else values)}
    return schema if default in (None, "", ()) else {**schema, "default": default}


def _named(each: Schema, names: Schema) -> Schema:
    """Return the schema of a table with names that the user chooses."""
    return {"type": "object", "propertyNames": names, "additionalProperties": each}


def _limit_rows() -> dict[str, Row]:
    return {name: (LIMIT_DESCRIPTIONS[name], reader) for name, reader in LIMITS.items()}


def _routing_rows() -> dict[str, Row]:
    return {name: (ROUTING_DESCRIPTIONS[name], reader) for name, reader in ROUTING.items()}


def _target() -> Schema:
    quirks = {name: ("", quirk_reader(name)) for name in Quirks.__struct_fields__}
    schema = _table(TARGET, {**TARGET_ROWS, "quirks": (TARGET_ROWS["quirks"][0], _table(quirks, quirks))})
    return {
        **schema,
        "anyOf": [{"required": ["base_url"]}, {"required": ["preset"]}],
        "if": {"properties": {"preset": {"enum": _WITH_OWN_ADDRESS}}, "required": ["preset"]},
        "then": {"required": ["base_url"]},
        "dependentRequired": {"client_key": ["client_cert"]},
    }


def _model() -> Schema:
    weighted = {**_table(GROUP_TARGET, GROUP_ROWS), "required": ["target"]}
    group = _list({"anyOf": [nonempty.schema, weighted]}, minItems=1)
    targets = _list({"anyOf": [nonempty.schema, group]}, minItems=1)
    rows = {**MODEL_ROWS, "targets": (MODEL_ROWS["targets"][0], targets)}
    return {**_table(MODEL, rows), "not": {"required": ["target", "targets"]}}
