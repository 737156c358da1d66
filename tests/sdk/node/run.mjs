// Call every operation of the API through the npm package SVIX_PACKAGE of the directory SVIX_PACKAGES:
// `run.mjs http://127.0.0.1:8071`, with the token in SVIX_TOKEN.
//
// Prints a report as JSON: the methods of the SDK with their requests, and the methods that were called.

import { Receiver } from "./receiver.mjs";
import { methods, VERSION } from "./sdk.mjs";
import { World } from "./world.mjs";

const RESOURCES = [
  "service",
  "applications",
  "eventTypes",
  "endpoints",
  "messages",
  "attempts",
  "recovery",
  "operational",
  "authentication",
];

const [server, only = ""] = process.argv.slice(2);
const receiver = await new Receiver().start();
const world = new World(server, process.env.SVIX_TOKEN, receiver);
const failed = [];
for (const resource of RESOURCES) {
  const { checks } = await import(`./${resource}.mjs`);
  for (const [name, check] of Object.entries(checks)) {
    const full = `${resource}: ${name}`;
    if (!full.includes(only)) continue;
    try {
      await check(world);
    } catch (error) {
      console.error(`\n── ${full} ──\n${error.stack}\n${JSON.stringify(error.body ?? "")}`);
      failed.push(full);
    }
  }
}
receiver.stop();
const made = Object.fromEntries([...methods(world.bare)].map(([name, ...request]) => [name, request]));
console.log(JSON.stringify({ version: VERSION, methods: made, called: [...world.called].sort(), failed }));
process.exitCode = failed.length ? 1 : 0;
