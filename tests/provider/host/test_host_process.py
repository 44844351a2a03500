"""Every method, over real pipes, with a real gateway as the endpoint."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

from penstock.models.learned_limits import limits_path
from tests.cli import streams
from tests.cli.running import penstock as penstock_command
from tests.client.server import Script, answer, in_a_thread
from tests.client.server import streamed as responses_streamed
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, Running
from tests.gateway.scripts import RESPONSES, body, typed
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, said, streamed, until, until_gone
from tests.provider.host.host_process import Answer, HostProcess, Json, decoded, host_process, user
from tests.provider.scripted_provider import call_stream, refused

pytestmark = pytest.mark.e2e

MODELS: Script = [
    answer(200, {"object": "list", "data": [{"id": "one", "context_length": 9000}, {"id": "two"}]}),
]


def endpoint() -> ScriptedUpstream:
    """Return a Responses endpoint with two models."""
    scripted = ScriptedUpstream()
    scripted.play("", MODELS)
    return scripted


def kinds(answered: Answer) -> list[str]:
    """Return the types of the lines, without consecutive duplicates."""
    found = [line["type"] for line in answered.lines]
    return [each for index, each in enumerate(found) if index == 0 or found[index - 1] != each]


def test_the_first_line_has_the_protocol_version(host: HostProcess) -> None:
    first = host.lines[0]
    assert (first["type"], first["protocol"]) == ("ready", 1)
    assert host.notifications("ready") == [first]


def test_configure_returns_the_display_url_and_reports_changed_models(
    host: HostProcess, penstock: Running
) -> None:
    end = host.configure("fresh", f"{penstock.url}/?sesame=open", key=SECRET_KEY)
    assert end["endpoint"] == f"{penstock.url}/v1"
    assert [line["group"] for line in host.notifications("models_changed")].count("fresh") == 1
    host.configure("fresh", f"{penstock.url}/?sesame=open", key=SECRET_KEY)
    assert [line["group"] for line in host.notifications("models_changed")].count("fresh") == 1
    host.configure("fresh", penstock.url)
    assert [line["group"] for line in host.notifications("models_changed")].count("fresh") == 2


@pytest.mark.parametrize(
    ("fields", "param", "message_part"),
    [
        ({}, "endpoint", "set `endpoint`"),
        ({"endpoint": "ftp://x"}, "base_url", "http://"),
        ({"endpoint": "http://user:pw@x"}, "base_url", "password"),
        ({"endpoint": "http://x", "headers": {"a b": "c"}}, "headers", "cannot be sent"),
        ({"endpoint": "http://x", "key": "schlüssel"}, None, "is not valid: enter it again"),
        ({"preset": "nobody"}, "preset", "vercel"),
        ({"preset": "anthropic"}, "preset", "penstock serve --preset anthropic"),
        ({"preset": "vercel"}, "key", "needs a key"),
        ({"preset": "vercel", "endpoint": "http://x", "key": "k"}, "endpoint", "remove one"),
        ({"preset": "azure", "key": "k"}, "endpoint", "needs your own URL"),
        ({"endpoint": "http://x", "thinking": "loud"}, None, "thinking"),
    ],
)
def test_an_invalid_configuration_is_an_error_that_says_what_to_do(
    host: HostProcess, fields: Json, param: str | None, message_part: str
) -> None:
    end = host.ask("configure", group="wrong", **fields).end
    assert (end["type"], end.get("param")) == ("error", param)
    assert message_part in end["message"]
    assert "pw" not in end["message"]
    assert host.ask("models", group="wrong").end["models"] == []


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({"preset": "vercel", "key": "k"}, "https://ai-gateway.vercel.sh/v1"),
        ({"preset": "openai", "key": "k"}, "https://api.openai.com/v1"),
        ({"preset": "ollama"}, "http://127.0.0.1:11434/v1"),
        (
            {"preset": "azure", "endpoint": "https://mine.example/openai/v1", "key": "k"},
            "https://mine.example/openai/v1",
        ),
    ],
)
def test_a_preset_sets_the_endpoint(host: HostProcess, fields: Json, address: str) -> None:
    assert host.ask("configure", group="preset", **fields).end["endpoint"] == address


def test_a_group_that_is_not_configured_has_no_models_and_no_answers(host: HostProcess) -> None:
    assert host.ask("models", group="nowhere").end["models"] == []
    end = host.respond("demo", group="nowhere").end
    assert (end["kind"], end["code"], end["name"]) == ("NotFound", "group_not_configured", "NotFoundError")
    assert host.ask("count_tokens", group="nowhere", model="m", text="Hello there").end["tokens"] > 0
    assert host.ask("count_tokens", group="nowhere", model="m", message=user("Hello")).end["tokens"] > 0


def test_models_have_their_capabilities_and_a_tooltip(host: HostProcess) -> None:
    models = {model["id"]: model for model in host.ask("models", group="work", refresh=True).end["models"]}
    demo = models["demo"]
    assert (demo["tool_calling"], demo["reasoning"], demo["efforts"]) == (
        True,
        True,
        ["low", "medium", "high"],
    )
    assert demo["max_input_tokens"] + demo["max_output_tokens"] == 128_000
    assert demo["tooltip"][0] == "112,000 tokens in, 16,000 out (from the endpoint's model list)"


def test_a_response_is_sent_part_by_part(host: HostProcess, upstream: ScriptedUpstream) -> None:
    upstream.play("host-text", streamed(*said(SECRET_ANSWER)))
    answered = host.respond("host-text")
    assert kinds(answered) == ["text", "usage", "marker", "done"]
    assert answered.text == SECRET_ANSWER
    (usage,) = answered.of("usage")
    assert (usage["tokens"]["prompt_tokens"], usage["mime"]) == (11, "usage")
    assert json.loads(decoded(usage)) == usage["tokens"]
    end = answered.end
    assert (end["result"]["finish"], end["result"]["usage"]["total_tokens"]) == ("stop", 18)
    assert end["usage"]["last"]["response_id"] == end["result"]["response_id"]


def test_thinking_and_calls_are_separate_parts(host: HostProcess, upstream: ScriptedUpstream) -> None:
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"a":1}'},
    }
    upstream.play(
        "host-calls",
        streamed(
            chat_chunk({"reasoning_content": "hm, "}),
            chat_chunk({"reasoning_content": "well"}),
            chat_chunk({"tool_calls": [call]}),
            chat_chunk(finish="tool_calls"),
            USAGE,
        ),
    )
    answered = host.respond(
        "host-calls",
        tools=[{"name": "look", "description": "d", "schema": {"type": "object", "properties": {}}}],
        tool_mode=2,
    )
    assert kinds(answered) == ["thinking", "tool_call", "usage", "marker", "done"]
    thought = answered.of("thinking")
    assert "".join(line["value"] for line in thought) == "hm, well"
    assert len({line["thinking_id"] for line in thought}) == 1
    (called,) = answered.of("tool_call")
    assert (called["name"], called["input"]) == ("look", {"a": 1})
    assert answered.end["result"]["finish"] == "tool_calls"
    (asked,) = upstream.asked_for("host-calls")
    assert asked.json["tool_choice"] == "required"
    assert asked.json["tools"][0]["function"]["name"] == "look"


def test_effort_reaches_the_endpoint_and_private_options_do_not(host: HostProcess) -> None:
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", responses_streamed())
        host.configure("effort", served.url)
        options = {"reasoning_effort": "high", "_conversationId": "chat-1", "_telemetryTurn": 7}
        assert host.respond("one", group="effort", options=options).end["type"] == "done"
        (asked,) = scripted.asked_for("one")
        assert (asked.json["reasoning"], asked.json["prompt_cache_key"]) == ({"effort": "high"}, "chat-1")
        assert "_telemetryTurn" not in asked.json


def test_thinking_follows_the_configuration(
    host: HostProcess, penstock: Running, upstream: ScriptedUpstream
) -> None:
    thought = [chat_chunk({"reasoning_content": "hm"}), *said("well")]
    for thinking, types in (("text", ["text"]), ("none", ["text"])):
        upstream.play("host-thinking", streamed(*thought))
        host.configure("thinking", penstock.url, key=SECRET_KEY, thinking=thinking)
        answered = host.respond("host-thinking", group="thinking")
        assert kinds(answered)[:-3] == types
        assert ("hm" in answered.text) == (thinking == "text")


def test_duplicate_events_deliver_one_call(host: HostProcess) -> None:
    """The announcement, the deltas and the end of one call are each sent twice, with two ids (ask B4)."""
    events = streams.announced_twice()
    doubled = [copy for event in events[2:-1] for copy in (event, event)]
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", responses_streamed([*events[:2], *doubled, events[-1]]))
        host.configure("doubled", served.url)
        answered = host.respond("one", group="doubled", tools=[{"name": "get_weather"}])
    (called,) = answered.of("tool_call")
    assert called["input"] == {"city": "Oslo"}
    assert answered.end["type"] == "done"


def test_five_thousand_parts_arrive_in_order(host: HostProcess, upstream: ScriptedUpstream) -> None:
    pieces = [f"{number} " for number in range(5000)]
    chunks = [chat_chunk({"content": word}) for word in pieces]
    upstream.play("host-many", streamed(*chunks, chat_chunk(finish="stop"), USAGE))
    answered = host.respond("host-many")
    assert answered.text == "".join(pieces)
    assert answered.end["type"] == "done"


def test_concurrent_turns_keep_their_order(host: HostProcess, upstream: ScriptedUpstream) -> None:
    """No turn can end before all have started, so all of them run concurrently."""
    opened = threading.Event()
    ids: dict[int, str] = {}
    for number in range(12):
        model, pieces = f"host-together-{number}", [f"{number}.{each} " for each in range(40)]
        first, *rest = (chat_chunk({"content": word}) for word in pieces)
        upstream.play(
            model, [*begun(first), until(opened), *body_of([*rest, chat_chunk(finish="stop"), USAGE])]
        )
        ids[host.start_respond(model)] = "".join(pieces)
    for id in ids:
        host.begun(id)
    assert all(line["type"] not in ("done", "error") for id in ids for line in host.of(id))
    opened.set()
    for id, text in ids.items():
        answered = host.answer(id)
        assert answered.text == text
        assert kinds(answered) == ["text", "usage", "marker", "done"]


def body_of(chunks: list[Any]) -> Script:
    """Return the rest of a streamed answer."""
    from tests.client.server import LAST_CHUNK, chunk, send
    from tests.gateway.upstream import frames

    return [send(chunk(frames(*chunks)) + LAST_CHUNK)]


def test_cancel_in_mid_stream(host: HostProcess, upstream: ScriptedUpstream) -> None:
    gone = threading.Event()
    upstream.play("host-cancel", [*begun(chat_chunk({"content": "begun"})), until_gone(gone)])
    id = host.start_respond("host-cancel")
    host.begun(id)
    assert host.ask("cancel", request=id).end["type"] == "done"
    answered = host.answer(id)
    assert kinds(answered) == ["text", "done"]
    assert answered.end["result"]["finish"] == "cancelled"
    assert gone.wait(20), "the upstream is still read"
    last = answered.end["usage"]["last"]
    assert (last["outcome"], last["is_estimate"], last["output"] > 0) == ("cancelled", True, True)


def test_cancelling_a_finished_or_unknown_request_is_not_an_error(
    host: HostProcess, upstream: ScriptedUpstream
) -> None:
    upstream.play("host-ended", streamed(*said("well")))
    ended = host.start_respond("host-ended")
    host.answer(ended)
    for id in (ended, "never", 10**9):
        assert host.ask("cancel", request=id).end["type"] == "done"


def test_cancel_before_the_first_part(host: HostProcess, upstream: ScriptedUpstream) -> None:
    gone = threading.Event()
    upstream.play("host-early", [until_gone(gone)])
    id = host.start_respond("host-early")
    host.ask("cancel", request=id)
    answered = host.answer(id)
    assert [line["type"] for line in answered.lines] == ["done"]
    assert answered.end["result"]["finish"] == "cancelled"


def test_a_failure_after_parts_keeps_them(host: HostProcess, upstream: ScriptedUpstream) -> None:
    error = {"error": {"message": "the machine is on fire", "type": "server_error"}}
    upstream.play("host-broken", streamed(chat_chunk({"content": "half"}), error))
    answered = host.respond("host-broken")
    assert kinds(answered) == ["text", "usage", "error"]  # the gateway counts what came
    assert answered.text == "half"
    assert "on fire" in answered.end["message"]
    assert host.ask("usage").end["usage"]["last"]["outcome"] == "failed"


@pytest.mark.parametrize(
    ("script", "kind", "code", "message_part"),
    [
        (
            refused(401, "invalid_api_key", f"no key {SECRET_KEY}"),
            "NoPermissions",
            "invalid_api_key",
            "enter the key again",
        ),
        (
            refused(429, "insufficient_quota", "spent"),
            "Blocked",
            "insufficient_quota",
            "waiting does not help",
        ),
        (
            refused(429, "rate_limit_exceeded", "slow", retry_after="77"),
            "Blocked",
            "rate_limit_exceeded",
            "wait 77 s",
        ),
        (refused(404, "model_not_found", "gone"), "NotFound", "model_not_found", "has no model one"),
        (refused(403, "forbidden", "not you"), "NoPermissions", "forbidden", "not have permission"),
        (
            refused(400, "context_length_exceeded", "too long"),
            "",
            "context_length_exceeded",
            "start a new one",
        ),
        (refused(400, "wrong", "tools[0] is odd"), "", "wrong", "rejected: tools[0] is odd"),
        ([answer(500, b"<html>nope", "text/html")], "", "server_error", "failed: try again"),
        ([answer(501, b"<html>nope", "text/html")], "NotFound", "not_found", "check the URL"),
        (responses_streamed(streams.response([], [])), "", "empty_response", "gave no answer"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_error_of_the_endpoint_is_one_sentence(
    host: HostProcess, script: Script, kind: str, code: str, message_part: str
) -> None:
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", script)
        host.configure("refusing", served.url, key=SECRET_KEY)
        end = host.respond("one", group="refusing").end
    assert (end["type"], end["kind"], end["code"]) == ("error", kind, code)
    assert message_part in end["message"]
    assert SECRET_KEY not in json.dumps(end)
    assert "<html>" not in end["message"]


def test_an_unreachable_endpoint(host: HostProcess) -> None:
    with in_a_thread(endpoint()) as served:
        address = served.url
    host.configure("gone", address)
    for answered in (host.ask("models", group="gone"), host.respond("one", group="gone")):
        assert (answered.end["type"], answered.end["name"]) == ("error", "NetworkError")
        assert answered.end["message"] == (
            f"{address}/v1 cannot be reached: is it running, and is the URL correct "
            f"(could not connect to {address.removeprefix('http://')}: connection refused)?"
        )


def test_an_invalid_request_names_the_field(host: HostProcess) -> None:
    end = host.ask("respond", group="work", model="demo", messages=[{"role": "user"}]).end
    assert (end["type"], end["code"]) == ("error", "invalid_request")
    assert "messages[0].role" in end["message"]
    assert "method" in host.ask("explode").end["message"]


def test_a_group_continues_its_own_responses_and_no_others(host: HostProcess) -> None:
    """Two groups at one endpoint never use each other's key or response."""
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", responses_streamed())
        host.configure("left", served.url, key="sk-left")
        host.configure("right", served.url, key="sk-right", headers={"x-team": "blue"})
        first = host.respond("one", user("Hello"), group="left")
        history = [
            user("Hello"),
            {"role": 2, "content": [{"type": "text", "value": first.text}, first.marker()]},
        ]
        for group in ("left", "right"):
            assert host.respond("one", *history, user("More"), group=group).end["type"] == "done"
        asked = scripted.asked_for("one")
    assert [each.headers["authorization"] for each in asked] == [
        "Bearer sk-left",
        "Bearer sk-left",
        "Bearer sk-right",
    ]
    assert [each.headers.get("x-team") for each in asked] == [None, None, "blue"]
    assert [each.json.get("previous_response_id") for each in asked] == [None, "resp_1", None]
    assert [len(each.json["input"]) for each in asked] == [1, 1, 3]
    listed = [each.headers["authorization"] for each in scripted.asked if each.method == "GET"]
    assert sorted(set(listed)) == ["Bearer sk-left", "Bearer sk-right"]


