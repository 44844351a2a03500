/** Prompts to begin with. Those for the demo model show every way a stream can go. */

const WEATHER = [{
  type: "function", name: "get_weather", description: "The weather at a place.",
  parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer", maximum: 14 } },
    required: ["city", "days"], additionalProperties: false },
}];

const CITY = {
  type: "json_schema", name: "city", strict: true,
  schema: { type: "object",
    properties: { name: { type: "string" }, country: { type: "string" }, population: { type: "integer" } },
    required: ["name", "country", "population"], additionalProperties: false },
};

/** `title`: on the button; `text`: the prompt; `tools`, `format`, `effort`: settings that it needs. */
export const DEMO_PROMPTS = [
  { title: "Fails in the middle", text: "Answer with 40 words, and fail in the middle.", isFailure: true },
  { title: "Breaks off without an end",
    text: "Think about it, answer with 40 words, pause 1 second in the middle, and break off.", isFailure: true },
  { title: "Thinks, then answers", text: "Think about it, then count from 1 to 12.", effort: "medium" },
  { title: "Calls a tool", text: "How is the weather in Paris for 3 days?", tools: WEATHER },
  { title: "Falls silent for 3 seconds", text: "Answer with 60 words, and pause 3 seconds in the middle." },
  { title: "Answers in JSON", text: "Describe the city of Lyon.", format: CITY },
];

export const PROMPTS = [
  { title: "Explains something", text: "Explain in three sentences how server-sent events work." },
  { title: "Calls a tool", text: "How is the weather in Paris for the next 3 days?", tools: WEATHER },
  { title: "Answers in JSON", text: "Describe the city of Lyon.", format: CITY },
  { title: "Thinks first", text: "A train leaves at 9:40 and arrives at 13:05. How long is its journey?", effort: "medium" },
];

export const EXAMPLE_TOOLS = WEATHER;
export const EXAMPLE_FORMAT = CITY;
