"""The values of VS Code's Language Model API."""

from __future__ import annotations

import pytest
from penstock.parts.parts import DataPart
from penstock.parts.parts import ThinkingPart, ToolCallPart


def test_the_helpers_of_a_data_part() -> None:
    assert DataPart.image(PNG, "image/png") == IMAGE
    assert DataPart.json({"a": [1, None]}) == DataPart(b'{"a":[1,null]}', "text/x-json")
    assert DataPart.json("é", "application/json") == DataPart('"é"'.encode(), "application/json")
    assert DataPart.text("é") == DataPart("é".encode(), "text/plain")
