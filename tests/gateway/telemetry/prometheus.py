"""A strict parser of Prometheus' text format."""

from __future__ import annotations

import re

Labels = tuple[tuple[str, str], ...]


Samples = dict[tuple[str, Labels], float]


_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"


_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


_LINE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (\S+)", re.DOTALL)


_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def parse(data: bytes) -> Samples:
    """Parse text format 0.0.4 strictly."""
    text = data.decode()
    assert text.endswith("\n")
    samples: Samples = {}
    described: set[str] = set()
    name, kind = "", ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, help = line[7:].partition(" ")
            assert name not in described, "the lines of a metric stand together"
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])+", help)
            described.add(name)
            continue
        if line.startswith("# TYPE "):
            assert line.split(" ")[2] == name
            kind = line.split(" ")[3]
            continue
        found = _LINE.fullmatch(line)
        assert found, line
        assert found[1] in [name + suffix for suffix in _SUFFIXES[kind]]
        key = (found[1], _labels(found[2] or ""))
        assert key not in samples, "a series comes once"
        samples[key] = float(found[3].replace("+Inf", "inf"))
    return samples


def _labels(text: str) -> Labels:
    labels: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        assert pair, text[at:]
        labels.append((pair[1], re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], pair[2])))
        at = pair.end()
        assert at == len(text) or text[at] == ","
        at += 1
    return tuple(labels)
