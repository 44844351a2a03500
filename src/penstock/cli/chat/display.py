"""Show a running turn on a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from penstock.cli.chat.markdown import MarkdownRenderer, painted
from penstock.cli.chat.markdown_inline import DIM, Span
from penstock.cli.chat.prompt import Prompt
from penstock.cli.chat.screen import Screen
from penstock.cli.chat.word_wrap import WordWrap
from penstock.cli.terminal_text import one_line, safe, shortened
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from penstock.provider.loop import Listener

_RESULT_LINES = 4


class TurnDisplay(Listener):
    """Show one turn on the screen."""

    def __init__(
        self,
        screen: Screen,
        prompt: Prompt,
        *,
        thinking: str,
        always: set[str],
        allow_all: bool,
        asking: Callable[[], AbstractContextManager[None]],
        interrupted: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the display.

        `thinking`: folded, full or none. `always`: tools that run without asking; answers may add to it.
        `asking`: a context for the terminal prompt. `interrupted`: called for Ctrl-C at that prompt.
        """
        self._screen, self._prompt = screen, prompt
        self._thinking = thinking
        self._always, self._allow_all = always, allow_all
        self._asking, self._interrupted = asking, interrupted
        self._clock = clock
        self._markdown = MarkdownRenderer(
            coloured=screen.coloured, unicode=screen.unicode, width=lambda: screen.width
        )
        self._thoughts = WordWrap(lambda: screen.width)
        self._dots = "…" if screen.unicode else "..."
        self._fold = _Fold()
        self._busy = "waiting"
        self._since = clock()

    def tick(self) -> None:
        """Update the status line."""
        if self._fold.is_open and self._thinking == "folded":
            self._screen.status(f"thinking {self._dots} ({self._fold.summary(self._clock())})")
        elif self._busy:
            self._screen.status(f"{self._busy} {self._dots} {int(self._clock() - self._since)} s")

    def part(self, part: Part) -> None:
        if isinstance(part, ThinkingPart):
            self._think("".join(part.value))
            return
        self._end_thinking()
        if isinstance(part, TextPart):
            self._busy = ""
            self._screen.write(self._markdown.feed(part.value))
        elif isinstance(part, ToolCallPart):
            self._end_text()  # `may_run` shows the call
        elif isinstance(part, DataPart) and "/" in part.mime:
            self._screen.line(f"[{one_line(part.mime)}, {len(part.data):,} bytes]", "dim")

    async def may_run(self, call: ToolCallPart) -> bool:
        self._end()
        shown = call_line(call, self._screen.width)
        arrow = "→" if self._screen.unicode else "->"
        self._screen.line(f"{arrow} {self._screen.paint(shown, 'cyan')}")
        if self._allow_all or call.name in self._always:
            self._wait(f"running {one_line(call.name)}")
            return True
        with self._asking():
            try:
                answer = self._prompt.ask("  run it? (y = yes, n = no, a = always allow this tool) ")
            except KeyboardInterrupt:
                self._screen.typed()
                self._interrupted()
                return False
        if answer in ("a", "always"):
            self._always.add(call.name)
        is_allowed = answer in ("y", "yes", "a", "always")
        if is_allowed:
            self._wait(f"running {one_line(call.name)}")
        return is_allowed

    def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
        self._end()
        arrow = "←" if self._screen.unicode else "<-"
        lines = result_lines(result, self._screen.width - 6)
        for number, line in enumerate(lines):
            prefix = f"{arrow} {one_line(call.name)}: " if number == 0 else "    "
            self._screen.line(prefix + line, "red" if result.is_error else "dim")
        self._wait("waiting")

    def finish(self) -> None:
        """End the display, however the turn ended."""
        self._end()
        self._busy = ""
        self._screen.fresh_line()

    def _think(self, text: str) -> None:
        if not self._fold.is_open:
            self._end_text()
            self._fold.open(self._clock())
        if not text:
            return
        self._fold.add(text)
        if self._thinking == "full":
            self._write_thoughts(self._thoughts.feed([Span(safe(text), (DIM,))]))
        else:
            self.tick()

    def _write_thoughts(self, spans: list[Span]) -> None:
        codes = (DIM,) if self._screen.coloured else ()
        self._screen.write("".join(painted(Span(span.text, codes)) for span in spans))

    def _end_thinking(self) -> None:
        if not self._fold.is_open:
            return
        if self._fold.words and self._thinking == "folded":
            self._screen.line(f"thought ({self._fold.summary(self._clock())})", "dim")
        elif self._thinking == "full":
            self._write_thoughts(self._thoughts.end())
            self._screen.fresh_line()
        self._fold.is_open = False

    def _end_text(self) -> None:
        self._screen.write(self._markdown.end())
        self._screen.fresh_line()

    def _end(self) -> None:
        self._end_thinking()
        self._end_text()

    def _wait(self, what: str) -> None:
        self._busy, self._since = what, self._clock()


class _Fold:
    """Thinking that is counted instead of shown."""

    def __init__(self) -> None:
        self.is_open = False
        self.words = 0
        self._since = 0.0
        self._in_word = False

    def open(self, now: float) -> None:
        self.is_open, self.words, self._since, self._in_word = True, 0, now, False

    def add(self, text: str) -> None:
        """Count the words. A word that is split between two pieces counts once."""
        is_continued = self._in_word and not text[0].isspace()
        self.words += len(text.split()) - is_continued
        self._in_word = not text[-1].isspace()

    def summary(self, now: float) -> str:
        return f"{self.words:,} word{'s' * (self.words != 1)}, {int(now - self._since)} s"


def call_line(call: ToolCallPart, width: int) -> str:
    """Return the call as `name(argument="value")`, on one line."""
    arguments = ", ".join(f"{name}={_compact(value)}" for name, value in call.input.items())
    return shortened(one_line(f"{call.name}({arguments})"), max(width - 4, 20))


def result_lines(result: ToolResultPart, width: int) -> list[str]:
    """Return the first lines of a tool's result."""
    texts = [part.value if isinstance(part, TextPart) else _data(part) for part in result.content]
    lines = [line for line in safe("\n".join(texts)).expandtabs(4).splitlines() if line.strip()]
    shown = [shortened(line, max(width, 20)) for line in lines[:_RESULT_LINES]]
    if len(lines) > len(shown):
        shown.append(f"({len(lines) - len(shown)} more lines)")
    return shown or ["(empty)"]


def _data(part: DataPart) -> str:
    if part.mime.endswith("json"):
        return part.data.decode("utf-8", "replace")
    return f"[{part.mime}, {len(part.data):,} bytes]"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
