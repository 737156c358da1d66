// BullMQ on Redis. Completed jobs are removed, which its documentation recommends for queues that complete many.

import { deliver, load, plan, run } from "./program.mjs";

const { Queue, Worker } = load("bullmq");
const Redis = load("ioredis");

const QUEUE = "deliver";
const connection = new Redis(plan.url, { maxRetriesPerRequest: null });
const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true, attempts: 5 } });

async function work() {
  const worker = new Worker(QUEUE, (job) => deliver(job.data), { connection, concurrency: plan.concurrency });
  worker.on("error", (error) => console.error(error));
  await worker.waitUntilReady();
}

await run({
  addAll: (jobs) => queue.addBulk(jobs.map((data) => ({ name: QUEUE, data }))),
  add: (job) => queue.add(QUEUE, job),
  work,
});
