"""The families of tools by the type that a request declares. A new family is a file and a row."""

from __future__ import annotations

from penstock.tools.custom import CustomCallStream
from penstock.tools.family import CallStream
from penstock.tools.function import FunctionCallStream

FAMILIES: dict[str, type[CallStream]] = {
    "function": FunctionCallStream,
    "custom": CustomCallStream,
}
