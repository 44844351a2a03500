"""Checks for every recording of a dialect whose items have keys: `responses` and `ai_sdk`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from hypothesis import strategies as st

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan, Reader, Target
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import Tool
from penstock.protocol.wire import to_builtins
from penstock.sse import Decoder, Frame
from penstock.stream.deltas import Delta, UsageDelta
from penstock.tools.identity import ToolIdentityMap
from tests.dialects.recordings import (
    ROOT,
    FrameStream,
    Reading,
    disagreements,
    files,
    frames,
    plan_for,
    reading,
    translate,
)
from tests.stream.running import assert_lawful, machine, run, violations

__all__ = ["run", "to_builtins", "translate"]

JSON = dict[str, Any]

RANDOM_CUTS = 20
BORDERS = 1000
"""More than any small recording has. Cutting at every border has quadratic cost."""


def plan(dialect: str, tools: list[Tool] | None = None) -> Plan:
    target = Target(model="m", vendor="v", dialect=dialect, key_fingerprint="k")
    request = CreateResponse(model="m", tools=tools or [])
    return Plan(request=request, target=target, tools=ToolIdentityMap(tools or []), accent="openai")


def as_frames(chunks: list[Any]) -> list[Frame]:
    return [Frame(None, each if isinstance(each, str) else json.dumps(each)) for each in chunks]


def answer(dialect: Any, chunks: list[Any], tools: list[Tool] | None = None) -> JSON:
    """Return the last snapshot of hand-written chunks, after checking that their stream is lawful."""
    events = translate(dialect, plan(dialect.name, tools), as_frames(chunks))
    return last(events)


def deltas(dialect: Any, chunks: list[Any], tools: list[Tool] | None = None) -> list[Delta]:
    """Return the deltas of hand-written chunks, including those of the end."""
    reader: Reader = dialect.reader(plan(dialect.name, tools))
    return [delta for frame in as_frames(chunks) for delta in reader.feed(frame)] + reader.end()


def usage(dialect: Any, chunks: list[Any]) -> tuple[int | None, ...]:
    """Return the counts of the one usage in hand-written chunks: input, output, cached, written to a cache,
    reasoning."""
    [counted] = [each for each in deltas(dialect, chunks) if isinstance(each, UsageDelta)]
    return (
        counted.input_tokens,
        counted.output_tokens,
        counted.cached_tokens,
        counted.cache_write_tokens,
        counted.reasoning_tokens,
    )


def last(events: list[Event]) -> JSON:
    return cast(JSON, to_builtins(events[-1])["response"])


def smallest(folder: str, count: int) -> list[str]:
    return sorted(files(folder), key=lambda file: ((ROOT / file).stat().st_size, file))[:count]


@cache
def _expected() -> dict[str, JSON]:
    return cast("dict[str, JSON]", json.loads((ROOT / "expected.json").read_text()))


def contradictions(source: str, ours: Reading) -> list[str]:
    """Return the aspects in which the oracles disagree. Calls that a provider ran itself are not compared."""
    aspects = [each.partition(":")[0] for each in disagreements(source, ours)]
    calls = _expected().get(source, {}).get("tool_calls", [])
    client = [(call["name"], _value(call["input"])) for call in calls if not call.get("provider_executed")]
    if client == ours.calls and len(client) < len(calls):
        aspects = [each for each in aspects if each != "calls"]
    return aspects


def _value(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def assert_agrees(dialect: Any, file: str, source: str, exceptions: dict[str, str]) -> None:
    """The oracles agree, except in the aspects of an exception. An exception that is obsolete fails."""
    events = translate(dialect, plan_for(source, dialect.name), frames(file))
    allowed = exceptions.get(file, "").partition(":")[0].split(", ")
    assert contradictions(source, reading(events)) == [each for each in allowed if each], exceptions.get(file)


def assert_same_in_any_reads(file: str) -> None:
    data, expected = (ROOT / file).read_bytes(), frames(file)
    source = random.Random(file)
    borders = sorted(source.sample(range(len(data)), min(40, len(data))))
    at_random = [data[i:j] for i, j in zip([0, *borders], [*borders, len(data)], strict=True)]
    for reads in (at_random, [data[i : i + 1] for i in range(len(data))]):
        decoder = Decoder()
        assert [frame for each in reads for frame in decoder.feed(each)] + decoder.end() == expected
    commented = b": comment\n\n" + data.replace(b"\ndata:", b"\n: comment\ndata:")
    assert frames(file, commented) == expected


def assert_same_with_noise(dialect: Any, file: str, noise: list[Frame]) -> None:
    """Pings and unknown fields change no item."""
    file_plan = plan_for(file, dialect.name)
    noisy: list[Frame] = []
    for frame in frames(file):
        noisy += noise
        if frame.data.startswith("{"):
            value = {"x_before": [{"text": "no"}], **json.loads(frame.data), "x_after": None}
            frame = Frame(frame.event, json.dumps(value))
        noisy.append(frame)
    clean, other = (last(translate(dialect, file_plan, each)) for each in (frames(file), noisy))
    for snapshot in (clean, other):
        snapshot.pop("diagnostics", None)
        if snapshot["status"] == "failed":  # a failure before any output discards the model
            snapshot.pop("model"), snapshot.pop("service_tier", None)
    assert clean == other


def assert_survives_cuts(dialect: Any, file: str, most: int = BORDERS) -> None:
    """Cut at chunk borders and at random bytes: one terminal event, lawful, nothing before the cut lost."""
    all_frames, data = frames(file), (ROOT / file).read_bytes()
    complete = _output(dialect, file, all_frames)
    source = random.Random(file)
    for border in sorted(source.sample(range(len(all_frames)), min(most, len(all_frames)))):
        _assert_prefix(_output(dialect, file, all_frames[:border]), complete)
    for _ in range(RANDOM_CUTS):
        cut = data[: source.randrange(len(data))]
        if file.endswith(".sse"):
            received = frames(file, cut)
        else:
            received = [
                Frame(None, line) for line in cut.decode(errors="replace").split("\n") if line.strip()
            ]
        output = _output(dialect, file, received)
        _assert_prefix(output, complete)
        _assert_prefix(_output(dialect, file, received[:-1]), output)


def _output(dialect: Any, file: str, received: list[Frame]) -> list[JSON]:
    stream = FrameStream(dialect, plan_for(file, dialect.name))
    events = stream.start()
    for frame in received:
        events += stream.feed(frame)
    events += stream.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    assert violations(events, "openai") == []
    return cast("list[JSON]", last(events)["output"])


def _assert_prefix(cut: list[JSON], complete: list[JSON]) -> None:
    assert len(cut) <= len(complete)
    for short, long in zip(cut, complete, strict=False):
        assert short["type"] == long["type"]
        for one, other in zip(_texts(short), _texts(long), strict=False):
            assert other.startswith(one)


def _texts(item: JSON) -> Iterator[str]:
    for part in [*item.get("summary", []), *(item.get("content") or [])]:
        yield part.get("text") or part.get("refusal") or ""
    arguments = item.get("arguments") or item.get("input")
    yield arguments if isinstance(arguments, str) else ""


def assert_lawful_end(dialect: Any, received: list[Frame], tools: list[Tool] | None = None) -> None:
    """For any frames, nothing is raised and the stream is lawful."""
    translate(dialect, plan(dialect.name, tools), received)


def translate_body(dialect: Any, body: bytes, tools: list[Tool] | None = None) -> list[Event]:
    """Translate an answer that was not streamed, and check that the stream is lawful."""
    pipeline = Pipeline(machine(tools))
    pipeline.open(dialect, plan(dialect.name, tools), content_type="application/json")
    events = pipeline.start() + pipeline.feed(body) + pipeline.end()
    assert_lawful(events)
    return events


values: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, False, 0, -1, 7, 2.5, 1e300, 10**40, "", "a", "\ud83d", "\0\n", "x" * 200),
        *([], {}, [None], [[]], ["a"], {"a": 1}, {"": None}, [{"type": 5}], {"type": "text", "text": 5}),
        *({"message": "m", "code": 5}, [{"url": "u"}, 3], {"reason": "r"}, {"openai": {"signature": 5}}),
    ]
)
"""JSON values of every wrong kind. A fixed list: generating values costs more than reading them."""


def objects(types: list[str], fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[JSON]:
    """Objects of known and unknown types whose fields are valid, invalid or missing."""
    optional = {name: strategy | values for name, strategy in fields.items()}
    kinds = st.sampled_from(types) | values
    return st.fixed_dictionaries({"type": kinds}, optional=optional)
