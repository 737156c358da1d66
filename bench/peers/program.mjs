// What the programs of all queues for Node share: the command line, the delivery of a job, and the flow of jobs.
//
// A program is started as `program.mjs MODE PLAN`. The plan is a JSON object, see bench/peers/plan.py.
//
//   load  enqueue the plan's messages, then end
//   work  print "ready", and deliver jobs until standard input closes
//   flow  enqueue jobs at the plan's rate, then print the time of each call by message id

import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

export const load = createRequire(join(process.env.PEERS_PACKAGES, "package.json"));
const { Agent, request } = load("undici");

const BATCH = 500; // jobs of one call when messages are loaded
const TICK = 1; // milliseconds
const TIMEOUT = 30_000; // milliseconds

const [mode, text] = process.argv.slice(2);
export const plan = JSON.parse(text);

const agent = new Agent({
  connections: plan.concurrency,
  pipelining: 1,
  headersTimeout: TIMEOUT,
  bodyTimeout: TIMEOUT,
});

// Sign and send one job as Standard Webhooks says. Any status but 2xx is an error, so that the queue tries again.
export async function deliver({ url, body, id, secret }) {
  const timestamp = Math.floor(Date.now() / 1000);
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const headers = {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": `${timestamp}`,
    "webhook-signature": `v1,${signature}`,
  };
  const answer = await request(url, { method: "POST", headers, body, dispatcher: agent });
  await answer.body.dump();
  if (answer.statusCode < 200 || answer.statusCode > 299) {
    throw new Error(`${url} answered ${answer.statusCode}`);
  }
}

// Run the program of a queue. The queue has three functions: `addAll(jobs)`, `add(job)` and `work()`.
export async function run(queue) {
  await { load: loadAll, work, flow }[mode](queue);
}

function job(number) {
  const { url, secret } = plan.endpoints[number % plan.endpoints.length];
  return { url, secret, body: plan.body, id: `msg_${number}` };
}

async function loadAll(queue) {
  for (let from = 0; from < plan.messages; from += BATCH) {
    const size = Math.min(BATCH, plan.messages - from);
    await queue.addAll(Array.from({ length: size }, (_, number) => job(from + number)));
  }
  process.exit(0);
}

async function work(queue) {
  await queue.work();
  process.stdin.on("end", () => process.exit(0)).resume();
  console.log("ready");
}

// Enqueue each job when it is due, even if earlier calls have not returned.
async function flow(queue) {
  const called = {};
  const calls = [];
  const start = seconds();
  while (calls.length < plan.messages) {
    const due = Math.min(plan.messages, Math.floor((seconds() - start) * plan.rate) + 1);
    while (calls.length < due) {
      const next = job(calls.length);
      called[next.id] = seconds();
      calls.push(queue.add(next));
    }
    await pause(TICK);
  }
  await Promise.all(calls);
  process.stdout.write(JSON.stringify(called), () => process.exit(0));
}

// The machine's monotonic clock, which the receiver uses too.
function seconds() {
  return Number(process.hrtime.bigint()) / 1e9;
}
