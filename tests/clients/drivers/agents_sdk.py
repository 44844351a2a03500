"""Cases of the OpenAI Agents SDK: functions, hand-offs, the typed tools, sessions."""

import subprocess
from pathlib import Path

from agents import (
    Agent,
    ApplyPatchTool,
    LocalShellTool,
    ModelSettings,
    Runner,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    SQLiteSession,
    apply_diff,
    function_tool,
    responses_websocket_session,
    set_tracing_disabled,
)
from agents.editor import ApplyPatchResult
from openai.types.shared import Reasoning
from pydantic import BaseModel
from serving import serve

set_tracing_disabled(True)

ran = []
"""The commands and additions that were run in this case."""


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


class Cat(BaseModel):
    name: str
    age: int


def bash(command):
    ran.append(command)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=10)
    return done.stdout, done.returncode


def run_shell(request):
    outputs = []
    for command in request.data.action.commands:
        stdout, code = bash(command)
        outputs.append(ShellCommandOutput(stdout, "", ShellCallOutcome("exit", code), command))
    return ShellResult(outputs)


def run_local_shell(request):
    return bash(request.data.action.command[-1])[0]


class Editor:
    """An editor that applies patches in the working directory of the driver."""

    def create_file(self, operation):
        return self._write(operation.path, apply_diff("", operation.diff, mode="create"))

    def update_file(self, operation):
        return self._write(operation.path, apply_diff(Path(operation.path).read_text(), operation.diff))

    def delete_file(self, operation):
        Path(operation.path).unlink()
        return ApplyPatchResult("completed", f"deleted {operation.path}")

    def _write(self, path, text):
        Path(path).write_text(text)
        return ApplyPatchResult("completed", f"wrote {path}")


def agent_for(model, *tools, **fields):
    ran.clear()
    return Agent(name="Helper", instructions="Be brief.", model=model, tools=list(tools), **fields)


def outcome(result, **fields):
    return {"text": str(result.final_output), "ran": list(ran), **fields}


async def functions(model, automatic=False):
    result = await Runner.run(agent_for(model, add), "What is 2 + 3?", auto_previous_response_id=automatic)
    return outcome(result)


async def streamed(model):
    result = Runner.run_streamed(agent_for(model, add), "What is 2 + 3?")
    items = [event.item async for event in result.stream_events() if event.type == "run_item_stream_event"]
    kinds = [item.type for item in items if item.type != "reasoning_item"]
    return outcome(result, items=kinds)


async def hand_off(model):
    spanish = Agent(name="Spanish", instructions="Answer in Spanish.", model=model)
    first = agent_for(model, handoffs=[spanish])
    result = await Runner.run(first, "Hola")
    return outcome(result, agent=result.last_agent.name)


async def shell(model, streaming=False):
    return await _with_tool(agent_for(model, ShellTool(run_shell)), streaming)


async def local_shell(model, streaming=False):
    return await _with_tool(agent_for(model, LocalShellTool(run_local_shell)), streaming)


async def apply_patch(model, streaming=False):
    Path("notes.txt").write_text("one\ntwo\n")
    result = await _with_tool(agent_for(model, ApplyPatchTool(Editor())), streaming)
    return {**result, "files": [Path("notes.txt").read_text(), Path("fresh.txt").read_text()]}


async def _with_tool(agent, streaming):
    if not streaming:
        return outcome(await Runner.run(agent, "Do it"))
    result = Runner.run_streamed(agent, "Do it")
    async for _ in result.stream_events():
        pass
    return outcome(result)


async def session(model):
    kept = SQLiteSession("cats")
    agent = agent_for(model, add)
    first = await Runner.run(agent, "What is 2 + 3?", session=kept)
    second = await Runner.run(agent, "Are you sure?", session=kept)
    return outcome(second, first=first.final_output)


async def structured(model):
    result = await Runner.run(agent_for(model, output_type=Cat), "Describe a cat")
    return result.final_output.model_dump()


async def reasoning(model):
    settings = ModelSettings(reasoning=Reasoning(effort="medium", summary="auto"))
    result = await Runner.run(agent_for(model, add, model_settings=settings), "What is 2 + 3?")
    items = [item.raw_item for item in result.new_items if item.type == "reasoning_item"]
    thoughts = [part.text for item in items for part in [*item.summary, *(item.content or [])]]
    return outcome(result, thoughts=thoughts)


async def websocket(model):
    async with responses_websocket_session() as connected:
        agent = agent_for(model, add)
        streaming = connected.run_streamed(agent, "What is 2 + 3?")
        async for _ in streaming.stream_events():
            pass
        again = await connected.run(agent, "Are you sure?", previous_response_id=streaming.last_response_id)
    return outcome(again, first=streaming.final_output)


serve(
    {
        each.__name__: each
        for each in (
            functions, streamed, hand_off, shell, local_shell, apply_patch, session, structured, reasoning,
            websocket,
        )
    }
)  # fmt: skip
