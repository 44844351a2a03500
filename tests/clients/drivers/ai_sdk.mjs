// Cases of the AI SDK with both of its providers: @ai-sdk/openai and @ai-sdk/open-responses.

import { execSync } from "node:child_process";
import { writeFileSync } from "node:fs";

import { load, serve } from "./serving.mjs";

const { generateObject, generateText, stepCountIs, streamText, tool } = load("ai");
const { createOpenAI } = load("@ai-sdk/openai");
const { createOpenResponses } = load("@ai-sdk/open-responses");
const { z } = load("zod");

const baseURL = process.env.OPENAI_BASE_URL;
const openai = createOpenAI({ baseURL, apiKey: "sk-any" });
const openResponses = createOpenResponses({ url: `${baseURL}/responses`, name: "penstock", apiKey: "sk-any" });
const PROVIDERS = { openai: (model) => openai.responses(model), "open-responses": openResponses };

const ran = [];
const add = tool({
  description: "Add two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => {
    ran.push([a, b]);
    return String(a + b);
  },
});

function bash(command) {
  ran.push(command);
  return execSync(command, { encoding: "utf8" });
}

const TOOLS = {
  add: { add },
  shell: {
    shell: openai.tools.shell({
      execute: async ({ action }) => ({
        output: action.commands.map((command) => ({
          stdout: bash(command),
          stderr: "",
          outcome: { type: "exit", exitCode: 0 },
        })),
      }),
    }),
  },
  localShell: {
    local_shell: openai.tools.localShell({
      execute: async ({ action }) => ({ output: bash(action.command.at(-1)) }),
    }),
  },
  applyPatch: {
    apply_patch: openai.tools.applyPatch({
      execute: async ({ operation }) => {
        ran.push([operation.type, operation.path, operation.diff]);
        writeFileSync(operation.path, operation.diff ?? "");
        return { status: "completed", output: `wrote ${operation.path}` };
      },
    }),
  },
};

/** Run one turn per question, with the history of the turns before it. */
async function turns(model, { questions, tools, way, provider, options = {} }) {
  ran.length = 0;
  const messages = [];
  const texts = [];
  const thoughts = [];
  for (const question of questions) {
    messages.push({ role: "user", content: question });
    const turn = {
      model: PROVIDERS[provider](model),
      system: "Be brief.",
      messages,
      tools: tools ? TOOLS[tools] : undefined,
      stopWhen: stepCountIs(5),
      maxRetries: 0,
      providerOptions: { openai: options, penstock: options },
    };
    let failure;
    const result =
      way === "stream"
        ? streamText({ ...turn, onError: ({ error }) => (failure = error) })
        : await generateText(turn);
    if (way === "stream") await result.consumeStream();
    if (failure) throw failure;
    texts.push(await result.text);
    for (const step of await result.steps) thoughts.push(...step.reasoning.map((part) => part.text));
    messages.push(...(await result.response).messages);
  }
  return { texts, ran: [...ran], thoughts: thoughts.filter(Boolean) };
}

async function structured(model, { provider }) {
  const schema = z.object({ name: z.string(), age: z.number() });
  const result = await generateObject({
    model: PROVIDERS[provider](model),
    schema,
    prompt: "Describe a cat",
    maxRetries: 0,
  });
  return result.object;
}

async function cut(model, { provider }) {
  let failure = "";
  const result = streamText({
    model: PROVIDERS[provider](model),
    prompt: "Say hello",
    maxRetries: 0,
    onError: ({ error }) => (failure = String(error.message ?? error)),
  });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  return { text, failed: failure !== "" || (await result.finishReason) === "error" };
}

serve({ turns, structured, cut });
