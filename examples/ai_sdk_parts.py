"""Convert stream parts of the AI SDK to OpenResponses events: each item is announced once."""

import json
import time

import penstock as p

PARTS = [  # one tool call that arrives twice: streamed as `tool-input-*`, then whole as `tool-call`
    {"type": "tool-input-start", "id": "call_1", "toolName": "get_weather"},
    {"type": "tool-input-delta", "id": "call_1", "delta": '{"city": "Rome"}'},
    {"type": "tool-input-end", "id": "call_1"},
    {"type": "tool-call", "toolCallId": "call_1", "toolName": "get_weather", "input": '{"city": "Rome"}'},
    {"type": "finish", "finishReason": "tool-calls", "usage": {"inputTokens": 30, "outputTokens": 12}},
]

request = p.CreateResponse(model="any", input="Is it warm?", tools=[p.FunctionTool(name="get_weather")])
plan = p.plan_for(request, p.target_for("any", dialect="ai_sdk"))
response = p.response_for(request, id="resp_1", created_at=int(time.time()))
pipeline = p.Pipeline(p.ResponseStreamStateMachine(response, clock=time.time, tools=plan.tools))
pipeline.open(p.dialect("ai_sdk"), plan)

events = pipeline.start()
for part in PARTS:
    events += pipeline.feed(p.encode_frame("message", json.dumps(part).encode()))
events += pipeline.end()

for event in events:
    print(event.sequence_number, event.type)
announced = [event.type for event in events].count("response.output_item.added")
print(f"{len(PARTS)} parts, {announced} item announced, {len(pipeline.snapshot.output)} item in the response")
