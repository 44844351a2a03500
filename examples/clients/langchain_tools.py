"""LangChain: a streamed answer, and a tool that the model calls.

Run `penstock serve` in another terminal, then:
pip install langchain-openai && python examples/clients/langchain_tools.py
"""

import os

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(
    model=os.environ.get("PENSTOCK_MODEL", "demo"),
    base_url=os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("PENSTOCK_KEY", "unused"),
    use_responses_api=True,
)


@tool
def get_weather(city: str) -> str:
    """The weather in a city, now."""
    return f"18 degrees and sunny in {city}"


for chunk in model.stream("Count from 1 to 5."):
    print(chunk.text, end="", flush=True)
print()

messages = [HumanMessage("How is the weather in Rome?")]
with_tools = model.bind_tools([get_weather])
messages.append(with_tools.invoke(messages))
messages += [get_weather.invoke(call) for call in messages[-1].tool_calls]
print(with_tools.invoke(messages).text)
