"""The clients that `penstock connect` knows, each with its configuration for a gateway.

docs/clients/ has a page for each, whose set-up is generated from this table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template

from msgspec import Struct

from penstock.connect import codex_program, llm_models
from penstock.connect.codex_config import codex_settings, with_codex_settings
from penstock.connect.gateway import KEY_VARIABLE, ConnectedGateway
from penstock.connect.llm_models import KEY_NAME, llm_settings, with_llm_models
from penstock.connect.own_checks import OwnCheck
from penstock.connect.vscode_models import vscode_settings, with_vscode_group
from penstock.gateway.settings import DEMO

DEFAULT = ConnectedGateway(base_url="http://127.0.0.1:8080/v1", model=DEMO)
"""The gateway that `penstock serve` starts if nothing is configured."""

Editor = Callable[[bytes, ConnectedGateway, str], bytes]


class ClientGuide(Struct, frozen=True, kw_only=True):
    """One client. Templates may use `$base_url`, `$model`, and the key as `$python_key` or `$js_key`."""

    name: str
    title: str
    language: str
    """Of the configuration: the name of its syntax."""
    install: str
    """The command that installs the client; empty if it is not installed from a registry."""
    settings: Callable[[ConnectedGateway], str]
    """Return the configuration: the contents of a file, or a program."""
    saved_as: str = ""
    """The name of the program; empty if the configuration is not a program."""
    run: str = ""
    """The command that tries it; a template. Empty if there is none."""
    hint: str = ""
    """What else to know; a template."""
    with_key: str = ""
    """What to do first if the gateway needs a key; a template, which may use `$variable`."""
    file: Callable[[Mapping[str, str]], Path] | None = None
    """Return the client's own file; None if it has none."""
    edit: Editor | None = None
    check: OwnCheck | None = None
    """How the client itself reads the file."""


def _program(text: str) -> Callable[[ConnectedGateway], str]:
    """Return a function that fills in a program."""
    return lambda gateway: _filled_in(text, gateway)


def next_steps(guide: ClientGuide, gateway: ConnectedGateway) -> list[str]:
    """Return what to do with the configuration, in order."""
    steps = [guide.with_key] if gateway.key_variable else []
    if guide.run:
        steps.append(f"{f'save it as {guide.saved_as} and ' if guide.saved_as else ''}run: {guide.run}")
    return [_filled_in(step, gateway) for step in (*steps, guide.hint) if step]


def as_markdown(guide: ClientGuide) -> str:
    """Return the set-up for the client's page, for a gateway with the default settings and without keys."""
    with_key = _filled_in(guide.with_key, ConnectedGateway(base_url="", model="", key_variable=KEY_VARIABLE))
    commands = [
        guide.install,
        f"penstock connect {guide.name} {f'> {guide.saved_as}' if guide.saved_as else '--write'}",
        _filled_in(guide.run, DEFAULT),
    ]
    lines = [
        "```console",
        *(f"$ {command}" for command in commands if command),
        "```",
        "",
        "The second command writes this program:" if guide.saved_as else "`penstock connect` writes this:",
        "",
        f"```{guide.language}",
        guide.settings(DEFAULT).rstrip("\n"),
        "```",
        "",
        *([f"{_sentence(_filled_in(guide.hint, DEFAULT))}"] if guide.hint else []),
        f"If the gateway has keys, add `--api-key-env {KEY_VARIABLE}`, and {with_key}.",
    ]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _filled_in(text: str, gateway: ConnectedGateway) -> str:
    return Template(text).substitute(_values(gateway))


def _values(gateway: ConnectedGateway) -> dict[str, str]:
    variable = gateway.key_variable
    return {
        "base_url": gateway.base_url,
        "model": gateway.model.replace("\\", "\\\\").replace('"', '\\"'),
        "variable": variable,
        "python_head": "import os\n\n" if variable else "",
        "python_key": f'os.environ["{variable}"]' if variable else '"unused"',
        "js_key": f"process.env.{variable}" if variable else '"unused"',
    }


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())


def _application_folder(environment: Mapping[str, str]) -> Path:
    """Return where this system keeps the settings of applications."""
    if sys.platform == "win32":  # pragma: no cover
        return Path(environment.get("APPDATA") or _home(environment))
    if sys.platform == "darwin":  # pragma: no cover
        return _home(environment) / "Library" / "Application Support"
    return Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")


def _codex_file(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("CODEX_HOME") or _home(environment) / ".codex") / codex_program.CHECK.file


def _vscode_file(environment: Mapping[str, str]) -> Path:
    return _application_folder(environment) / "Code" / "User" / "chatLanguageModels.json"


