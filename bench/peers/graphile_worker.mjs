// graphile-worker with the options that its page on performance recommends: a local queue, and completion in batches.

import { deliver, load, plan, run } from "./program.mjs";

const { Logger, makeWorkerUtils, run: start } = load("graphile-worker");

const TASK = "deliver";
const silent = new Logger(() => () => {});

const utils = await makeWorkerUtils({ connectionString: plan.url, logger: silent });
await utils.migrate();

const worker = {
  connectionString: plan.url,
  concurrentJobs: plan.concurrency,
  maxPoolSize: 20,
  localQueue: { size: 2 * plan.concurrency },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  logger: silent,
};

await run({
  addAll: (jobs) => utils.addJobs(jobs.map((payload) => ({ identifier: TASK, payload }))),
  add: (job) => utils.addJob(TASK, job),
  work: () => start({ preset: { worker }, taskList: { [TASK]: deliver } }),
});
