"""Cases of the `llm` library."""

import os
from pathlib import Path

os.environ["LLM_USER_PATH"] = str(Path.cwd())
MODEL = """- model_id: {name}
  model_name: {name}
  api_base: {url}
  responses: true
  reasoning: true
  supports_tools: true
  supports_schema: true
"""
models = [
    MODEL.format(name=f"gpt-5-over-{dialect}", url=os.environ["OPENAI_BASE_URL"])
    for dialect in ("chat", "anthropic", "gemini")
]
Path("extra-openai-models.yaml").write_text("".join(models))

import llm  # noqa: E402 - it reads the file above
from pydantic import BaseModel  # noqa: E402
from serving import serve  # noqa: E402

ran = []


def add(a: int, b: int) -> str:
    """Add two numbers."""
    ran.append([a, b])
    return str(a + b)


class Cat(BaseModel):
    name: str
    age: int


def prompt(model, stream):
    return llm.get_model(model).prompt("Say hello", system="Be brief.", stream=stream).text()


def tool_loop(model):
    ran.clear()
    chain = llm.get_model(model).chain("What is 2 + 3?", tools=[add])
    return {"text": chain.text(), "ran": list(ran)}


def conversation(model):
    ran.clear()
    talk = llm.get_model(model).conversation(tools=[add])
    texts = [talk.chain(question).text() for question in ("What is 2 + 3?", "Are you sure?")]
    return {"texts": texts, "ran": list(ran)}


def structured(model):
    import json

    return json.loads(llm.get_model(model).prompt("Describe a cat", schema=Cat, stream=False).text())


serve({each.__name__: each for each in (prompt, tool_loop, conversation, structured)})
