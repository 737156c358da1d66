// pg-boss. A worker fetches a batch, and polls again after half a second, the shortest interval that it allows. A
// worker that got a full batch is told to poll again at once.

import { deliver, load, plan, run } from "./program.mjs";

const PgBoss = load("pg-boss");

const QUEUE = "deliver";
const WORKERS = 2; // more were slower
const batchSize = plan.concurrency;

const boss = new PgBoss({ connectionString: plan.url, max: 20 });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue(QUEUE);

// pg-boss completes a batch as a whole. Jobs that failed are reported before that, and stay failed.
async function deliverAll(jobs) {
  const results = await Promise.allSettled(jobs.map((job) => deliver(job.data)));
  const failed = jobs.filter((_, number) => results[number].status === "rejected").map((job) => job.id);
  if (failed.length) await boss.fail(QUEUE, failed);
}

async function startWorker() {
  const id = await boss.work(QUEUE, { batchSize, pollingIntervalSeconds: 0.5 }, async (jobs) => {
    await deliverAll(jobs);
    if (jobs.length === batchSize) boss.notifyWorker(id);
  });
}

await run({
  addAll: (jobs) => boss.insert(jobs.map((data) => ({ name: QUEUE, data }))),
  add: (job) => boss.send(QUEUE, job),
  work: () => Promise.all(Array.from({ length: WORKERS }, startWorker)),
});
