// The loop of every Node driver: a case per line in, its result per line out.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

/** Load packages of the client's environment, whose folder is the first argument. */
export const load = createRequire(`${process.argv[2]}/package.json`);

export async function serve(cases) {
  // The client's own output must not mix with the results.
  console.log = console.info = console.warn = console.error;
  for await (const line of createInterface({ input: process.stdin })) {
    const { case: name, model, arguments: options } = JSON.parse(line);
    let answer;
    try {
      answer = { result: (await cases[name](model, options)) ?? null };
    } catch (error) {
      const details = error.responseBody ?? error.errors?.map(String).join("\n") ?? "";
      answer = { error: `${error.stack ?? error}\n${details}`.slice(0, 1500) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}
