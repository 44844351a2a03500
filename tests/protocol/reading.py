"""Reads values as a client or a vendor sends them, and JSON values of any shape."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from penstock.protocol.request import (
    CreateResponse,
)
from penstock.protocol.wire import Wire, encode, read

quiet = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def request(**fields: Any) -> CreateResponse:
    return read(fields, CreateResponse)


def item(fields: dict[str, Any]) -> Any:
    """Read `fields` as the only item of a request."""
    items = request(input=[fields]).input
    assert isinstance(items, list)
    return items[0]


def back(value: Wire) -> Any:
    return msgspec.json.decode(encode(value))


# Hostile values
NAMES = ("type", "id", "role", "content", "tools", "input", "response", "item", "error", "name", "extra")
TYPES = ("message", "function_call", "namespace", "json_schema", "output_text", "allowed_tools")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(TYPES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
