"""Every component of the published OpenAPI files, read and written by the types of `penstock.protocol`.

A valid value can be decoded; encoded again it is valid and unchanged, except for the few normalisations that
`changes` lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.protocol.content import (
    Annotation,
    InputFile,
    InputImage,
    InputText,
    InputVideo,
    OutputText,
    PlainText,
    ReasoningText,
    Refusal,
    SummaryText,
    UrlCitation,
)
from penstock.protocol.errors import ErrorPayload, IncompleteDetails, ResponseError
from penstock.protocol.events import (
    AnnotationAddedEvent,
    ArgumentsDeltaEvent,
    ArgumentsDoneEvent,
    ContentPartEvent,
    ErrorEvent,
    Event,
    LifecycleEvent,
    OutputItemEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
    UnknownEvent,
    decode_event,
)
from penstock.protocol.items import (
    Compaction,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    ReasoningItem,
    UnknownItem,
)
from penstock.protocol.request import (
    CompactRequest,
    CreateResponse,
    Format,
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
    StreamOptions,
    TextConfig,
    TextFormat,
    UnknownFormat,
    WebSocketCreate,
)
from penstock.protocol.response import (
    CompactedResponse,
    InputTokensDetails,
    OutputTokensDetails,
    ReasoningField,
    Response,
    TextField,
    Usage,
    response_for,
)
from penstock.protocol.tools import AllowedTools, FunctionTool, Tool, ToolChoice, ToolReference
from penstock.protocol.wire import Wire, decode, encode, to_builtins
from tests.effort import examples
from tests.protocol.samples import extension_samples, spec_samples
from tests.protocol.schema import (
    RELEASES,
    UNKNOWN_NAMES,
    complaints,
    components,
    event_components,
    values,
)


@dataclass(frozen=True)
class Place:
    """Where a component is read: as `kind`, inside `within` at the path `at`, or on its own without `within`.

    `base` has the required fields of `within`.
    """

    kind: Any
    within: type[Wire] | None = None
    at: str = ""
    base: dict[str, Any] = field(default_factory=dict)

    def document(self, value: Any) -> Any:
        """Return the document that contains `value`."""
        for step in reversed(self._steps()):
            value = [value] if step == "[]" else {step: value}
        return {**self.base, **value} if self.within else value

    def pick(self, document: Any) -> Any:
        """Return the value in a decoded document or in a Struct."""
        for step in self._steps():
            if isinstance(document, Wire):
                document = getattr(document, step)
            else:
                document = document[0 if step == "[]" else step]
        return document

    def decode(self, data: bytes) -> Wire:
        kind = self.within or self.kind
        return decode_event(data) if issubclass(kind, Event) else decode(data, kind)

    def _steps(self) -> list[str]:
        return self.at.replace("[]", ".[]").split(".") if self.at else []


def _input(kind: Any) -> Place:
    return Place(kind, CreateResponse, "input[]")


def _output(kind: Any) -> Place:
    return Place(kind, Response, "output[]", {"id": "resp_1"})


def _part(kind: Any) -> Place:
    return Place(kind, Message, "content[]", {"role": "user"})


_CALL = {"call_id": "call_1", "name": "add"}

TABLE: dict[str, Place] = {
    # Bodies
    "CreateResponseBody": Place(CreateResponse),
    "CompactResponseMethodPublicBody": Place(CompactRequest),
    "CompactResource": Place(CompactedResponse),
    "ResponseResource": Place(Response),
    "WebSocketResponseCreateEvent": Place(WebSocketCreate),
    "WebSocketErrorEvent": Place(ErrorEvent),
    # Items of a request
    "ItemParam": _input(Item),
    "ItemReferenceParam": _input(ItemReference),
    "ReasoningItemParam": _input(ReasoningItem),
    "CompactionSummaryItemParam": _input(Compaction),
    "UserMessageItemParam": _input(Message),
    "SystemMessageItemParam": _input(Message),
    "DeveloperMessageItemParam": _input(Message),
    "AssistantMessageItemParam": _input(Message),
    "FunctionCallItemParam": _input(FunctionCall),
    "FunctionCallOutputItemParam": _input(FunctionCallOutput),
    # Items of an answer
    "ItemField": _output(Item),
    "Message": _output(Message),
    "FunctionCall": _output(FunctionCall),
    "FunctionCallOutput": _output(FunctionCallOutput),
    "ReasoningBody": _output(ReasoningItem),
    "CompactionBody": _output(Compaction),
    "MessageRole": Place(str, Message, "role"),
    "MessageStatus": Place(str, Message, "status", {"role": "user"}),
    "FunctionCallStatus": Place(str, FunctionCall, "status", _CALL),
    "FunctionCallItemStatus": Place(str, FunctionCall, "status", _CALL),
    "FunctionCallOutputStatusEnum": Place(str, FunctionCallOutput, "status", _CALL),
    # Content parts
    "InputTextContentParam": _part(InputText),
    "InputTextContent": _part(InputText),
    "InputImageContentParamAutoParam": _part(InputImage),
    "InputImageContent": _part(InputImage),
    "DetailEnum": Place(str, InputImage, "detail"),
    "ImageDetail": Place(str, InputImage, "detail"),
    "InputFileContentParam": _part(InputFile),
    "InputFileContent": _part(InputFile),
    "InputVideoContent": _part(InputVideo),
    "OutputTextContentParam": _part(OutputText),
    "OutputTextContent": _part(OutputText),
    "RefusalContentParam": _part(Refusal),
    "RefusalContent": _part(Refusal),
    "ReasoningTextContent": _part(ReasoningText),
    "ReasoningSummaryContentParam": Place(SummaryText, ReasoningItem, "summary[]"),
    "SummaryTextContent": Place(SummaryText, ReasoningItem, "summary[]"),
    "TextContent": _part(PlainText),
    "UrlCitationParam": Place(UrlCitation, OutputText, "annotations[]"),
    "UrlCitationBody": Place(UrlCitation, OutputText, "annotations[]"),
    "Annotation": Place(Annotation, OutputText, "annotations[]"),
    "LogProb": Place(dict, OutputText, "logprobs[]"),
    "TopLogProb": Place(dict, OutputText, "logprobs[].top_logprobs[]"),
    # Tools
    "ResponsesToolParam": Place(Tool, CreateResponse, "tools[]"),
    "FunctionToolParam": Place(FunctionTool, CreateResponse, "tools[]"),
    "EmptyModelParam": Place(dict, FunctionTool, "parameters", {"name": "add"}),
    "Tool": Place(Tool, Response, "tools[]", {"id": "resp_1"}),
    "FunctionTool": Place(FunctionTool, Response, "tools[]", {"id": "resp_1"}),
    "ToolChoiceParam": Place(ToolChoice, CreateResponse, "tool_choice"),
    "ToolChoiceValueEnum": Place(str, CreateResponse, "tool_choice"),
    "SpecificToolChoiceParam": Place(ToolReference, CreateResponse, "tool_choice"),
    "SpecificFunctionParam": Place(ToolReference, AllowedTools, "tools[]"),
    "AllowedToolsParam": Place(AllowedTools, CreateResponse, "tool_choice"),
    "FunctionToolChoice": Place(ToolReference, Response, "tool_choice", {"id": "resp_1"}),
    "AllowedToolChoice": Place(AllowedTools, Response, "tool_choice", {"id": "resp_1"}),
    # Settings of a request, and their echo
    "IncludeEnum": Place(str, CreateResponse, "include[]"),
    "MetadataParam": Place(dict, CreateResponse, "metadata"),
    "TruncationEnum": Place(str, CreateResponse, "truncation"),
    "ServiceTierEnum": Place(str, CreateResponse, "service_tier"),
    "StreamOptionsParam": Place(StreamOptions, CreateResponse, "stream_options"),
    "ReasoningParam": Place(ReasoningConfig, CreateResponse, "reasoning"),
    "ReasoningEffortEnum": Place(str, CreateResponse, "reasoning.effort"),
    "ReasoningSummaryEnum": Place(str, CreateResponse, "reasoning.summary"),
    "Reasoning": Place(ReasoningField, Response, "reasoning", {"id": "resp_1"}),
    "TextParam": Place(TextConfig, CreateResponse, "text"),
    "VerbosityEnum": Place(str, CreateResponse, "text.verbosity"),
    "TextFormatParam": Place(Format, TextConfig, "format"),
    "JsonSchemaResponseFormatParam": Place(JsonSchemaFormat | UnknownFormat, TextConfig, "format"),
    "TextField": Place(TextField, Response, "text", {"id": "resp_1"}),
    "TextResponseFormat": Place(TextFormat, TextField, "format"),
    "JsonObjectResponseFormat": Place(JsonObjectFormat, TextField, "format"),
    "JsonSchemaResponseFormat": Place(JsonSchemaFormat, TextField, "format"),
    # Usage and errors
    "Usage": Place(Usage),
    "InputTokensDetails": Place(InputTokensDetails),
    "OutputTokensDetails": Place(OutputTokensDetails),
    "IncompleteDetails": Place(IncompleteDetails),
    "Error": Place(ResponseError),
    "ErrorPayload": Place(ErrorPayload),
    # Events
    "ResponseCreatedStreamingEvent": Place(LifecycleEvent),
    "ResponseQueuedStreamingEvent": Place(LifecycleEvent),
    "ResponseInProgressStreamingEvent": Place(LifecycleEvent),
    "ResponseCompletedStreamingEvent": Place(LifecycleEvent),
    "ResponseFailedStreamingEvent": Place(LifecycleEvent),
    "ResponseIncompleteStreamingEvent": Place(LifecycleEvent),
    "ResponseOutputItemAddedStreamingEvent": Place(OutputItemEvent),
    "ResponseOutputItemDoneStreamingEvent": Place(OutputItemEvent),
    "ResponseContentPartAddedStreamingEvent": Place(ContentPartEvent),
    "ResponseContentPartDoneStreamingEvent": Place(ContentPartEvent),
    "ResponseOutputTextDeltaStreamingEvent": Place(OutputTextDeltaEvent),
    "ResponseOutputTextDoneStreamingEvent": Place(OutputTextDoneEvent),
    "ResponseOutputTextAnnotationAddedStreamingEvent": Place(AnnotationAddedEvent),
    "ResponseRefusalDeltaStreamingEvent": Place(RefusalDeltaEvent),
    "ResponseRefusalDoneStreamingEvent": Place(RefusalDoneEvent),
    "ResponseReasoningDeltaStreamingEvent": Place(ReasoningDeltaEvent),
    "ResponseReasoningDoneStreamingEvent": Place(ReasoningDoneEvent),
    "ResponseReasoningSummaryPartAddedStreamingEvent": Place(SummaryPartEvent),
    "ResponseReasoningSummaryPartDoneStreamingEvent": Place(SummaryPartEvent),
    "ResponseReasoningSummaryDeltaStreamingEvent": Place(SummaryDeltaEvent),
    "ResponseReasoningSummaryDoneStreamingEvent": Place(SummaryDoneEvent),
    "ResponseFunctionCallArgumentsDeltaStreamingEvent": Place(ArgumentsDeltaEvent),
    "ResponseFunctionCallArgumentsDoneStreamingEvent": Place(ArgumentsDoneEvent),
    "ErrorStreamingEvent": Place(ErrorEvent),
}

ADDED_IN_2026_04_24 = frozenset(
    {
        "CompactResponseMethodPublicBody",
        "CompactResource",
        "CompactionBody",
        "CompactionSummaryItemParam",
        "WebSocketErrorEvent",
        "WebSocketResponseCreateEvent",
    }
)

CHANGED_IN_2026_04_24 = frozenset(
    {
        "AssistantMessageItemParam",
        "ItemField",
        "ItemParam",
        "Message",
        "OutputTextContent",
        "ResponseOutputTextDeltaStreamingEvent",
        "ResponseOutputTextDoneStreamingEvent",
        "ResponseResource",
    }
)

thorough = settings(
    max_examples=examples(15),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

NULL_IS_ABSENT = frozenset(
    {
        # on items and parts
        *(
            "type",
            "id",
            "status",
            "content",
            "encrypted_content",
            "detail",
            "filename",
            "file_data",
            "file_url",
        ),
        # on a request
        *(
            "model",
            "input",
            "instructions",
            "previous_response_id",
            "tools",
            "tool_choice",
            "metadata",
            "text",
        ),
        *("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "stream_options"),
        *("parallel_tool_calls", "max_output_tokens", "max_tool_calls", "reasoning", "safety_identifier"),
        *("prompt_cache_key", "text", "format"),
    }
)
"""Fields that may be null where Penstock's type has no null: null is read as absent there. (Where an answer
requires the field, it has a null in Penstock too; dropping it would make the encoded value invalid.)"""

FILLED: dict[str, tuple[Any, ...]] = {
    "type": ("item_reference", "json_schema", "server_error"),
    "annotations": ([],),
    "logprobs": ([],),
    "mode": ("auto",),
    "name": ("",),
    "param": (None,),
    "metadata": ({},),
    "cache_write_tokens": (0,),
    "sequence_number": (0,),  # the error on a WebSocket has none, but is read as an error event
}
"""Fields that are written although they were absent, with their values."""

COPIED = frozenset({"code", "message", "param"})
"""Fields of an error event, filled in from its nested error."""

UNREAD = frozenset({"metadata", "parameters", "schema", "headers", "logprobs", *UNKNOWN_NAMES})
"""Fields whose values are not read: not a byte of them may change."""


def changes(sent: Any, back: Any, path: str = "") -> list[str]:
    """Return where `back` differs from `sent`, except for the normalisations in the tables above."""
    if isinstance(sent, dict) and isinstance(back, dict):
        found = []
        nulls = {name for name in sent if sent[name] is None and back.get(name, "") is not None}
        given = sent.keys() - (nulls & NULL_IS_ABSENT)
        for name in given:
            if name not in back:
                found.append(f"{path}.{name} is lost")
            elif name in UNREAD:
                found += [] if _bytes(sent[name]) == _bytes(back[name]) else [f"{path}.{name} changed"]
            else:
                found += changes(sent[name], back[name], f"{path}.{name}")
        for name in back.keys() - given:
            copied = name in COPIED and isinstance(sent.get("error"), dict)
            allowed = (sent["error"].get(name),) if copied else FILLED.get(name, ())
            if back[name] not in allowed:
                found.append(f"{path}.{name} appeared as {back[name]!r}")
        return found
    if isinstance(sent, list) and isinstance(back, list) and len(sent) == len(back):
        pairs = zip(sent, back, strict=True)
        return [each for i, (old, new) in enumerate(pairs) for each in changes(old, new, f"{path}[{i}]")]
    whole = isinstance(sent, float) and sent.is_integer() and type(back) is int and sent == back
    return [] if whole or _bytes(sent) == _bytes(back) else [f"{path} changed from {sent!r} to {back!r}"]


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


@pytest.mark.parametrize("release", RELEASES)
def test_every_component_of_the_openapi_file_is_in_the_table(release: str) -> None:
    expected = TABLE.keys() - (ADDED_IN_2026_04_24 if release == "2026-01-15" else set())
    assert components(release).keys() == expected


@pytest.mark.parametrize("component", TABLE)
@given(data=st.data())
@thorough
def test_a_valid_value_is_decoded_and_encoded_unchanged(component: str, data: st.DataObject) -> None:
    _check_round_trip("2026-04-24", component, data.draw(values("2026-04-24", component)))


def test_the_other_components_are_the_same_in_both_releases() -> None:
    old, new = components("2026-01-15"), components("2026-04-24")
    assert {name for name in old if old[name] != new[name]} == CHANGED_IN_2026_04_24


@pytest.mark.parametrize("component", sorted(CHANGED_IN_2026_04_24))
@given(data=st.data())
@settings(thorough, max_examples=examples(15))
def test_a_valid_value_of_the_previous_release_is_too(component: str, data: st.DataObject) -> None:
    _check_round_trip("2026-01-15", component, data.draw(values("2026-01-15", component)))


def _check_round_trip(release: str, component: str, value: Any) -> None:
    place = TABLE[component]
    document = place.document(value)

    read = place.decode(msgspec.json.encode(document))
    back = msgspec.json.decode(encode(read))

    if place.kind is OutputItemEvent and value["item"] is None:
        assert isinstance(read, UnknownEvent)  # valid but useless: not worth a None in every reader
    else:
        assert isinstance(place.pick(read), place.kind)
        assert not isinstance(place.pick(read), UnknownItem)
    assert complaints(release, component, place.pick(back)) == []
    assert changes(value, place.pick(back)) == []
    assert to_builtins(read) == back


def _without_json_schema(response: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot as the published schema requires it. Ours has the schema of a `json_schema` format,
    because OpenAI's clients need it; the strict accent replaces it by null (spec S6)."""
    format = response["text"]["format"]
    if format["type"] != "json_schema":
        return response
    return {**response, "text": {**response["text"], "format": {**format, "schema": None}}}


