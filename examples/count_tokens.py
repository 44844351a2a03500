"""Count tokens offline, and learn from the usage that an endpoint reports."""

import penstock as p

counter = p.TokenCounter()
print("a text:", counter.count_text("gpt-5-mini", "Say hi in Portuguese"))

messages = [
    p.ChatMessage("system", [p.TextPart("You are a helpful assistant")]),
    p.ChatMessage("user", [p.TextPart("Say hi in Portuguese")]),
]
for message in messages:
    print("a message:", counter.count_message("gpt-5-mini", message))

for model in ("gpt-5-mini", "claude-sonnet-4-5"):
    estimate = counter.count_conversation(model, messages)
    print(f"the conversation for {model}:", estimate.tokens, "exactly" if estimate.exact else "estimated")

estimate = counter.count_conversation("claude-sonnet-4-5", messages)
counter.learn("claude-sonnet-4-5", estimate, real=25)  # `input_tokens` of the response's usage
print("after learning:", counter.count_conversation("claude-sonnet-4-5", messages).tokens)
