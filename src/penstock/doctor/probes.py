"""Probes what a model of a target can do, with a few short requests.

Each probe judges by what a client of the gateway would receive. Its outcome is `works`, `does not work` or
`unclear`, with one sentence that says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from msgspec import Struct

from penstock.doctor.findings import Finding, Kind, Status
from penstock.doctor.probe_turns import ProbeGateway, ProbeResult
from penstock.doctor.targets import ProbedModel
from penstock.errors import BridgeError
from penstock.formatting import counted
from penstock.lenient import object_of, read_json, text_of
from penstock.models.info import ModelFacts
from penstock.protocol.content import JsonObject

Outcome = Literal["works", "does not work", "unclear"]

_ENOUGH = 2048
"""Output tokens: models that think need some before they answer."""
_TRANSIENT = frozenset(
    {"rate_limit_exceeded", "insufficient_quota", "server_is_overloaded", "server_error", "upstream_timeout"}
)
"""Codes of failures that say nothing about what a model can do."""
_REFUSALS = frozenset({"invalid_request", "invalid_prompt"})
"""Codes of an upstream that does not accept what the probe asks for."""
_LONGEST = 300
"""Characters of an upstream's message that are shown."""


class Judgement(Struct, frozen=True):
    outcome: Outcome
    sentence: str
    fix: str = ""


class ProbeSession:
    """The probes of one model: `first` is the result of the turn that showed that it answers."""

    def __init__(self, gateway: ProbeGateway, first: ProbeResult) -> None:
        self.turn = gateway.turn
        self.first = first


class CapabilityProbe(Struct, frozen=True):
    """A row of the table of probes."""

    id: str
    judge: Callable[[ProbeSession], Awaitable[Judgement]]
    if_not: Status
    """The status if the model cannot do it. Agents need streams and tools; not every model has to reason."""
    fact: str = ""
    """The field of `ModelFacts` with which the configuration says that the model can, or cannot, do it."""


async def run_probes(
    gateway: ProbeGateway, target: str, model: ProbedModel, stated: ModelFacts
) -> AsyncIterator[Finding]:
    """Yield a finding per probe; a single one if the model does not answer. `stated` is what the
    configuration says about the model: a probe that agrees with it finds nothing to fix."""
    first = await gateway.turn(
        input="Write the numbers from one to thirty as words, separated by spaces.",
        max_output_tokens=_ENOUGH,
    )
    if first.code or not first.response:
        yield _no_answer(first, target, model.upstream_name)
        return
    if first.violations:
        yield _unlawful(first, target, model.upstream_name)
    session = ProbeSession(gateway, first)
    for probe in PROBES:
        judgement = await probe.judge(session)
        yield _finding(probe, judgement, target, model, stated)


def _finding(
    probe: CapabilityProbe, judgement: Judgement, target: str, model: ProbedModel, stated: ModelFacts
) -> Finding:
    outcome, sentence, fix = judgement.outcome, judgement.sentence, judgement.fix
    unclear: Status = "ok" if probe.if_not == "ok" else "warning"
    by_outcome: dict[Outcome, Status] = {"works": "ok", "does not work": probe.if_not, "unclear": unclear}
    status = by_outcome[outcome]
    if outcome == "does not work" and probe.fact and getattr(stated, probe.fact) is False:
        status, fix = "ok", ""
        sentence = f"{sentence}, as the configuration says"
    return Finding(
        id=probe.id,
        kind="capability",
        status=status,
        sentence=f"{outcome}: {sentence}",
        fix=fix if status != "ok" else "",
        target=target,
        details={"outcome": outcome, "model": model.upstream_name, "name": model.name},
    )


# The first turn


_KINDS: dict[str, tuple[Kind, str]] = {
    "upstream_unauthorized": ("key", "check the key of the target"),
    "upstream_forbidden": ("key", "check what the key of the target may use"),
    "authentication_error": ("key", "check the key of the target"),
    "permission_denied": ("key", "check what the key of the target may use"),
    "insufficient_quota": ("key", "check the balance of the account"),
    "model_not_found": (
        "model",
        "choose another model with --model; if the target lists this one, check its dialect and base_url",
    ),
    "upstream_not_found": ("network", "check base_url and dialect of the target"),
    "upstream_invalid": ("configuration", "check dialect and base_url of the target"),
    "upstream_unreachable": ("network", "check base_url, the network and the proxy"),
    "upstream_truncated": ("network", "check the server's log: it closed the connection too early"),
    "certificate_error": ("network", "check ca_file of the target"),
    "tls_error": ("network", "check the scheme of base_url"),
    "proxy_error": ("network", "check the proxy"),
}
"""What a failed turn is about, and what to do, by its code."""


def _no_answer(result: ProbeResult, target: str, model: str) -> Finding:
    kind, fix = _KINDS.get(
        result.code, ("model", "try another model with --model, or check dialect and base_url of the target")
    )
    if result.code in _TRANSIENT:
        fix = "try again later" if result.code != "insufficient_quota" else fix
    why = _short(result.message) or "the stream had no terminal event"
    return Finding(
        id="answer",
        kind=kind,
        status="problem",
        sentence=f"{model} did not answer, so nothing else was probed: {why}",
        fix=fix,
        target=target,
        details={"outcome": "does not work", "model": model, "code": result.code},
    )


def _unlawful(result: ProbeResult, target: str, model: str) -> Finding:
    rules = counted(len(result.violations), "rule")
    return Finding(
        id="lawful",
        kind="capability",
        status="problem",
        sentence=f"the stream of {model} broke {rules}: {result.violations[0]}",
        fix="this is a fault of Penstock: please report it, with a recording (penstock serve --record)",
        target=target,
        details={"model": model, "violations": list(result.violations)},
    )


