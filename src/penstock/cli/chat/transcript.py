"""The transcript of a chat: exchanges that can be undone, saved and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.cli import UsageError
from penstock.errors import DecodeError
from penstock.parts.parts import ChatMessage, Role, TextPart, ToolResultPart
from penstock.parts.wire import decode_message, encode_line, message_to_json
from penstock.shared_file import open_private

Exchange = list[ChatMessage]
"""A question with everything that followed: answers, tool calls and their results."""


class Transcript:
    def __init__(self, system: str = "") -> None:
        self.system = system
        self.exchanges: list[Exchange] = []
        self._own_file: Path | None = None

    @property
    def messages(self) -> list[ChatMessage]:
        messages = [message for exchange in self.exchanges for message in exchange]
        return [ChatMessage(Role.SYSTEM, [TextPart(self.system)]), *messages] if self.system else messages

    def add(self, exchange: Sequence[ChatMessage]) -> None:
        self.exchanges.append([*exchange])

    def undo(self) -> str | None:
        """Remove the last exchange and return its question; None if there is none."""
        return text_of(self.exchanges.pop()[0]) if self.exchanges else None

    def clear(self) -> None:
        self.exchanges = []

    def save(self, name: str) -> int:
        """Write one message per line, to a file that only its owner can read; return their number.

        An existing file is overwritten only if this chat loaded it, or saved to it last.
        """
        file = Path(name).expanduser()
        if file.exists() and file != self._own_file:
            raise UsageError(f"{name} already exists: choose another name")
        lines = [encode_line(message_to_json(message)) for message in self.messages]
        try:
            with open(file, "wb", opener=open_private) as opened:
                opened.write(b"".join(lines))
        except OSError as error:
            raise UsageError(f"cannot write {name}: {error.strerror or error}") from None
        self._own_file = file
        return len(lines)

    def load(self, name: str) -> None:
        """Load a saved conversation. A system prompt from the command line overrides the saved one."""
        file = Path(name).expanduser()
        try:
            lines = file.read_bytes().splitlines()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--load: cannot read {name}: {getattr(error, 'strerror', None) or error}"
            ) from None
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                self._add_message(decode_message(line))
            except DecodeError as error:
                raise UsageError(f"--load: {name}:{number}: {error}") from None
        self._own_file = file

    def _add_message(self, message: ChatMessage) -> None:
        if message.role == Role.SYSTEM:
            self.system = self.system or text_of(message)
        elif self.exchanges and not _is_question(message):
            self.exchanges[-1].append(message)
        else:
            self.exchanges.append([message])


def text_of(message: ChatMessage) -> str:
    return "".join(part.value for part in message.content if isinstance(part, TextPart))


def _is_question(message: ChatMessage) -> bool:
    """Return whether this is a user's message and not a tool result."""
    is_result = any(isinstance(part, ToolResultPart) for part in message.content)
    return message.role == Role.USER and not is_result
