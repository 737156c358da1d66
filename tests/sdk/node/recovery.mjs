// After an outage of a receiver: statistics, recovery, replays, and the tasks that report on them.

import assert from "node:assert/strict";
import { refused } from "./sdk.mjs";
import { ids, minutesAgo, until, walk } from "./world.mjs";

const FAIL = 2;

/** An endpoint that refused some messages and is healthy again. */
async function outage(world, count) {
  const [app, path] = [await world.application(), world.path()];
  const endpoint = await world.endpoint(app, path);
  const stats = (window) => world.svix.endpoint.getStats(app.id, endpoint.id, window);
  world.receiver.answer(path, [400, "no"]);
  const refusals = [];
  for (let n = 0; n < count; n++) refusals.push((await world.send(app)).id);
  await world.receiver.several(path, count);
  await until(stats, ({ fail }) => fail === count);
  world.receiver.answer(path, [200, "yes"]);
  const recovered = async () => {
    assert.deepEqual(ids(await world.receiver.several(path, count)).sort(), refusals.sort());
    await until(stats, ({ success, fail }) => success === count && fail === 0);
    assert.ok(world.receiver.nothingMore(path));
  };
  return { app, endpoint, stats, recovered };
}

export const checks = {
  async "counted, then recovered"(world) {
    const { app, endpoint, stats, recovered } = await outage(world, 3);
    const counted = await stats();
    assert.deepEqual(
      [counted.success, counted.fail, counted.pending, counted.sending, counted.canceled],
      [0, 3, 0, 0, 0],
    );
    assert.equal((await stats({ since: minutesAgo(120), until: minutesAgo(60) })).fail, 0);
    const task = await world.svix.endpoint.recover(app.id, endpoint.id, { since: minutesAgo(60) });
    assert.equal(task.task, "endpoint.recover");
    await recovered();
    assert.equal((await world.finished(task)).status, "finished");
  },

  async "missing messages are replayed"(world) {
    const [app, path] = [await world.application(), world.path()];
    const missed = await world.send(app);
    const endpoint = await world.endpoint(app, path);
    const task = await world.svix.endpoint.replayMissing(app.id, endpoint.id, { since: minutesAgo(60) });
    assert.equal(task.task, "endpoint.replay");
    assert.equal((await world.receiver.next(path)).id, missed.id);
    assert.equal((await world.finished(task)).status, "finished");
  },

  async "many are replayed by filter"(world) {
    const { app, endpoint, recovered } = await outage(world, 2);
    const task = await world.svix.endpoint.bulkReplay(app.id, endpoint.id, { since: minutesAgo(60), status: FAIL });
    assert.equal(task.task, "endpoint.bulk-replay");
    await recovered();
    assert.equal((await world.finished(task)).status, "finished");
    const tasks = ids(await walk((options) => world.svix.backgroundTask.list(options)));
    assert.ok(tasks.includes(task.id));
    await refused(404, "not_found", () => world.svix.backgroundTask.get("qtask_2bYFAkeAndNotThere0000000000"));
  },
};
