"""The families of tools by declared type. A new family is a new file and a row here."""

from __future__ import annotations

from penstock.tools.custom import CustomCallStream
from penstock.tools.family import CallStream
from penstock.tools.function import FunctionCallStream

FAMILIES: dict[str, type[CallStream]] = {
    "function": FunctionCallStream,
    "custom": CustomCallStream,
}