# Streaming and usage: judged by the first turn


async def _streaming(session: ProbeSession) -> Judgement:
    first = session.first
    if first.deltas > 1 and first.arrivals > 1:
        return Judgement("works", f"the answer arrived in {first.arrivals} steps")
    if first.deltas > 1:
        return Judgement(
            "unclear",
            "the answer has several pieces, but all arrived at the same time",
            "if answers appear late, look for a proxy that buffers them",
        )
    return Judgement(
        "does not work",
        "the whole answer arrived in one piece",
        "check whether the server supports streaming; clients will see nothing until an answer is complete",
    )


async def _usage(session: ProbeSession) -> Judgement:
    first = session.first
    count = first.usage.get("output_tokens")
    if "usage_estimated" in first.diagnostics or not count:
        return Judgement(
            "does not work",
            "the upstream reports no usage, so token counts are estimates",
            "if the server has an option to report usage in streams, turn it on",
        )
    return Judgement("works", f"{counted(int(count), 'output token')} reported")


# Tools


_TOOL: JsonObject = {
    "type": "function",
    "name": "get_temperature",
    "description": "Return the temperature in a city, in degrees Celsius.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
_QUESTION: JsonObject = {
    "type": "message",
    "role": "user",
    "content": "Which temperature does it have in Oslo now? Call get_temperature to find out.",
}
_RESULT = "-17 degrees"


async def _tools(session: ProbeSession) -> Judgement:
    asked = await session.turn(input=[_QUESTION], tools=[_TOOL], max_output_tokens=_ENOUGH)
    fix = "use another model for agents, or record it with --write"
    if failed := _failure(asked, "a request with a tool", fix):
        return failed
    call = next(iter(asked.items("function_call")), None)
    if call is None:
        return Judgement("does not work", "the model answered without calling the declared function", fix)
    arguments = read_json(text_of(call.get("arguments")))
    if call.get("name") != _TOOL["name"] or not isinstance(arguments, dict) or "city" not in arguments:
        return Judgement("does not work", "the model called a function, but not with valid arguments", fix)
    output = {"type": "function_call_output", "call_id": call.get("call_id"), "output": _RESULT}
    history = [_QUESTION, *asked.output, output]
    answered = await session.turn(input=history, tools=[_TOOL], max_output_tokens=_ENOUGH)
    if failed := _failure(answered, "the result of a tool", fix):
        return failed
    if not answered.text:
        return Judgement(
            "unclear", "the model called the function, but did not answer when it had the result"
        )
    return Judgement("works", "the model called the function and answered with its result")


# Reasoning


async def _reasoning(session: ProbeSession) -> Judgement:
    result = await session.turn(
        input="A train leaves at 9:40 and arrives at 13:05. How many minutes does it take?",
        reasoning={"effort": "low"},
        max_output_tokens=2 * _ENOUGH,
    )
    if failed := _failure(result, "a request with a reasoning effort"):
        return failed
    tokens = object_of(result.usage.get("output_tokens_details")).get("reasoning_tokens")
    if result.items("reasoning"):
        return Judgement("works", "the model's reasoning was received")
    if isinstance(tokens, int) and tokens > 0:
        return Judgement("works", f"{counted(tokens, 'reasoning token')} reported, and no text of it")
    if object_of(result.response.get("reasoning")).get("effort") is None:
        return Judgement("unclear", "no reasoning was received, and this target accepts no effort")
    return Judgement("does not work", "no reasoning was received or reported")


# Structured output


_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"settlement_label": {"type": "string"}, "is_seat_of_government": {"type": "boolean"}},
    "required": ["settlement_label", "is_seat_of_government"],
    "additionalProperties": False,
}
"""The names are unusual, so that a model that does not know the schema does not find them by chance."""


async def _structured_output(session: ProbeSession) -> Judgement:
    format = {"type": "json_schema", "name": "settlement", "schema": _SCHEMA, "strict": True}
    result = await session.turn(
        input="Describe Oslo as JSON.", text={"format": format}, max_output_tokens=_ENOUGH
    )
    if failed := _failure(result, "a request with a JSON schema"):
        return failed
    value = read_json(result.text)
    if not isinstance(value, dict):
        return Judgement("does not work", "the answer is not a JSON object")
    label, seat = (value.get(name) for name in _SCHEMA["properties"])
    if len(value) != 2 or not isinstance(label, str) or not isinstance(seat, bool):
        return Judgement("does not work", "the answer is JSON, but does not follow the schema")
    return Judgement("works", "the answer follows the schema")


PROBES = (
    CapabilityProbe("streaming", _streaming, "problem"),
    CapabilityProbe("tools", _tools, "problem", fact="tool_calling"),
    CapabilityProbe("usage", _usage, "warning"),
    CapabilityProbe("reasoning", _reasoning, "ok", fact="reasoning"),
    CapabilityProbe("structured_output", _structured_output, "warning"),
)


def _failure(result: ProbeResult, what: str, fix: str = "") -> Judgement | None:
    """Return the judgement on a turn that failed; None if it did not."""
    if not result.code:
        if result.violations:
            return Judgement("unclear", f"the stream is not lawful: {result.violations[0]}")
        if not result.response:
            return Judgement("unclear", "the stream had no terminal event")
        return None
    message = _short(result.message)
    if result.code in _REFUSALS:
        return Judgement("does not work", f"the upstream refused {what}: {message}", fix)
    if result.code == BridgeError.INCOMPLETE_TOOL_CALL:
        return Judgement("does not work", f"a call arrived incomplete or with invalid JSON: {message}", fix)
    return Judgement("unclear", f"{what} failed: {message}", "try again later")


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else message[:_LONGEST] + "…"
