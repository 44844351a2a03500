"""A strict Gemini upstream, for a model that signs its calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import msgspec

from tests.client.server import Asked
from tests.clients.script import Declared, Entry, Json, Seen, encode
from tests.clients.upstreams.base import USUAL_OUTPUT, StrictUpstream, Voice, repeated

FIELDS = {
    "cachedContent", "contents", "generationConfig", "labels", "safetySettings", "serviceTier",
    "systemInstruction", "toolConfig", "tools",
}  # fmt: skip
DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"}
SCHEMA = {
    "anyOf", "default", "description", "enum", "example", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "nullable", "pattern",
    "properties", "propertyOrdering", "required", "title", "type",
}  # fmt: skip
"""The keywords of a schema. Others are refused as unknown."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
UNSIGNED = "skip_thought_signature_validator"


class StrictGemini(StrictUpstream):
    dialect = "gemini"

    def __init__(self) -> None:
        super().__init__()
        self._signatures: set[str] = {UNSIGNED}
        self._numbers = count(1)

    def faults(self, asked: Asked) -> list[str]:
        body: Json = asked.json
        found = [f"unknown name {name!r}: cannot find field" for name in body.keys() - FIELDS]
        if not re.search(r"/models/[\w.-]+:streamGenerateContent\?alt=sse$", asked.target):
            found.append(f"no such path: {asked.target}")
        contents = body.get("contents") or []
        found += [*_tool_faults(body), *_order_faults(contents)]
        for index, content in enumerate(contents):
            found += [f"contents[{index}]: {fault}" for fault in _part_faults(content)]
        return [*found, *self._signature_faults(contents)]

    def _signature_faults(self, contents: list[Json]) -> Iterator[str]:
        """Yield the calls without a signature: each step of the current turn has it on its first call."""
        begins = max((index for index, each in enumerate(contents) if _is_prompt(each)), default=0)
        for index, content in enumerate(contents):
            calls = [part for part in content.get("parts", []) if "functionCall" in part]
            if index > begins and calls and "thoughtSignature" not in calls[0]:
                yield f"contents[{index}]: a function call is missing a thought_signature"
            for part in content.get("parts", []):
                if part.get("thoughtSignature", UNSIGNED) not in self._signatures:
                    yield f"contents[{index}]: thought signature is not valid"

    def read(self, body: Json) -> Seen:
        declared = [
            Declared(each["name"], each.get("description", ""), each.get("parameters", {}))
            for each in _functions(body)
        ]
        system = body.get("systemInstruction", {}).get("parts", [])
        entries = [Entry("system", part["text"]) for part in system]
        for content in body["contents"]:
            kind = "assistant" if content["role"] == "model" else "user"
            entries += [entry for part in content["parts"] for entry in _entries(kind, part)]
        return Seen(declared, entries)

    def voice(self, body: Json) -> Voice:
        shows = body.get("generationConfig", {}).get("thinkingConfig", {}).get("includeThoughts", False)
        return GeminiVoice(self._signatures, self._numbers, shows_thoughts=shows)

    def error(self, status: int, message: str) -> Json:
        names = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        return {"error": {"code": status, "message": message, "status": names.get(status, "INTERNAL")}}


def _functions(body: Json) -> list[Json]:
    return [each for tool in body.get("tools", []) for each in tool.get("functionDeclarations", [])]


def _is_prompt(content: Json) -> bool:
    parts = content.get("parts", [])
    return content.get("role") == "user" and not any("functionResponse" in part for part in parts)


def _tool_faults(body: Json) -> Iterator[str]:
    functions = _functions(body)
    names = [each.get("name", "") for each in functions]
    yield from (f"invalid function name {name!r}" for name in names if not NAME.fullmatch(name))
    yield from (f"duplicate function declaration: {name!r}" for name in repeated(names))
    for function in functions:
        if "parameters" in function:
            yield from (f"{function['name']}: {fault}" for fault in _schema_faults(function["parameters"]))


