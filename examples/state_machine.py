"""Drive the state machine: deltas in, lawful events out; a call that is not allowed changes nothing."""

import time

import penstock as p

response = p.Response(id="resp_1", model="mine", created_at=int(time.time()))
machine = p.ResponseStreamStateMachine(response, clock=time.time)
try:
    machine.text("too early")
except p.BridgeError as error:
    print("refused:", error.code)

events = machine.start()
events += machine.text("Let me ")
events += machine.text("look.")
events += machine.tool_call(p.ToolCallDelta(key=0, id="call_1", name="get_weather", arguments='{"city":'))
events += machine.tool_call(p.ToolCallDelta(key=0, arguments='"Rome"}'))
print("so far:", machine.phase.value, [item.type for item in machine.snapshot.output])
events += machine.finish(p.FinishReason.TOOL_CALLS)

for event in events:
    print(event.sequence_number, event.type)
print("at the end:", machine.phase.value, repr(machine.snapshot.output_text))
