"""Find values for the fields of a schema in a prompt: the city after "in", the number before "days"."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_PROMPT = 4000
"""Characters of a prompt that are searched."""

DEFAULT_TEXT = "demo"
"""The text for a field that neither the prompt nor the schema describes."""

DEFAULT_COMMAND = "echo hello"
"""The command if the prompt has none in backticks. It must be harmless, because some clients run it."""

_QUOTED = re.compile(r'"([^"]{1,400})"|“([^”]{1,400})”|`([^`]{1,400})`|(?<!\w)\'([^\']{1,400})\'(?!\w)')
_BACKTICKED = re.compile(r"`([^`]{1,400})`")
_NUMBER = re.compile(r"(?<![\w.-])-?\d{1,12}(?:\.\d{1,6})?(?!\w|\.\d)")
_NAME = r"[A-ZÀ-ÞŁŚŻ][\w'’-]*"
_PLACE = re.compile(rf"\b(?:in|at|for|near|to|from|and|or) ({_NAME}(?: {_NAME}){{0,3}}(?:, [A-Z]{{2}}\b)?)")
_URL = re.compile(r"https?://[^\s\"'<>`]{1,400}")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4}")
_DATE = re.compile(r"\b\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])\b")
_PATH = re.compile(
    r"(?<![\w/:.@])(?:~|\.{0,2})/?(?:[\w.-]{1,80}/){0,12}[\w-]{1,80}\.[a-z]\w{0,7}\b|(?<![\w/:.@])/[\w./-]{1,200}"
)
_EXAMPLE = re.compile(r"(?:e\.g\.|for example|such as)[,:]? [`'\"“]?([^`'\"”.;()\n]{2,40})")
_WORDS = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_KINDS: dict[str, str] = {
    "places": "city cities location locations place places town country region address area destination",
    "urls": "url urls uri link href website",
    "emails": "email emails mail recipient",
    "dates": "date dates day since until",
    "paths": "path paths file files filename filepath directory folder",
    "diffs": "diff patch",
    "commands": "command commands cmd script shell",
    "texts": (
        "query queries question text texts message messages content prompt input topic title term keyword "
        "keywords subject body search note description reason q"
    ),
}
"""Words in the names of fields, by the kind of text in a prompt that is likely meant for them."""

_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}


_MAX_NAME = 200
_MAX_NAME_WORDS = 6
"""How much of a field's name is used: each word is searched for in the prompt."""


def words_of(name: str) -> list[str]:
    """Split a name into lower-case words: `getWeather`, `get_weather`, `get-weather`."""
    return [word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", name))]


class Hints:
    """What a prompt contains that could fill the fields of a schema."""

    def __init__(self, prompt: str) -> None:
        self.prompt = " ".join(prompt[:MAX_PROMPT].split())
        self._lower = self.prompt.lower()
        self.words = frozenset(words_of(self.prompt))
        self.quoted = ["".join(found).strip() for found in _QUOTED.findall(self.prompt)]
        self.numbers = [
            float(found) if "." in found else int(found) for found in _NUMBER.findall(self.prompt)
        ]
        self._found: dict[str, list[str]] = {
            "places": _PLACE.findall(self.prompt),
            "urls": [url.rstrip(".,;:!?)") for url in _URL.findall(self.prompt)],
            "emails": _EMAIL.findall(self.prompt),
            "dates": _DATE.findall(self.prompt),
            "paths": _PATH.findall(self.prompt),
            "commands": _BACKTICKED.findall(self.prompt) or [DEFAULT_COMMAND],
            "diffs": [f"+{text}" for text in self.quoted or [DEFAULT_TEXT]],
            "texts": self.quoted or [self.prompt or DEFAULT_TEXT],
        }

    def mentions(self, name: str) -> bool:
        """Return whether the prompt contains the words of this name."""
        words = words_of(name[:_MAX_NAME])
        return bool(words) and self.words.issuperset(words)

    def of_kind(self, kind: str) -> list[str]:
        return self._found.get(kind, [])

    def texts(self, name: str, description: str = "") -> Iterator[str]:
        """Yield texts for a field of this name, the most likely first."""
        if value := self._assigned(name):
            yield value.strip("\"'`“”.,;") or value
        for word in reversed(words_of(name[:_MAX_NAME])):
            yield from self.of_kind(_KIND_OF.get(word, ""))
        yield from self.quoted
        if example := _EXAMPLE.search(description[:MAX_PROMPT]):
            yield example[1].strip()
        yield DEFAULT_TEXT

    def numbers_for(self, name: str) -> Iterator[int | float]:
        """Yield numbers for a field of this name: first those next to the name, then any other."""
        for word in words_of(name[:_MAX_NAME])[: -_MAX_NAME_WORDS - 1 : -1]:
            if word not in self._lower:
                continue
            after = re.search(rf"\b{re.escape(word)}\W{{1,3}}(-?\d{{1,12}})\b", self.prompt, re.IGNORECASE)
            before = re.search(rf"(?<![\w.])(-?\d{{1,12}}) {re.escape(word)}\b", self.prompt, re.IGNORECASE)
            yield from (int(found[1]) for found in (before, after) if found)
        yield from self.numbers

    def _assigned(self, name: str) -> str:
        """Return the value that the prompt assigns to the name: `city: Ulm`, `city = "Ulm"`."""
        words = words_of(name[:_MAX_NAME])[:_MAX_NAME_WORDS]
        if not words or words[0] not in self._lower:
            return ""
        spelled = r"[\s_-]?".join(map(re.escape, words))
        found = re.search(
            rf"\b{spelled}\s?[:=]\s?(\"[^\"]+\"|“[^”]+”|`[^`]+`|[^\s,;]+)", self.prompt, re.IGNORECASE
        )
        return found[1] if found else ""
