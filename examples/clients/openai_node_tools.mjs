// OpenAI's SDK for Node: a streamed answer, and a tool that the model calls.
//
// Run `penstock serve` in another terminal, then, in the folder of this file:
// npm install openai && node openai_node_tools.mjs

import OpenAI from "openai";

const model = process.env.PENSTOCK_MODEL ?? "demo";
const client = new OpenAI({
  baseURL: process.env.PENSTOCK_URL ?? "http://127.0.0.1:8080/v1",
  apiKey: process.env.PENSTOCK_KEY ?? "unused",
});

const getWeather = ({ city }) => `18 degrees and sunny in ${city}`;
const tools = [
  {
    type: "function",
    name: "get_weather",
    description: "The weather in a city, now",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    strict: false,
  },
];

for await (const event of client.responses.stream({ model, input: "Count from 1 to 5." })) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
}
console.log();

const first = await client.responses.create({ model, input: "How is the weather in Rome?", tools });
const input = first.output
  .filter((item) => item.type === "function_call")
  .map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: getWeather(JSON.parse(call.arguments)),
  }));
const answer = await client.responses.create({ model, input, previous_response_id: first.id, tools });
console.log(answer.output_text);