def test_markers_are_valid_for_the_account_not_for_the_name_of_the_group(host: HostProcess) -> None:
    """A group's name can be reused: its responses must not be referenced with another account."""
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", responses_streamed())
        host.configure("monday", served.url, account="a1")
        first = host.respond("one", user("Hello"), group="monday")
        answer = {"role": 2, "content": [{"type": "text", "value": first.text}, first.marker()]}
        host.configure("tuesday", served.url, account="a1")
        host.configure("monday", served.url, account="b2")
        host.configure("a1", served.url)
        for group in ("tuesday", "monday", "a1"):
            assert host.respond("one", user("Hello"), answer, user("More"), group=group).end["type"] == "done"
        asked = scripted.asked_for("one")
    assert [each.json.get("previous_response_id") for each in asked] == [None, "resp_1", None, None]


def test_a_response_can_override_the_thinking_mode(host: HostProcess) -> None:
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        thought = {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."}
        text, message = streams.message("msg_1", 1, ["A ship."])
        scripted.play("one", responses_streamed(streams.response([thought, *text], [message])))
        host.configure("thinker", served.url, thinking="none")
        answers = [
            host.respond("one", group="thinker", **fields)
            for fields in ({}, {"thinking": "part"}, {"thinking": "text"}, {"thinking": None})
        ]
    assert [bool(each.of("thinking")) for each in answers] == [False, True, False, False]
    assert ["Hm." in each.text for each in answers] == [False, False, True, False]


def test_the_settings_of_a_group_take_effect_for_its_next_turn(host: HostProcess) -> None:
    text, message = streams.message("msg_1", 0, ["A ship."])
    annotation = {"type": "url_citation", "url": "https://port.example/", "title": "Port"}
    cited = {"type": "response.output_text.annotation.added", "item_id": "msg_1", "annotation": annotation}
    system = {"role": 3, "content": [{"type": "text", "value": "Be brief."}]}
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        events = streams.response([*text[:3], cited, *text[3:]], [message])
        scripted.play("one", responses_streamed(events))
        scripted.play("two", [answer(503, {"error": {"message": "Down"}})])
        rows: list[tuple[Any, ...]] = []
        for fields in ({}, {"citations": "end", "errors_as_text": True, "system_role": "developer"}):
            host.configure("settings", served.url, **fields)
            shown = host.respond("one", system, user("Hello"), group="settings").text
            failed = host.respond("two", group="settings")
            role = scripted.asked_for("one")[-1].json["input"][0]["role"]
            rows.append((shown, failed.text, failed.end["type"], failed.end.get("as_text"), role))
        overridden = host.respond("one", group="settings", citations="inline").text
    sentence = failed.end["message"]
    assert rows == [
        ("A ship.", "", "error", None, "system"),
        (
            "A ship.\n\n---\n\n1. [Port](https://port.example/)\n",
            f"\n\n**Error:** {sentence}\n\n",
            "error",
            True,
            "developer",
        ),
    ]
    assert overridden == "A ship. [Port](https://port.example/)"


def test_a_running_turn_keeps_its_configuration(
    host: HostProcess, penstock: Running, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    rest = body_of([chat_chunk({"content": "ended"}), chat_chunk(finish="stop"), USAGE])
    upstream.play("host-replaced", [*begun(chat_chunk({"content": "begun, "})), until(opened), *rest])
    host.configure("replaced", penstock.url, key=SECRET_KEY)
    id = host.start_respond("host-replaced", group="replaced")
    host.begun(id)
    with in_a_thread(endpoint()) as served:
        host.configure("replaced", served.url)
        assert [each["id"] for each in host.ask("models", group="replaced").end["models"]] == ["one", "two"]
        opened.set()
        assert host.answer(id).text == "begun, ended"


def test_usage_adds_up_over_groups_and_models(upstream: ScriptedUpstream, penstock: Running) -> None:
    with host_process() as host:
        for group in ("a", "b"):
            host.configure(group, penstock.url, key=SECRET_KEY)
        for model in ("host-sum-1", "host-sum-2"):
            upstream.play(model, streamed(*said("well")))
            for group in ("a", "b"):
                assert host.respond(model, group=group).end["type"] == "done"
        usage = host.ask("usage").end["usage"]
        total = usage["total"]
        assert (total["requests"], total["input"], total["cached"]) == (4, 44, 20)
        assert (total["output"], total["reasoning"], total["is_estimate"]) == (28, 12, False)
        assert {(row["group"], row["model"], row["input"]) for row in usage["by_model"]} == {
            (group, model, 11) for group in ("a", "b") for model in ("host-sum-1", "host-sum-2")
        }
        assert len({row["response_id"] for row in usage["recent"]}) == 4
        host.wait(lambda: host.notifications("usage_changed")[-1]["usage"] == usage, "the last usage")


def test_unicode_text_and_lone_surrogates(host: HostProcess, upstream: ScriptedUpstream) -> None:
    wild = 'Käse 🧀 水の流れ \u202e "q" \\ \u0000 \u2028 \x7f'
    upstream.play("host-wild", streamed(*said(wild)))
    assert host.respond("host-wild", user(wild + "\ud83d")).text == wild
    (asked,) = upstream.asked_for("host-wild")
    assert asked.json["messages"][-1]["content"] == wild + "�"


def test_a_malformed_call_is_an_error(host: HostProcess) -> None:
    events = json.loads(
        json.dumps(call_stream(("c1", "look", {"a": "x"}))).replace('{\\"a\\": \\"x\\"}', '{\\"a\\":')
    )
    with in_a_thread(endpoint()) as served:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", responses_streamed(events))
        host.configure("flawed", served.url)
        answered = host.respond("one", group="flawed", tools=[{"name": "look"}])
    assert answered.of("tool_call") == []
    assert (answered.end["type"], answered.end["code"]) == ("error", "malformed_tool_call")
    assert answered.end["message"].startswith("one sent a malformed tool call: try again")


def test_a_responses_upstream(host: HostProcess, upstream: ScriptedUpstream) -> None:
    upstream.play(RESPONSES, body(typed(streams.interleaved())))
    answered = host.respond(RESPONSES, tools=[{"name": "get_weather"}, {"name": "get_time"}])
    assert [line["name"] for line in answered.of("tool_call")] == ["get_weather", "get_time"]
    assert answered.text == "Looking both up."
    assert SECRET_PROMPT in upstream.asked_for(RESPONSES)[-1].body.decode()


def test_a_learned_limit_is_in_the_users_file_and_another_host_has_it() -> None:
    """Host and command share the file, without a restart."""
    message = "This model's maximum context length is 8000 tokens. However, you requested 8500 tokens."
    with in_a_thread(endpoint()) as served, host_process() as one, host_process() as other:
        scripted = served.server
        assert isinstance(scripted, ScriptedUpstream)
        scripted.play("one", refused(400, "context_length_exceeded", message))
        for running in (one, other):
            running.configure("work", f"{served.url}/v1?key={SECRET_KEY}")

        def sources(running: HostProcess) -> list[tuple[str, int]]:
            models = running.ask("models", group="work").end["models"]
            return [(model["source"], model["max_input_tokens"]) for model in models]

        assert sources(other) == [("endpoint", 4904), ("default", 61_440)]
        assert "which is now known" in one.respond("one").end["message"]
        assert one.notifications("models_changed")[-1] == {
            "type": "models_changed",
            "group": "work",
            "reason": "limits",
        }
        assert sources(one) == sources(other) == [("learned", 4000), ("default", 61_440)]
        path = limits_path(os.environ)
        assert path is not None
        assert f"{served.url}/v1" in path.read_text()
        assert SECRET_KEY not in path.read_text()

        forgot = penstock_command("models", "--base-url", served.url, "--forget")
        assert (forgot.returncode, forgot.stdout[:29]) == (0, "forgot one: 8,000 tokens, lea")
        assert sources(one) == [("endpoint", 4904), ("default", 61_440)]