def _llm_file(environment: Mapping[str, str]) -> Path:
    folder = environment.get("LLM_USER_PATH") or _application_folder(environment) / "io.datasette.llm"
    return Path(folder) / llm_models.CHECK.file


_OPENAI = """\
${python_head}from openai import OpenAI

client = OpenAI(base_url="$base_url", api_key=$python_key)
response = client.responses.create(model="$model", input="Hello!")
print(response.output_text)
"""

_OPENAI_NODE = """\
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "$base_url", apiKey: $js_key });
const response = await client.responses.create({ model: "$model", input: "Hello!" });
console.log(response.output_text);
"""

_AI_SDK = """\
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";

const penstock = createOpenAI({ baseURL: "$base_url", apiKey: $js_key });
const { text } = await generateText({ model: penstock.responses("$model"), prompt: "Hello!" });
console.log(text);
"""

_LANGCHAIN = """\
${python_head}from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model="$model", base_url="$base_url", api_key=$python_key, use_responses_api=True
)
print(model.invoke("Hello!").text)
"""

_AGENTS = """\
${python_head}from agents import Agent, Runner, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI

set_default_openai_client(AsyncOpenAI(base_url="$base_url", api_key=$python_key))
set_tracing_disabled(True)
agent = Agent(name="Assistant", model="$model")
print(Runner.run_sync(agent, "Hello!").final_output)
"""

_PYDANTIC_AI = """\
${python_head}from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="$base_url", api_key=$python_key)
agent = Agent(OpenAIResponsesModel("$model", provider=provider))
print(agent.run_sync("Hello!").output)
"""

_SET_VARIABLE = "put the gateway's key into the variable $variable"
_PYTHON_FILE = "hello.py"
_RUN_PYTHON = f"python {_PYTHON_FILE}"
_NODE_FILE = "hello.mjs"
_RUN_NODE = f"node {_NODE_FILE}"

GUIDES: dict[str, ClientGuide] = {
    guide.name: guide
    for guide in (
        ClientGuide(
            name="codex",
            title="Codex CLI",
            language="toml",
            install="npm install -g @openai/codex",
            settings=codex_settings,
            run="codex",
            hint="codex uses $model; /model shows the others",
            with_key=_SET_VARIABLE,
            file=_codex_file,
            edit=with_codex_settings,
            check=codex_program.CHECK,
        ),
        ClientGuide(
            name="vscode",
            title="VS Code",
            language="json",
            install="",
            settings=vscode_settings,
            hint="choose $model in the model picker of the chat; the Penstock extension lists models itself",
            with_key=(
                "run Chat: Manage Language Models and enter the key of the group Penstock: VS Code "
                "keeps keys outside of this file"
            ),
            file=_vscode_file,
            edit=with_vscode_group,
        ),
        ClientGuide(
            name="openai",
            title="OpenAI's SDK for Python",
            language="python",
            install="pip install openai",
            settings=_program(_OPENAI),
            saved_as=_PYTHON_FILE,
            run=_RUN_PYTHON,
            hint="programs that cannot be changed read OPENAI_BASE_URL and OPENAI_API_KEY",
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="openai-node",
            title="OpenAI's SDK for Node",
            language="javascript",
            install="npm install openai",
            settings=_program(_OPENAI_NODE),
            saved_as=_NODE_FILE,
            run=_RUN_NODE,
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="ai-sdk",
            title="AI SDK",
            language="javascript",
            install="npm install ai @ai-sdk/openai",
            settings=_program(_AI_SDK),
            saved_as=_NODE_FILE,
            run=_RUN_NODE,
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="langchain",
            title="LangChain",
            language="python",
            install="pip install langchain-openai",
            settings=_program(_LANGCHAIN),
            saved_as=_PYTHON_FILE,
            run=_RUN_PYTHON,
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="agents",
            title="OpenAI Agents SDK",
            language="python",
            install="pip install openai-agents",
            settings=_program(_AGENTS),
            saved_as=_PYTHON_FILE,
            run=_RUN_PYTHON,
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="pydantic-ai",
            title="pydantic-ai",
            language="python",
            install='pip install "pydantic-ai-slim[openai]"',
            settings=_program(_PYDANTIC_AI),
            saved_as=_PYTHON_FILE,
            run=_RUN_PYTHON,
            with_key=_SET_VARIABLE,
        ),
        ClientGuide(
            name="llm",
            title="llm",
            language="yaml",
            install="pip install llm",
            settings=llm_settings,
            run="llm -m $model 'Hello!'",
            with_key=f'run: llm keys set {KEY_NAME} --value "$$$variable"',
            file=_llm_file,
            edit=with_llm_models,
            check=llm_models.CHECK,
        ),
    )
}
"""The clients by the name that the command line uses."""
