"""Regular expressions of schemas, as far as texts that match them can be written.

The pattern comes from whoever sent the request, so Python's own engine is not given it: a few characters can
keep that busy for years. Here a pattern is read into a small tree; a text is written from it, or walked along
it, and both are bounded by `STEPS`. What the tree cannot say (lookarounds, back references) is `None`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

LONGEST = 1000
"""Characters of a pattern that is read, and repetitions that are written."""
STEPS = 30_000
"""So much is written, or walked, for one pattern: some hundredths of a second."""
_DEEPEST = 30
_ENDLESS = -1

_DIGITS = (("0", "9"),)
_WORD = (("a", "z"), ("A", "Z"), ("0", "9"), ("_", "_"))
_SPACE = ((" ", " "), ("\t", "\r"), ("\u00a0", "\u00a0"), ("\u2028", "\u2029"))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_TASTY = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. /:@#+éß水"
"""Characters to write where many would do, the plainest first."""


class UnsupportedPatternError(Exception):
    """The pattern says something that this tree has no word for."""


class Chars(Struct, frozen=True):
    """One character out of ranges, or one that is in none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def holds(self, character: str) -> bool:
        return self.negated != any(low <= character <= high for low, high in self.ranges)

    def pick(self, variant: int) -> str:
        tasty = _tasty(self)
        if tasty:
            return tasty[variant % len(tasty)]
        if self.negated or not self.ranges:
            raise UnsupportedPatternError("a class without a character that could be written")
        return self.ranges[variant % len(self.ranges)][0]


@lru_cache(maxsize=1024)
def _tasty(characters: Chars) -> str:
    return "".join(filter(characters.holds, _TASTY))


class Edge(Struct, frozen=True):
    """A place and no character: `^`, `$`, `b` for the edge of a word, `B` for any other place."""

    kind: str


class Sequence(Struct, frozen=True):
    nodes: tuple[Node, ...]


class Alternatives(Struct, frozen=True):
    nodes: tuple[Node, ...]


class Repeat(Struct, frozen=True):
    node: Node
    least: int
    most: int
    """`_ENDLESS` where there is no upper bound."""


Node = Chars | Edge | Sequence | Alternatives | Repeat


@lru_cache(maxsize=256)
def parse(pattern: str) -> Node | None:
    """The tree of a pattern, or None for one that cannot be worked with."""
    if len(pattern) > LONGEST:
        return None
    try:
        return _Parser(pattern).whole()
    except (UnsupportedPatternError, IndexError, ValueError):
        return None


