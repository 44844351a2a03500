// AI SDK: a streamed answer, and a tool that the model calls.
//
// Run `penstock serve` in another terminal, then, in the folder of this file:
// npm install ai @ai-sdk/openai zod && node ai_sdk_tools.mjs

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const penstock = createOpenAI({
  baseURL: process.env.PENSTOCK_URL ?? "http://127.0.0.1:8080/v1",
  apiKey: process.env.PENSTOCK_KEY ?? "unused",
});
const model = penstock.responses(process.env.PENSTOCK_MODEL ?? "demo");

const getWeather = tool({
  description: "The weather in a city, now",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `18 degrees and sunny in ${city}`,
});

for await (const words of streamText({ model, prompt: "Count from 1 to 5." }).textStream) {
  process.stdout.write(words);
}
console.log();

const { text } = await generateText({
  model,
  prompt: "How is the weather in Rome?",
  tools: { get_weather: getWeather },
  stopWhen: stepCountIs(5),
});
console.log(text);
