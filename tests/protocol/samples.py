"""One realistic event of every shape that Penstock sends, built from its own types.

`spec_samples` stay inside the published specification, `extension_samples` go beyond it, and
`spelled_samples` are the names that only some accents use. Ids, statuses and the fields that clients insist
on are as the machine writes them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.content import (
    FileCitation,
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
    UnknownAnnotation,
    UrlCitation,
)
from penstock.protocol.errors import Diagnostic, ErrorPayload, IncompleteDetails, ResponseError
from penstock.protocol.events import (
    AnnotationAddedEvent,
    ArgumentsDeltaEvent,
    ArgumentsDoneEvent,
    ContentPartEvent,
    CustomInputDeltaEvent,
    CustomInputDoneEvent,
    ErrorEvent,
    Event,
    HostedToolEvent,
    LifecycleEvent,
    OutputItemEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    PatchDiffEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    ShellCommandEvent,
    ShellOutputEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
)
from penstock.protocol.items import (
    ApplyPatchCall,
    ApplyPatchCallOutput,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    ReasoningItem,
    ShellCall,
    ShellCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
    UnknownItem,
    WebSearchCall,
)
from penstock.protocol.request import (
    CreateResponse,
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
    TextConfig,
    TextFormat,
)
from penstock.protocol.response import InputTokensDetails, OutputTokensDetails, Response, Usage, response_for
from penstock.protocol.tools import (
    AllowedTools,
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    NamespaceTool,
    ShellTool,
    Tool,
    ToolReference,
    ToolSearchTool,
    UnknownTool,
    WebSearchTool,
)

LOGPROB: LogProb = {
    "token": "Hi",
    "logprob": -0.25,
    "bytes": [72, 105],
    "top_logprobs": [{"token": "Hi", "logprob": -0.25, "bytes": [72, 105]}],
}
CITATION = UrlCitation(url="https://example.com/", start_index=0, end_index=2, title="Example")

ADD = FunctionTool(
    name="add",
    description="Adds two numbers.",
    parameters={"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    strict=True,
)
EVERY_TOOL: list[Tool] = [
    ADD,
    FunctionTool(name="ping"),
    CustomTool(name="exec", description="Runs JavaScript."),
    CustomTool(name="apply_patch", format={"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}),
    LocalShellTool(),
    ShellTool(environment={"type": "local"}),
    ApplyPatchTool(),
    NamespaceTool(name="mcp__demo", tools=[ADD, CustomTool(name="exec")]),
    ToolSearchTool(execution="client", description="Finds tools.", parameters={"type": "object"}),
    WebSearchTool(external_web_access=True, search_context_size="low"),
    UnknownTool(type="code_interpreter", extra={"container": {"type": "auto"}}),
]
"""Every kind of tool that a client declares (decision 13, client 1), and one of a vendor."""

_MESSAGE = Message(
    id="msg_1",
    status="completed",
    role="assistant",
    content=[OutputText(text="Hi", annotations=[CITATION], logprobs=[LOGPROB])],
    phase="final_answer",
)
_REFUSED = Message(id="msg_2", status="completed", role="assistant", content=[Refusal(refusal="No.")])
_CUT = Message(id="msg_3", status="incomplete", role="assistant", content=[OutputText(text="H")])
_REASONING = ReasoningItem(
    id="rs_1",
    status="completed",
    summary=[SummaryText(text="Thought.")],
    content=[ReasoningText(text="Hmm.")],
    encrypted_content="gAAAA",
)
_CALL = FunctionCall(id="fc_1", call_id="call_1", name="add", arguments='{"a":2,"b":3}', status="completed")
_NAMESPACED = replace(_CALL, id="fc_2", call_id="call_2", namespace="mcp__demo")
_CUT_CALL = replace(_CALL, id="fc_3", call_id="call_8", arguments='{"a":', status="incomplete")
_OUTPUT = FunctionCallOutput(id="fco_1", call_id="call_1", output="5", status="completed")
_COMPACTION = Compaction(id="cmp_1", status="completed", encrypted_content="gAAAA")

_SPEC_ITEMS: list[tuple[Item, Item]] = [
    (Message(id="msg_1", status="in_progress", role="assistant", phase="final_answer"), _MESSAGE),
    (Message(id="msg_2", status="in_progress", role="assistant"), _REFUSED),
    (Message(id="msg_3", status="in_progress", role="assistant"), _CUT),
    (ReasoningItem(id="rs_1", status="in_progress"), _REASONING),
    (replace(_CALL, arguments="", status="in_progress"), _CALL),
    (replace(_NAMESPACED, arguments="", status="in_progress"), _NAMESPACED),
    (
        replace(_CALL, id="fc_3", arguments="", status="in_progress"),
        replace(_CALL, id="fc_3", status="incomplete"),
    ),
    (replace(_OUTPUT, status="in_progress"), _OUTPUT),
    (_COMPACTION, _COMPACTION),
]
"""Items as they are added and as they are done."""

_LOCAL_SHELL = LocalShellCall(
    id="lsh_1",
    call_id="call_4",
    action={"type": "exec", "command": ["ls"], "env": {}, "working_directory": "/tmp"},
    status="completed",
)
_SHELL = ShellCall(
    id="sh_1",
    call_id="call_5",
    action={"commands": ["ls"], "max_output_length": None, "timeout_ms": None},
    status="completed",
)
_SHELL_RESULT: dict[str, Any] = {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
_PATCH = ApplyPatchCall(
    id="apc_1",
    call_id="call_6",
    operation={"type": "update_file", "path": "a.txt", "diff": "@@\n-a\n+b\n"},
    status="completed",
)
_CUSTOM = CustomToolCall(id="ctc_1", call_id="call_3", name="exec", input="1 + 1", status="completed")
_SEARCH = ToolSearchCall(
    id="ts_1", call_id="call_7", execution="client", arguments={"query": "add"}, status="completed"
)
_WEB = WebSearchCall(
    id="ws_1", status="completed", action={"type": "search", "query": "penstock", "sources": []}
)

_EXTENSION_ITEMS: list[tuple[Item, Item]] = [
    (replace(_CUSTOM, input="", status="in_progress"), _CUSTOM),
    (
        replace(_CUSTOM, id="ctc_2", namespace="functions", input="", status="in_progress"),
        replace(_CUSTOM, id="ctc_2", namespace="functions"),
    ),
    (replace(_LOCAL_SHELL, status="in_progress"), _LOCAL_SHELL),
    (replace(_SHELL, action={"commands": []}, status="in_progress"), _SHELL),
    (replace(_PATCH, operation={**_PATCH.operation, "diff": ""}, status="in_progress"), _PATCH),
    (replace(_SEARCH, status="in_progress"), _SEARCH),
    (replace(_WEB, status="in_progress"), _WEB),
]

_EXTENSION_OUTPUTS: list[Item] = [
    CustomToolCallOutput(id="ctco_1", call_id="call_3", output="2", status="completed"),
    ShellCallOutput(
        id="sho_1", call_id="call_5", output=[_SHELL_RESULT], max_output_length=4096, status="completed"
    ),
    ApplyPatchCallOutput(id="apco_1", call_id="call_6", output="Done.", status="completed"),
    ToolSearchOutput(
        id="tso_1", call_id="call_7", execution="client", tools=EVERY_TOOL[:2], status="completed"
    ),
    UnknownItem(
        type="code_interpreter_call",
        id="ci_1",
        status="completed",
        extra={"code": "1 + 1", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "2"}]},
    ),
]
"""Items that are sent complete."""

_ONLY_ADD = ToolReference(type="function", name="add")
_REQUEST = CreateResponse(
    model="demo",
    instructions="Be brief.",
    tools=EVERY_TOOL[:2],
    tool_choice="auto",
    temperature=0.5,
    top_logprobs=1,
    max_output_tokens=64,
    text=TextConfig(format=TextFormat(), verbosity="low"),
    reasoning=ReasoningConfig(effort="minimal", summary="auto"),
    metadata={"turn": "1"},
    prompt_cache_key="thread",
)
_SCHEMA_FORMAT = JsonSchemaFormat(name="answer", schema={"type": "object"}, strict=True)
_USAGE = Usage(
    input_tokens=20,
    output_tokens=10,
    total_tokens=30,
    input_tokens_details=InputTokensDetails(cached_tokens=4),
    output_tokens_details=OutputTokensDetails(reasoning_tokens=6),
)


def _snapshot(request: CreateResponse = _REQUEST) -> Response:
    return response_for(request, id="resp_1", created_at=1_760_000_000)


_SPEC_SNAPSHOTS: dict[str, list[Response]] = {
    "response.created": [
        _snapshot(),
        _snapshot(CreateResponse()),
        _snapshot(replace(_REQUEST, tool_choice=ToolReference(type="function", name="add"))),
        _snapshot(
            replace(_REQUEST, tool_choice=AllowedTools(tools=[ToolReference(type="function", name="add")]))
        ),
        _snapshot(replace(_REQUEST, text=TextConfig(format=JsonObjectFormat()))),
        _snapshot(replace(_REQUEST, conversation="conv_1", previous_response_id="resp_0", store=False)),
    ],
    "response.queued": [replace(_snapshot(), status="queued", background=True)],
    "response.in_progress": [_snapshot()],
    "response.completed": [
        replace(
            _snapshot(),
            status="completed",
            completed_at=1_760_000_002,
            output=[_REASONING, _MESSAGE, _REFUSED, _CALL, _NAMESPACED, _OUTPUT, _COMPACTION],
            usage=_USAGE,
            diagnostics=[Diagnostic(code="tool_renamed", message="`a.b` is `a_b`.", param="tools[0].name")],
        )
    ],
    "response.incomplete": [
        replace(
            _snapshot(),
            status="incomplete",
            output=[_CUT],
            incomplete_details=IncompleteDetails(reason=reason),
            usage=_USAGE,
        )
        for reason in ("max_output_tokens", "content_filter")
    ],
    "response.failed": [
        replace(
            _snapshot(),
            status="failed",
            error=ResponseError(message="The upstream hung up."),
        )
    ],
}

_EXTENSION_SNAPSHOTS: dict[str, list[Response]] = {
    "response.created": [
        _snapshot(replace(_REQUEST, tools=EVERY_TOOL)),
        _snapshot(replace(_REQUEST, tools=EVERY_TOOL, tool_choice=ToolReference(type="custom", name="exec"))),
        _snapshot(replace(_REQUEST, tools=EVERY_TOOL, tool_choice=ToolReference(type="shell"))),
        _snapshot(
            replace(
                _REQUEST,
                text=TextConfig(
                    format=JsonSchemaFormat(name="answer", schema={"type": "object"}, strict=True)
                ),
            )
        ),
    ],
    "response.completed": [
        replace(
            _snapshot(replace(_REQUEST, tools=EVERY_TOOL)),
            status="completed",
            completed_at=1_760_000_002,
            output=[*(done for _, done in _EXTENSION_ITEMS), *_EXTENSION_OUTPUTS],
            usage=_USAGE,
        )
    ],
}

_HOSTED_FIELDS: dict[str, dict[str, Any]] = {
    "response.web_search_call.in_progress": {},
    "response.web_search_call.searching": {},
    "response.web_search_call.completed": {},
    "response.file_search_call.in_progress": {},
    "response.file_search_call.searching": {},
    "response.file_search_call.completed": {},
    "response.code_interpreter_call.in_progress": {},
    "response.code_interpreter_call.interpreting": {},
    "response.code_interpreter_call.completed": {},
    "response.code_interpreter_call_code.delta": {"delta": "1 +"},
    "response.code_interpreter_call_code.done": {"code": "1 + 1"},
    "response.image_generation_call.in_progress": {},
    "response.image_generation_call.generating": {},
    "response.image_generation_call.partial_image": {"partial_image_index": 0, "partial_image_b64": "aGk="},
    "response.image_generation_call.completed": {},
    "response.mcp_call.in_progress": {},
    "response.mcp_call.completed": {},
    "response.mcp_call.failed": {},
    "response.mcp_list_tools.in_progress": {},
    "response.mcp_list_tools.completed": {},
    "response.mcp_list_tools.failed": {},
    "response.mcp_call_arguments.delta": {"delta": '{"a":'},
    "response.mcp_call_arguments.done": {"arguments": '{"a":2}'},
}
"""The events of tools that a vendor runs, with the fields of each besides its position."""


def samples() -> list[Event]:
    """Return events of every shape, with the specification's names, which the machine uses."""
    return [*spec_samples(), *extension_samples()]


