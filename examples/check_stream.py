"""Check a stream: a lawful one breaks no rule, and one that announces an item twice breaks two."""

import time

import penstock as p


def check(title: str, events: list[p.Event]) -> None:
    checker = p.StreamChecker()
    found = [violation for event in events for violation in checker.feed(event)] + checker.end()
    print(f"{title}: {'lawful' if checker.lawful else 'not lawful'}")
    for violation in found:
        print(f"  {violation.rule}: {violation.message}")


response = p.Response(id="resp_1", model="mine", created_at=int(time.time()))
machine = p.ResponseStreamStateMachine(response, clock=time.time)
events = [*machine.start(), *machine.text("Hello."), *machine.finish(p.FinishReason.STOP)]
check("the stream of the state machine", events)

place = [event.type for event in events].index("response.output_item.added")
check("the same stream with an item announced twice", [*events[: place + 1], *events[place:]])
print(f"{len(p.RULES)} rules are checked: see docs/rules.md")