def _schema_faults(schema: Json) -> Iterator[str]:
    yield from (f"unknown name {name!r}: cannot find field" for name in schema.keys() - SCHEMA)
    if str(schema.get("type", "")).lower() == "object" and not schema.get("properties"):
        yield "properties: should be non-empty for OBJECT type"
    if str(schema.get("type", "")).lower() == "array" and "items" not in schema:
        yield "items: missing field"
    missing = set(schema.get("required", [])) - set(schema.get("properties", {}))
    yield from (f"required: property {name!r} is not defined" for name in missing)
    nested = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*nested, *([schema["items"]] if "items" in schema else [])]:
        yield from _schema_faults(each)


def _order_faults(contents: list[Json]) -> Iterator[str]:
    if not contents:
        yield "contents is not specified"
        return
    if contents[-1].get("role") != "user":
        yield "please ensure that the conversation ends with a user turn"
    waiting: list[tuple[str, str]] = []
    for index, content in enumerate(contents):
        parts = content.get("parts", [])
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        answered = [(each.get("id", ""), each["name"]) for each in responses]
        if sorted(answered) != sorted(waiting):
            yield (
                f"contents[{index}]: the function response parts must match the function call parts "
                f"of the function call turn: {answered} for {waiting}"
            )
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        waiting = [(each.get("id", ""), each["name"]) for each in calls]
        if calls and (not index or contents[index - 1].get("role") != "user"):
            yield f"contents[{index}]: a function call turn must come after a user turn"
    if waiting:
        yield "a function call has no function response"


def _part_faults(content: Json) -> Iterator[str]:
    if content.get("role") not in ("user", "model"):
        yield f"please use a valid role: user, model (not {content.get('role')!r})"
    if not content.get("parts"):
        yield "must include at least one parts field"
    for part in content.get("parts", []):
        if len(part.keys() & DATA) != 1:
            yield f"a part must have exactly one initialized field, not {sorted(part.keys() & DATA)}"
        if part.get("text") == "" and "thoughtSignature" not in part:
            yield "a text part is empty"
        if "functionCall" in part and not NAME.fullmatch(part["functionCall"]["name"]):
            yield f"invalid function name {part['functionCall']['name']!r}"


def _entries(kind: str, part: Json) -> Iterator[Entry]:
    if "functionCall" in part:
        yield Entry("call", encode(part["functionCall"].get("args", {})), part["functionCall"]["name"])
    elif "functionResponse" in part:
        response = part["functionResponse"]
        yield Entry("output", str(response["response"].get("output", "")), response.get("id", ""))
        # Models that sign their calls also take images in the output of a function.
        for nested in response.get("parts", []):
            yield from _entries(kind, nested)
    elif "inlineData" in part:
        yield Entry("image", f"data:{part['inlineData']['mimeType']};base64,{part['inlineData']['data']}")
    else:
        yield Entry("reasoning" if part.get("thought") else kind, part.get("text", ""))


class GeminiVoice(Voice):
    def __init__(self, signatures: set[str], numbers: count[int], *, shows_thoughts: bool) -> None:
        self._signatures, self._numbers, self._shows_thoughts = signatures, numbers, shows_thoughts
        self._has_calls = False

    def begin(self) -> bytes:
        return b""

    def say(self, text: str) -> bytes:
        middle = len(text) // 2
        return self._chunk({"text": text[:middle]}) + self._chunk({"text": text[middle:]})

    def think(self, text: str) -> bytes:
        return self._chunk({"text": text, "thought": True}) if self._shows_thoughts else b""

    def call(self, name: str, arguments: Json) -> bytes:
        part: Json = {"functionCall": {"name": name, "args": arguments}}
        if not self._has_calls:
            part["thoughtSignature"] = f"c2lnbmVk{next(self._numbers)}"
            self._signatures.add(part["thoughtSignature"])
        self._has_calls = True
        return self._chunk(part)

    def end(self, *, is_truncated: bool) -> bytes:
        return self._chunk({"text": ""}, "MAX_TOKENS" if is_truncated else "STOP")

    def _chunk(self, part: Json, reason: str = "") -> bytes:
        candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
        usage = {"promptTokenCount": self.input_tokens, "candidatesTokenCount": USUAL_OUTPUT}
        usage["totalTokenCount"] = self.input_tokens + USUAL_OUTPUT
        if reason:
            candidate["finishReason"] = reason
        data = {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "scripted",
            "responseId": "r1",
        }
        return b"data: " + msgspec.json.encode(data) + b"\r\n\r\n"
