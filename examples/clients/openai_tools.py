"""OpenAI's SDK for Python: a streamed answer, and a tool that the model calls.

Run `penstock serve` in another terminal, then: pip install openai && python examples/clients/openai_tools.py
"""

import json
import os

from openai import OpenAI

MODEL = os.environ.get("PENSTOCK_MODEL", "demo")
client = OpenAI(
    base_url=os.environ.get("PENSTOCK_URL", "http://127.0.0.1:8080/v1"),
    api_key=os.environ.get("PENSTOCK_KEY", "unused"),
)


def get_weather(city: str) -> str:
    return f"18 degrees and sunny in {city}"


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city, now",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}

with client.responses.stream(model=MODEL, input="Count from 1 to 5.") as stream:
    for event in stream:
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
print()

first = client.responses.create(model=MODEL, input="How is the weather in Rome?", tools=[WEATHER])
outputs = [
    {
        "type": "function_call_output",
        "call_id": item.call_id,
        "output": get_weather(**json.loads(item.arguments)),
    }
    for item in first.output
    if item.type == "function_call"
]
answer = client.responses.create(model=MODEL, input=outputs, previous_response_id=first.id, tools=[WEATHER])
print(answer.output_text)
