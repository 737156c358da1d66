// The objects that every check uses: a client, a receiver, and names that no other check uses.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { PATIENCE } from "./receiver.mjs";
import { noting, svix } from "./sdk.mjs";

export class World {
  called = new Set();
  #number = 0;

  constructor(server, token, receiver) {
    Object.assign(this, { server, receiver });
    this.bare = this.#bare(token);
    this.svix = noting(this.bare, this.called);
  }

  client(token) {
    return noting(this.#bare(token), this.called);
  }

  #bare(token) {
    return new svix.Svix(token, { serverUrl: this.server, retryScheduleInMs: [] });
  }

  /** Return a name that nothing else has. */
  fresh(stem) {
    return `${stem}-${++this.#number}`;
  }

  application(fields = {}) {
    return this.svix.application.create({ name: "Made for a check", ...fields });
  }

  eventType(fields = {}) {
    return this.svix.eventType.create({ name: this.fresh("order.paid"), description: "Paid", ...fields });
  }

  /** Return a path that no other check uses. */
  path() {
    return `/${this.fresh("hook")}`;
  }

  endpoint(app, path, fields = {}) {
    return this.svix.endpoint.create(app.id, { url: this.receiver.url(path), ...fields });
  }

  send(app, fields = {}) {
    return this.svix.message.create(app.id, { eventType: "order.paid", payload: { amount: 1042 }, ...fields });
  }

  async secret(app, endpoint) {
    return (await this.svix.endpoint.getSecret(app.id, endpoint.id)).key;
  }

  /** Return the attempts of a message, newest first, once there are this many. */
  attempts(app, message, count) {
    return until(
      async () => (await this.svix.messageAttempt.listByMsg(app.id, message.id, { withContent: true })).data,
      (found) => found.length >= count,
    );
  }

  finished(task) {
    return until(
      () => this.svix.backgroundTask.get(task.id),
      (found) => found.status !== "running",
    );
  }
}

/** Ask the server until its answer is sufficient. Another process does the work, so there is no event to wait for. */
export async function until(look, enough) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (enough(found)) return found;
    assert.ok(Date.now() < deadline, `still not there: ${JSON.stringify(found)}`);
    await sleep(50);
  }
}

export const minutesAgo = (minutes) => new Date(Date.now() - minutes * 60_000);

export const ids = (rows) => rows.map((row) => row.id ?? row.name);

/** Return every row of a listing, in pages of two. The `prevIterator` of each page must lead to the page before. */
export async function walk(listing, fields = {}) {
  const rows = [];
  let before;
  for (;;) {
    const page = await listing({ limit: 2, iterator: before?.iterator, ...fields });
    if (before) {
      const again = await listing({ limit: 2, iterator: page.prevIterator, ...fields });
      assert.deepEqual(ids(again.data), ids(before.data));
    }
    rows.push(...page.data);
    if (page.done) return rows;
    assert.equal(page.data.length, 2);
    before = page;
  }
}
