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
    Counted,
    Metrics,
)
from penstock.version import VERSION
from tests.client.server import answer, in_a_thread
from tests.gateway.running import Running, gateway
from tests.gateway.telemetry.prometheus import Labels, parse
from tests.gateway.upstream import ScriptedUpstream, said, streamed


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


# Several processes


def test_what_processes_take_and_another_adds_is_the_sum_of_what_they_counted() -> None:
    total = Metrics()
    for number in (1, 2, 3):
        metrics = Metrics()
        for _ in range(2):  # what was taken is not taken again
            metrics.count("penstock_upstream_attempts_total", number, target="a", result="answered")
            metrics.count("penstock_requests_total", route=f"r{number}", status="200")
            for seconds in (0.2, 0.4, 7.0):
                metrics.observe("penstock_turn_seconds", seconds)
            total.add(metrics.take())
        total.add(metrics.take())
    samples = parse(total.render())
    assert samples["penstock_upstream_attempts_total", (("target", "a"), ("result", "answered"))] == 12
    for number in (1, 2, 3):
        assert samples["penstock_requests_total", (("route", f"r{number}"), ("status", "200"))] == 2
    assert samples["penstock_turn_seconds_count", ()] == 18
    assert samples["penstock_turn_seconds_sum", ()] == pytest.approx(6 * 7.6)
    assert samples["penstock_turn_seconds_bucket", (("le", "0.25"),)] == 6


def test_the_labels_of_a_sum_are_bounded_like_those_of_one_process() -> None:
    total = Metrics()
    for process in range(4):
        metrics = Metrics()
        for number in range(MOST_VALUES):
            metrics.count("penstock_requests_total", route=f"{process}-{number}", status="200")
        total.add(metrics.take())
    found = read(total, "penstock_requests_total")
    assert len(found) == MOST_VALUES + 1
    assert found[("route", OTHER), ("status", "200")] == 3 * MOST_VALUES
    assert sum(found.values()) == 4 * MOST_VALUES


def test_a_process_keeps_the_bounds_of_its_labels_when_its_counts_are_taken() -> None:
    metrics = Metrics()
    for number in range(3 * MOST_VALUES):
        metrics.count("penstock_requests_total", route=str(number), status="200")
        metrics.take()
    assert len(read(metrics, "penstock_requests_total")) == MOST_VALUES + 1


def test_counts_of_another_version_are_ignored_if_they_are_not_declared_here() -> None:
    total = Metrics()
    before = total.render()
    total.add(
        Counted(
            counters={"new_total": [((), 1.0)], "penstock_requests_total": [(("only one",), 1.0)]},
            histograms={"new_seconds": [((), [1], 1.0)], "penstock_turn_seconds": [((), [1, 2], 1.0)]},
        )
    )
    assert total.render() == before


def test_gauges_are_taken_as_they_are_except_for_facts_about_the_process() -> None:
    metrics = Metrics(started=5)
    metrics.gauge("penstock_turns_running", lambda: 3)
    metrics.gauge("penstock_keys_resting", lambda: {"a": 1})
    assert metrics.take().gauges == {
        "penstock_turns_running": 3,
        "penstock_keys_resting": {"a": 1},
        "penstock_workers": 1,
    }
