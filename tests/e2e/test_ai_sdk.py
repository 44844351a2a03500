"""The AI SDK on stored responses: it sends its history as item references."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.running import Json, Running, gateway
from tests.gateway.scripts import TOOL_CALLS, call, calls
from tests.gateway.upstream import ScriptedUpstream, said, streamed

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="needs node and npm"),
]

PACKAGES = ("ai@6", "@ai-sdk/openai@3", "zod@4")

PROGRAM = """
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const asked = [];
const openai = createOpenAI({
  baseURL: process.env.BASE_URL,
  apiKey: "sk-any",
  fetch: (url, options) => {
    asked.push(JSON.parse(options.body));
    return fetch(url, options);
  },
});
const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `17 degrees in ${city}`,
});
const settings = {
  model: openai.responses(process.env.MODEL),
  tools: { weather },
  stopWhen: stepCountIs(4),
  maxRetries: 0,
};
const messages = [];
const answers = [];
for (const question of ["What is the weather in Lisbon?", "And what shall I wear?"]) {
  messages.push({ role: "user", content: question });
  const turn = { ...settings, messages };
  const result = process.env.WAY === "streamed" ? streamText(turn) : await generateText(turn);
  answers.push(await result.text);
  messages.push(...(await result.response).messages);
}
console.log(JSON.stringify({ asked, answers }));
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "talk.js").write_text(PROGRAM)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=60000"]
    command = ["npm", "install", *options, *PACKAGES]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    if installed.returncode:
        pytest.skip("npm cannot install what the test needs: no registry is reachable")
    return folder


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def running(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("clients")
    with gateway(folder, config=CONFIG.format(url=upstream.url)) as started:
        yield started


def talk(folder: Path, running: Running, model: str, way: str) -> Json:
    environment = {**os.environ, "BASE_URL": f"{running.url}/v1", "MODEL": model, "WAY": way}
    command = ["node", "talk.js"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result: Json = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("way", ["whole", "streamed"])
def test_the_ai_sdk_replays_a_tool_loop_by_references(
    packages: Path, running: Running, upstream: ScriptedUpstream, way: str
) -> None:
    """It references only items after reasoning: one before the call and one before the answer."""
    thought = chat_chunk({"reasoning_content": "Lisbon it is"})
    asking = streamed(thought, calls(call(0, "call_w", "weather", '{"city": "Lisbon"}')), TOOL_CALLS)
    answers = (streamed(thought, *said("It is 17 degrees.")), streamed(*said("A light coat.")))
    model = upstream.play(f"gpt-5-{way}", asking, *answers)
    result = talk(packages, running, model, way)
    assert result["answers"] == ["It is 17 degrees.", "A light coat."]
    references = [
        [item["id"].partition("_")[0] for item in asked["input"] if item.get("type") == "item_reference"]
        for asked in result["asked"]
    ]
    assert references == [[], ["rs"], ["rs", "rs", "msg"]]
    messages = upstream.asked_for(model)[2].json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[1]["tool_calls"][0]["function"]["name"] == "weather"
    assert messages[2]["content"] == "17 degrees in Lisbon"
    assert messages[3]["content"] == "It is 17 degrees."
