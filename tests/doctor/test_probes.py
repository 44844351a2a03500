"""The probes, through a real gateway in this process and a scripted server on a socket."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.dialects.plan import Quirks
from penstock.doctor.examination import DoctorOptions, examine
from penstock.doctor.findings import Finding
from penstock.doctor.probe_turns import ProbeResult, open_probe_gateway
from penstock.doctor.probes import PROBES, ProbeSession, run_probes
from penstock.doctor.targets import ProbedModel
from penstock.gateway.config.options import ServeOptions
from penstock.gateway.settings import Settings
from penstock.models.info import ModelFacts
from penstock.upstream.target import UpstreamTarget
from tests.client.server import Script, Server, answer, run
from tests.doctor.model_server import ALL, ModelServer
from tests.gateway.scripts import body, message_end, message_start, text_block, typed
from tests.gateway.upstream import frames

MODEL = ProbedModel("m", "m-chat")


def probed(
    server: Server, *, stated: ModelFacts | None = None, effort: str = "openai", dialect: str = "chat"
) -> dict[str, Finding]:
    """The findings of all probes, by id."""

    async def probe() -> dict[str, Finding]:
        async with server:
            quirks = Quirks(effort=effort)
            there = UpstreamTarget(name="t", base_url=server.url, quirks=quirks, dialect=dialect)
            async with open_probe_gateway(
                Settings(), there, MODEL.upstream_name, patience=8.0, environment={}
            ) as gateway:
                found = run_probes(gateway, "t", MODEL, stated or ModelFacts())
                return {each.id: each async for each in found}

    return run(probe())


def test_a_model_that_can_do_everything() -> None:
    found = probed(ModelServer())
    assert [*found] == [probe.id for probe in PROBES]
    assert {each.details["outcome"] for each in found.values()} == {"works"}
    assert {each.status for each in found.values()} == {"ok"}


LACKING = [
    # what the model lacks, the probe, its outcome, the status, and words of the sentence
    ("streaming", "streaming", "does not work", "problem", "in one piece"),
    ("tools", "tools", "does not work", "problem", "tools are not supported"),
    ("usage", "usage", "does not work", "warning", "estimates"),
    ("reasoning", "reasoning", "does not work", "ok", "no reasoning"),
    ("schema", "structured_output", "does not work", "warning", "does not follow the schema"),
]


@pytest.mark.parametrize(("ability", "id", "outcome", "status", "words"), LACKING)
def test_what_a_model_lacks(ability: str, id: str, outcome: str, status: str, words: str) -> None:
    found = probed(ModelServer(ALL - {ability}))
    assert (found[id].details["outcome"], found[id].status) == (outcome, status)
    assert words in found[id].sentence
    others = {each.details["outcome"] for each in found.values() if each.id != id}
    assert others == {"works"}


def test_a_lack_that_the_configuration_states_is_no_problem() -> None:
    found = probed(ModelServer(ALL - {"tools"}), stated=ModelFacts(tool_calling=False))
    assert (found["tools"].status, found["tools"].fix) == ("ok", "")
    assert found["tools"].details["outcome"] == "does not work"


def test_an_effort_that_is_not_sent_proves_nothing() -> None:
    found = probed(ModelServer(), effort="")["reasoning"]
    assert (found.details["outcome"], found.status) == ("unclear", "ok")


GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "one two"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
}
DIALECTS = {
    "anthropic": typed([message_start(), *text_block(0, "one ", "two"), *message_end()]),
    "gemini": frames(GEMINI, done=False),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_probed_through_its_own_code(dialect: str) -> None:
    """These models only say the same words again, whatever they are asked."""
    server = Server(*(body(DIALECTS[dialect]) for _ in range(4)))
    found = probed(server, dialect=dialect, effort="")
    outcomes = {id: each.details["outcome"] for id, each in found.items()}
    assert (outcomes["usage"], outcomes["tools"], outcomes["structured_output"]) == (
        "works",
        *["does not work"] * 2,
    )
    assert len(server.asked) == 4
    assert "get_temperature" in server.asked[1].body.decode()


NO_ANSWERS: list[tuple[Script, str, str]] = [
    ([answer(401, {"error": {"message": "bad key"}})], "key", "no key"),
    ([answer(404, {"error": {"message": "no such model", "code": "model_not_found"}})], "model", "no such"),
    ([answer(404, b"<html>nothing here</html>", "text/html")], "network", "404"),
    ([answer(429, {"error": {"message": "slow down", "code": "insufficient_quota"}})], "key", "slow down"),
    ([answer(200, b"<html><title>Log in</title></html>", "text/html")], "configuration", "Log in"),
    (body(typed([message_start(), *text_block(0, "Hi"), *message_end()])), "configuration", "anthropic"),
    ([answer(503, b"")], "model", "503"),
]


@pytest.mark.parametrize(("script", "kind", "words"), NO_ANSWERS)
def test_a_model_that_does_not_answer_is_one_finding(script: Script, kind: str, words: str) -> None:
    found = probed(Server(script))
    assert [*found] == ["answer"]
    assert (found["answer"].kind, found["answer"].status) == (kind, "problem")
    assert words in found["answer"].sentence
    assert found["answer"].fix


def judged(id: str, *results: ProbeResult) -> tuple[str, str]:
    """Judge scripted results instead of those of a gateway."""
    given = [*results]

    class _Given:
        async def turn(self, **_: object) -> ProbeResult:
            return given.pop(0)

    async def judge() -> tuple[str, str]:
        probe = next(each for each in PROBES if each.id == id)
        first = given.pop(0) if id in ("streaming", "usage") else ProbeResult()
        judgement = await probe.judge(ProbeSession(_Given(), first))  # type: ignore[arg-type]
        return judgement.outcome, judgement.sentence

    return run(judge())


def completed(*output: dict[str, object], **fields: object) -> ProbeResult:
    return ProbeResult(response={"output": [*output], **fields})


def said(text: str) -> dict[str, object]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


CALL: dict[str, object] = {
    "type": "function_call",
    "name": "get_temperature",
    "call_id": "c",
    "arguments": '{"city": "Oslo"}',
}

JUDGED = [
    ("streaming", [replace(completed(), deltas=9, arrivals=1)], "unclear", "at the same time"),
    ("tools", [completed(said("It is cold."))], "does not work", "without calling"),
    ("tools", [completed({**CALL, "arguments": "[]"})], "does not work", "valid arguments"),
    ("tools", [completed(CALL), completed()], "unclear", "did not answer"),
    (
        "tools",
        [completed(CALL), ProbeResult(code="invalid_request", message="no role tool")],
        "does not work",
        "tool",
    ),
    (
        "tools",
        [ProbeResult(code="bridge.stream.incomplete_tool_call", message="cut")],
        "does not work",
        "invalid JSON",
    ),
    ("tools", [ProbeResult(code="rate_limit_exceeded", message="slow")], "unclear", "slow"),
    ("tools", [replace(completed(CALL), violations=("seq: 3",))], "unclear", "not lawful"),
    ("tools", [ProbeResult()], "unclear", "terminal"),
    ("structured_output", [completed(said("Oslo is a city."))], "does not work", "not a JSON object"),
    ("reasoning", [ProbeResult(code="invalid_request", message="x" * 400)], "does not work", "x…"),
    (
        "reasoning",
        [completed(usage={"output_tokens_details": {"reasoning_tokens": 7}})],
        "works",
        "7 reasoning tokens",
    ),
]


@pytest.mark.parametrize(("id", "results", "outcome", "words"), JUDGED)
def test_the_outcome_of_a_probe(id: str, results: list[ProbeResult], outcome: str, words: str) -> None:
    found, sentence = judged(id, *results)
    assert found == outcome
    assert words in sentence


def test_an_unlawful_stream_is_a_problem_of_its_own() -> None:
    class _Gateway:
        async def turn(self, **_: object) -> ProbeResult:
            return replace(completed(said("Hi")), violations=("sequence: 4 after 2",))

    async def probe() -> list[Finding]:
        return [each async for each in run_probes(_Gateway(), "t", MODEL, ModelFacts())]  # type: ignore[arg-type]

    first = run(probe())[0]
    assert (first.id, first.status) == ("lawful", "problem")
    assert "sequence: 4 after 2" in first.sentence


def test_no_request_goes_to_a_model_if_the_key_is_refused() -> None:
    async def check() -> tuple[list[Finding], list[str]]:
        async with ModelServer(key="right") as server:
            found: list[Finding] = []
            serve = ServeOptions(upstream=server.url, api_key_env="OWN_KEY", store="none")
            await examine(DoctorOptions(serve=serve, model="m-chat"), {"OWN_KEY": "wrong-7fQ2"}, found.append)
            return found, [asked.target for asked in server.asked]

    found, asked = run(check())
    refused = next(each for each in found if each.id == "key")
    assert (refused.status, refused.fix) == ("problem", "check the value of OWN_KEY")
    assert "7fQ2" not in refused.sentence
    assert asked == ["/v1/models"]