def spec_samples() -> list[Event]:
    """Return the events of the published specification."""
    text: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    thought: dict[str, Any] = {"item_id": "rs_1", "output_index": 3, "content_index": 0}
    summary: dict[str, Any] = {"item_id": "rs_1", "output_index": 3, "summary_index": 0}
    call: dict[str, Any] = {"item_id": "fc_1", "output_index": 4}
    error = ErrorPayload(type="server_error", code="upstream_closed", message="The upstream hung up.")
    return _numbered(
        [
            *_lifecycle(_SPEC_SNAPSHOTS),
            *_announced(_SPEC_ITEMS),
            ContentPartEvent(type="response.content_part.added", part=OutputText(), **text),
            OutputTextDeltaEvent(delta="Hi", **text),
            OutputTextDeltaEvent(delta="Hi", logprobs=[LOGPROB], obfuscation="x7", **text),
            AnnotationAddedEvent(annotation=CITATION, **text),
            OutputTextDoneEvent(text="Hi", **text),
            OutputTextDoneEvent(text="Hi", logprobs=[LOGPROB], **text),
            ContentPartEvent(
                type="response.content_part.done",
                part=OutputText(text="Hi", annotations=[CITATION], logprobs=[LOGPROB]),
                **text,
            ),
            ContentPartEvent(type="response.content_part.added", part=Refusal(), **text),
            RefusalDeltaEvent(delta="No.", **text),
            RefusalDoneEvent(refusal="No.", **text),
            ContentPartEvent(type="response.content_part.done", part=Refusal(refusal="No."), **text),
            ContentPartEvent(type="response.content_part.added", part=ReasoningText(), **thought),
            ReasoningDeltaEvent(delta="Hmm.", **thought),
            ReasoningDoneEvent(text="Hmm.", **thought),
            ContentPartEvent(type="response.content_part.done", part=ReasoningText(text="Hmm."), **thought),
            SummaryPartEvent(type="response.reasoning_summary_part.added", part=SummaryText(), **summary),
            SummaryDeltaEvent(delta="Thought.", **summary),
            SummaryDoneEvent(text="Thought.", **summary),
            SummaryPartEvent(
                type="response.reasoning_summary_part.done", part=SummaryText(text="Thought."), **summary
            ),
            ArgumentsDeltaEvent(delta='{"a":2,"b":3}', **call),
            ArgumentsDoneEvent(name="add", arguments='{"a":2,"b":3}', **call),
            ErrorEvent(error=error, code=error.code, message=error.message, param=error.param),
        ]
    )