class _Parser:
    """Reads a pattern of ECMAScript, which is what JSON Schema speaks. Past the end it is an `IndexError`."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise UnsupportedPatternError("a bracket that nothing opened")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedPatternError("too deep")
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        self._depth -= 1
        return nodes[0] if len(nodes) == 1 else Alternatives(tuple(nodes))

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._quantified(self._atom()))
        return Sequence(tuple(nodes))

    def _atom(self) -> Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        if character == ".":
            return Chars((("\n", "\n"), ("\r", "\r"), ("\u2028", "\u2029")), negated=True)
        if character in "^$":
            return Edge(character)
        if character in "*+?":
            raise UnsupportedPatternError("a repetition of nothing")
        return Chars(((character, character),))

    def _group(self) -> Node:
        if self._take("?") and not self._take(":"):
            if not self._take("<") or self._peek() in "=!":
                raise UnsupportedPatternError("a lookaround")
            while self._next() != ">":
                pass
        node = self._choice()
        if self._next() != ")":
            raise UnsupportedPatternError("a group without an end")
        return node

    def _escape(self) -> Node:
        character = self._next()
        if character in "bB":
            return Edge(character)
        if character.lower() in _CLASSES:
            return Chars(_CLASSES[character.lower()], negated=character.isupper())
        return _one(self._escaped(character))

    def _escaped(self, character: str) -> str:
        if character in "xu":
            digits = 2 if character == "x" else 4
            code = self._text[self._at : self._at + digits]
            self._at += digits
            if len(code) < digits:
                raise UnsupportedPatternError("half a code")
            return chr(int(code, 16))
        if character in "123456789kpPc":
            raise UnsupportedPatternError("a back reference or a property")
        return _CONTROLS.get(character, character)

    def _class(self) -> Node:
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        while not self._take("]"):
            low = self._class_member(ranges)
            if low and self._peek() == "-" and self._text[self._at + 1] != "]":
                self._at += 1
                high = self._class_member(ranges)
                ranges.append((low, high or low))
            elif low:
                ranges.append((low, low))
        return Chars(tuple(ranges), negated)

    def _class_member(self, ranges: list[tuple[str, str]]) -> str:
        """A character, or "" where a whole class was named and added."""
        character = self._next()
        if character != "\\":
            return character
        character = self._next()
        if character in _CLASSES:
            ranges.extend(_CLASSES[character])
            return ""
        if character.lower() in _CLASSES:
            raise UnsupportedPatternError("a negated class inside a class")
        return "\b" if character == "b" else self._escaped(character)

    def _quantified(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._take("?")  # a lazy repetition matches the same texts
        least, most = bounds
        if least > LONGEST or isinstance(node, Edge):
            raise UnsupportedPatternError("a repetition that cannot be written")
        return Repeat(node, least, most)

    def _bounds(self) -> tuple[int, int] | None:
        for sign, bounds in (("*", (0, _ENDLESS)), ("+", (1, _ENDLESS)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not (least.isdecimal() and (most.isdecimal() or not most)):
            return None  # a brace that is only itself
        self._at = end + 1
        low = int(least)
        return low, (int(most) if most else _ENDLESS) if comma else low


def _one(character: str) -> Chars:
    return Chars(((character, character),))


class Steps:
    """How much work is still allowed."""

    def __init__(self, left: int = STEPS) -> None:
        self.left = left

    def take(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise UnsupportedPatternError("too much work")


# -- writing


def examples(node: Node) -> Iterator[str]:
    """Texts that match, the shortest first; each is checked, since edges may be anywhere.

    Each comes with something behind it as well: another text, and a longer one, where no edge forbids it.
    """
    written: set[str] = set()
    steps = Steps()
    for extra in (0, 1, 2, 4, 8, 16, 64, 256):
        for variant in range(6):
            try:
                text = _Writer(extra, variant, steps).write(node)
            except UnsupportedPatternError:
                return
            for candidate in (text, text + _TASTY[variant] * max(extra, 1)):
                if candidate not in written and matches(node, candidate, steps):
                    yield candidate
                written.add(candidate)


class _Writer:
    def __init__(self, extra: int, variant: int, steps: Steps) -> None:
        self._extra = extra
        self._variant = variant
        self._steps = steps

    def write(self, node: Node) -> str:
        self._steps.take()
        if isinstance(node, Chars):
            return node.pick(self._variant)
        if isinstance(node, Sequence):
            return "".join(map(self.write, node.nodes))
        if isinstance(node, Alternatives):
            return self.write(node.nodes[self._variant % len(node.nodes)])
        if isinstance(node, Repeat):
            most = node.least + self._extra
            times = most if node.most == _ENDLESS else min(most, node.most)
            return "".join(self.write(node.node) for _ in range(times))
        return ""


# -- walking


def matches(node: Node, text: str, steps: Steps | None = None) -> bool:
    """Does the pattern occur in the text? Where it would take too long to say: no."""
    try:
        return bool(_Walker(text, steps or Steps()).ends(node, set(range(len(text) + 1))))
    except UnsupportedPatternError:
        return False


class _Walker:
    """Knows, for a node, where in the text it can end, from where it can begin."""

    def __init__(self, text: str, steps: Steps) -> None:
        self._text = text
        self._steps = steps

    def ends(self, node: Node, starts: set[int]) -> set[int]:
        self._steps.take(1 + len(starts))
        if isinstance(node, Chars):
            return {at + 1 for at in starts if at < len(self._text) and node.holds(self._text[at])}
        if isinstance(node, Edge):
            return {at for at in starts if _EDGES[node.kind](self._text, at)}
        if isinstance(node, Repeat):
            return self._repeated(node, starts)
        if isinstance(node, Alternatives):
            return {end for each in node.nodes for end in self.ends(each, starts)}
        for each in node.nodes:
            starts = self.ends(each, starts)
        return starts

    def _repeated(self, node: Repeat, starts: set[int]) -> set[int]:
        for _ in range(node.least):
            starts = self.ends(node.node, starts)
        found, times = set(starts), node.least
        while starts and times != node.most:
            starts = self.ends(node.node, starts) - found
            found |= starts
            times += 1
        return found


def _at_edge(text: str, at: int) -> bool:
    word = Chars(_WORD)
    return (at > 0 and word.holds(text[at - 1])) != (at < len(text) and word.holds(text[at]))


_EDGES: dict[str, Callable[[str, int], bool]] = {
    "^": lambda _, at: at == 0,
    "$": lambda text, at: at == len(text),
    "b": _at_edge,
    "B": lambda text, at: not _at_edge(text, at),
}
