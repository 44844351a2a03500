// Cases of OpenAI's library for Node.

import { load, serve } from "./serving.mjs";

const { OpenAI } = load("openai");
const client = new OpenAI({ apiKey: "sk-any", maxRetries: 0 });
const ADD = {
  type: "function",
  name: "add",
  description: "Add two numbers.",
  strict: true,
  parameters: {
    type: "object",
    properties: { a: { type: "integer" }, b: { type: "integer" } },
    required: ["a", "b"],
    additionalProperties: false,
  },
};

async function create(model) {
  const made = await client.responses.create({ model, input: "Say hello", instructions: "Be brief." });
  return { text: made.output_text, status: made.status, tokens: made.usage.total_tokens };
}

async function stream(model) {
  const stream = client.responses.stream({ model, input: "Say hello" });
  let text = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  const final = await stream.finalResponse();
  return { text, final: final.output_text };
}

async function toolLoop(model, { way }) {
  const history = [{ role: "user", content: "What is 2 + 3?" }];
  const made = await client.responses.create({ model, tools: [ADD], input: history });
  const calls = made.output.filter((item) => item.type === "function_call");
  const outputs = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "5" }));
  const next =
    way === "previous"
      ? { input: outputs, previous_response_id: made.id }
      : { input: [...history, ...made.output, ...outputs] };
  const last = await client.responses.create({ model, tools: [ADD], ...next });
  return { calls: calls.map((call) => call.arguments), text: last.output_text };
}

async function background(model) {
  let made = await client.responses.create({ model, input: "Say hello", background: true });
  while (["queued", "in_progress"].includes(made.status)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    made = await client.responses.retrieve(made.id);
  }
  return { status: made.status, text: made.output_text };
}

async function stored(model) {
  const made = await client.responses.create({ model, input: "Say hello" });
  const items = [];
  for await (const item of client.responses.inputItems.list(made.id)) items.push(item.content[0].text);
  const again = await client.responses.retrieve(made.id);
  await client.responses.delete(made.id);
  const code = await client.responses.retrieve(made.id).catch((error) => error.code);
  return { items, text: again.output_text, code };
}

async function conversation(model) {
  const { id } = await client.conversations.create({});
  await client.responses.create({ model, input: "My cat is grey", conversation: id });
  const made = await client.responses.create({ model, input: "Which colour?", conversation: id });
  return made.output_text;
}

serve({ create, stream, toolLoop, background, stored, conversation });