def extension_samples() -> list[Event]:
    """Return the events of declared tools and vendors' tools, and extended snapshots."""
    text: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    custom: dict[str, Any] = {"item_id": "ctc_1", "output_index": 0}
    command: dict[str, Any] = {"output_index": 3, "command_index": 0}
    patch: dict[str, Any] = {"item_id": "apc_1", "output_index": 4}
    return _numbered(
        [
            *_lifecycle(_EXTENSION_SNAPSHOTS),
            *_announced(_EXTENSION_ITEMS),
            *_announced([(item, item) for item in _EXTENSION_OUTPUTS]),
            CustomInputDeltaEvent(delta="1 + 1", **custom),
            CustomInputDoneEvent(input="1 + 1", **custom),
            ShellCommandEvent(type="response.shell_call_command.added", command="", **command),
            ShellCommandEvent(type="response.shell_call_command.delta", delta="ls", **command),
            ShellCommandEvent(type="response.shell_call_command.done", command="ls", **command),
            ShellOutputEvent(
                type="response.shell_call_output_content.delta",
                item_id="sho_1",
                delta={"stdout": "a\n"},
                **command,
            ),
            ShellOutputEvent(
                type="response.shell_call_output_content.done",
                item_id="sho_1",
                output=[_SHELL_RESULT],
                **command,
            ),
            PatchDiffEvent(type="response.apply_patch_call_operation_diff.delta", delta="@@", **patch),
            PatchDiffEvent(
                type="response.apply_patch_call_operation_diff.done", diff="@@\n-a\n+b\n", **patch
            ),
            AnnotationAddedEvent(
                annotation=FileCitation(file_id="file_1", filename="a.txt", index=0),
                annotation_index=1,
                **text,
            ),
            AnnotationAddedEvent(
                annotation=UnknownAnnotation(type="file_path", extra={"file_id": "file_1", "index": 0}),
                annotation_index=2,
                **text,
            ),
            *(
                HostedToolEvent(type=type, item_id="ws_1", output_index=6, extra=more or UNSET)
                for type, more in _HOSTED_FIELDS.items()
            ),
        ]
    )


def spelled_samples() -> list[Event]:
    """Return events with the names of the `openai` accent (decision 1)."""
    thought: dict[str, Any] = {"item_id": "rs_1", "output_index": 3, "content_index": 0}
    return _numbered(
        [
            ReasoningDeltaEvent(type="response.reasoning_text.delta", delta="Hmm.", **thought),
            ReasoningDoneEvent(type="response.reasoning_text.done", text="Hmm.", **thought),
        ]
    )


def _lifecycle(snapshots: dict[str, list[Response]]) -> list[Event]:
    return [LifecycleEvent(type=type, response=each) for type in snapshots for each in snapshots[type]]


def _announced(items: list[tuple[Item, Item]]) -> list[Event]:
    return [
        OutputItemEvent(type=f"response.output_item.{step}", output_index=index, item=item)
        for index, pair in enumerate(items)
        for step, item in zip(("added", "done"), pair, strict=True)
    ]


def _numbered(events: list[Event]) -> list[Event]:
    numbers = count()
    return [replace(event, sequence_number=next(numbers)) for event in events]