@pytest.mark.parametrize("release", RELEASES)
@given(data=st.data())
@settings(thorough, max_examples=examples(75))
def test_the_snapshot_for_any_valid_request_is_a_valid_response(release: str, data: st.DataObject) -> None:
    body = data.draw(values(release, "CreateResponseBody"))
    request = decode(msgspec.json.encode(body), CreateResponse)

    snapshot = to_builtins(response_for(request, id="resp_1", created_at=1_760_000_000))

    assert complaints(release, "ResponseResource", _without_json_schema(snapshot)) == []


def test_the_snapshot_has_the_requested_schema() -> None:
    format = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}
    request = decode(msgspec.json.encode({"text": {"format": format}}), CreateResponse)

    snapshot = to_builtins(response_for(request, id="resp_1", created_at=0))

    assert snapshot["text"]["format"] == {**format, "description": None, "strict": False}
    assert complaints(RELEASES[0], "ResponseResource", snapshot)
    assert not complaints(RELEASES[0], "ResponseResource", _without_json_schema(snapshot))


def test_there_is_a_sample_of_every_event_of_the_specification() -> None:
    assert {event.type for event in spec_samples()} >= event_components().keys()


@pytest.mark.parametrize("event", spec_samples(), ids=lambda event: str(event.type))
def test_an_event_of_penstock_is_valid(event: Event) -> None:
    encoded = encode(event)
    compaction = b'"compaction"' in encoded  # not in the first release
    for release in RELEASES[:1] if compaction else RELEASES:
        assert complaints(release, event_components()[event.type], msgspec.json.decode(encoded)) == []


@pytest.mark.parametrize("event", extension_samples(), ids=lambda event: str(event.type))
def test_an_extension_sample_is_outside_the_specification(event: Event) -> None:
    component = event_components().get(event.type)
    assert component is None or complaints(RELEASES[0], component, msgspec.json.decode(encode(event)))
