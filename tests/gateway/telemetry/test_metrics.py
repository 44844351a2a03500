"""The metrics as a scraper reads them: every line has the right format, and no client can make them grow."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.gateway.http.access import create_key
from penstock.gateway.telemetry.metrics import (
    DECLARED,
    LONGEST_VALUE,
    MOST_SERIES,
    MOST_VALUES,
    OTHER,
    Metrics,
)
from penstock.version import VERSION
from tests.client.server import answer, in_a_thread
from tests.gateway.running import Running, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed

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


def read(metrics: Metrics, name: str) -> dict[Labels, float]:
    return {labels: value for (each, labels), value in parse(metrics.render()).items() if each == name}


def test_before_anything_happens_all_is_declared_and_nothing_counted() -> None:
    text = Metrics(started=1234.5).render().decode()
    for name, declared in DECLARED.items():
        assert f"# HELP {name} {declared.help}\n# TYPE {name} {declared.kind}\n" in text
    samples = parse(text.encode())
    assert samples[("penstock_heartbeats_total", ())] == 0
    assert samples[("penstock_turn_seconds_count", ())] == 0
    assert samples[("process_start_time_seconds", ())] == 1234.5
    (info,) = read(Metrics(), "penstock_build_info").items()
    assert dict(info[0])["version"] == VERSION
    assert info[1] == 1


def test_the_order_in_which_labels_are_given_does_not_matter() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.count("penstock_tokens_total", 1, model="m", kind="input", key="k")
        metrics.count("penstock_tokens_total", 2, key="k", kind="input", model="m")
    assert read(metrics, "penstock_tokens_total") == {(("model", "m"), ("kind", "input"), ("key", "k")): 6}


def test_counts_add_up_by_their_labels() -> None:
    metrics = Metrics()
    for target, value in (("a", 1), ("b", 2), ("a", 0.5)):
        metrics.count("penstock_upstream_attempts_total", value, target=target, result="answered")
    metrics.count("penstock_heartbeats_total")
    assert read(metrics, "penstock_upstream_attempts_total") == {
        (("target", "a"), ("result", "answered")): 1.5,
        (("target", "b"), ("result", "answered")): 2,
    }
    assert read(metrics, "penstock_heartbeats_total") == {(): 1}


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf])
def test_a_counter_takes_only_what_can_be_added(value: float) -> None:
    metrics = Metrics()
    metrics.count("penstock_heartbeats_total", 3)
    metrics.count("penstock_heartbeats_total", value)
    assert read(metrics, "penstock_heartbeats_total") == {(): 3}


def test_a_total_is_the_sum_over_other_labels() -> None:
    metrics = Metrics()
    for route, status in (("responses", "200"), ("responses", "404"), ("models", "404")):
        metrics.count("penstock_requests_total", 2, route=route, status=status)
    assert metrics.total("penstock_requests_total") == 6
    assert metrics.total("penstock_requests_total", status="404") == 4
    assert metrics.total("penstock_requests_total", status="404", route="models") == 2
    assert metrics.total("penstock_requests_total", status="500") == 0


@given(st.lists(st.floats(0, 1e9, allow_subnormal=False), max_size=20))
def test_the_buckets_of_a_histogram_add_up(seconds: list[float]) -> None:
    metrics = Metrics()
    for each in seconds:
        metrics.observe("penstock_turn_seconds", each)
    samples = parse(metrics.render())
    buckets = {
        float(dict(labels)["le"].replace("+Inf", "inf")): count
        for (name, labels), count in samples.items()
        if name == "penstock_turn_seconds_bucket"
    }
    assert [*buckets] == [*DECLARED["penstock_turn_seconds"].bounds, math.inf]
    for bound, count in buckets.items():
        assert count == sum(each <= bound for each in seconds), "a bound belongs to its bucket"
    assert samples[("penstock_turn_seconds_count", ())] == len(seconds)
    assert samples[("penstock_turn_seconds_sum", ())] == pytest.approx(sum(seconds))


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_a_time_that_cannot_be_is_left_out(seconds: float) -> None:
    metrics = Metrics()
    metrics.observe("penstock_turn_seconds", seconds)
    assert read(metrics, "penstock_turn_seconds_count") == {(): 0}
    assert read(metrics, "penstock_turn_seconds_sum") == {(): 0}


def test_every_histogram_has_rising_bounds() -> None:
    histograms = [declared for declared in DECLARED.values() if declared.kind == "histogram"]
    assert histograms
    for declared in histograms:
        assert [*declared.bounds] == sorted({*declared.bounds})
        assert declared.bounds


def test_gauges_are_asked_when_they_are_read() -> None:
    metrics, running = Metrics(), [1]
    metrics.gauge("penstock_turns_running", lambda: len(running))
    metrics.gauge("penstock_keys_resting", lambda: {"near": 2, 'f"ar': 0})
    assert read(metrics, "penstock_turns_running") == {(): 1}
    running.append(2)
    assert read(metrics, "penstock_turns_running") == {(): 2}
    assert read(metrics, "penstock_keys_resting") == {(("target", "near"),): 2, (("target", 'f"ar'),): 0}


@given(st.text() | st.text('"\\\n,{} =#é\u2028\r\x00\ud800', max_size=8))
@example("long" * LONGEST_VALUE)
def test_any_text_survives_as_a_label(value: str) -> None:
    metrics = Metrics()
    metrics.count("penstock_tokens_total", 7, model=value, kind="input", key="k")
    wanted = value[:LONGEST_VALUE].encode("utf-8", "replace").decode()
    assert read(metrics, "penstock_tokens_total") == {(("model", wanted), ("kind", "input"), ("key", "k")): 7}


@given(st.floats(0, exclude_min=True, allow_infinity=False) | st.integers(1, 2**70))
def test_any_number_survives(value: float) -> None:
    metrics = Metrics()
    metrics.count("penstock_heartbeats_total", value)
    assert read(metrics, "penstock_heartbeats_total") == {(): float(value)}


def test_names_that_clients_make_up_are_other_beyond_a_bound_and_none_is_lost() -> None:
    metrics = Metrics()
    for number in range(MOST_VALUES + 50):
        metrics.count("penstock_tokens_total", model=f"model-{number}", kind="input", key="k")
    metrics.count("penstock_tokens_total", model="model-0", kind="input", key="k")
    counts = {
        dict(labels)["model"]: value for labels, value in read(metrics, "penstock_tokens_total").items()
    }
    assert len(counts) == MOST_VALUES + 1
    assert (counts[OTHER], counts["model-0"], counts[f"model-{MOST_VALUES - 1}"]) == (50, 2, 1)


def test_labels_cannot_multiply_without_end() -> None:
    metrics = Metrics()
    for model in range(MOST_VALUES):
        for target in range(MOST_VALUES):
            metrics.count(
                "penstock_turns_total",
                model=str(model),
                target=str(target),
                outcome="completed",
                closer="upstream",
                key="k",
            )
    counts = read(metrics, "penstock_turns_total")
    assert len(counts) == MOST_SERIES + 1
    assert sum(counts.values()) == MOST_VALUES**2
    assert counts[tuple((label, OTHER) for label in DECLARED["penstock_turns_total"].labels)] > 0


@pytest.mark.parametrize(
    ("name", "labels", "error"),
    [
        ("penstock_made_up_total", {}, KeyError),
        ("penstock_turns_running", {}, KeyError),
        ("penstock_heartbeats_total", {"model": "m"}, ValueError),
        ("penstock_tokens_total", {"model": "m"}, ValueError),
        ("penstock_tokens_total", {"model": "m", "kind": "input", "more": "x"}, ValueError),
    ],
)
def test_only_what_is_declared_can_be_counted(name: str, labels: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Metrics().count(name, **labels)


def test_only_a_gauge_has_a_callback() -> None:
    with pytest.raises(ValueError, match="penstock_heartbeats_total is not a gauge"):
        Metrics().gauge("penstock_heartbeats_total", lambda: 1)


def scraped(running: Running, key: str) -> str:
    reply = running.ask(path="/metrics", method="GET", headers={"x-api-key": key})
    assert reply.status == 200
    return reply.body.decode()


@pytest.mark.e2e
def test_metrics_of_others_are_for_operators(tmp_path: Path) -> None:
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    operator, third = create_key("prometheus", admin=True)
    config = f'{first}{second}{third}\n[targets.secret-lab]\nbase_url = "http://127.0.0.1:9/v1"\n'
    config += '[models.secret-project]\ntarget = "secret-lab"\n[limits]\nretries = 0\n'
    with gateway(tmp_path, config=config) as running:
        for model, key in (("demo", mine), ("secret-project", theirs)):
            reply = running.whole(model, headers={"x-api-key": key})
            running.verdict(reply.headers["x-request-id"])  # a turn is counted before this is written
        all_of_it = scraped(running, operator)
        assert 'penstock_turns_total{model="secret-project",target="secret-lab"' in all_of_it
        assert 'penstock_upstream_attempts_total{target="secret-lab"' in all_of_it
        assert 'penstock_turns_total{model="demo"' in all_of_it
        for key in (mine, theirs):
            samples = [line for line in scraped(running, key).splitlines() if not line.startswith("#")]
            assert [line.partition("{")[0].partition(" ")[0] for line in samples] == [
                "penstock_build_info",
                "process_start_time_seconds",
            ]
            assert "secret" not in "".join(samples)


@pytest.mark.e2e
def test_a_name_that_a_client_made_up_is_no_label(tmp_path: Path) -> None:
    scripted = ScriptedUpstream()
    config = 'passthrough = "any"\n[targets.any]\nbase_url = "{url}/v1"\n[aliases]\nshort = "long"\n'
    scripted.play("", [answer(200, {"object": "list", "data": [{"id": "listed"}]})])
    for model in ("listed", "made-up", "long"):
        scripted.play(model, streamed(*said("ok")))
    with in_a_thread(scripted), gateway(tmp_path, config=config.format(url=scripted.url)) as running:
        running.ask(path="/v1/models", method="GET")
        for model in ("listed", "made-up", "short"):
            reply = running.whole(model)
            assert reply.status == 200
            running.verdict(reply.headers["x-request-id"])
        metrics = running.ask(path="/metrics", method="GET").body.decode()
    counted = set(re.findall(r'model="([^"]*)"', metrics))
    assert counted == {"listed", "short", "other"}
