import assert from "node:assert/strict";
import { refused } from "./sdk.mjs";
import { ids, minutesAgo, walk } from "./world.mjs";

const [SUCCESS, FAIL] = [0, 2];
const [SCHEDULED, MANUAL] = [0, 1];

/** A message that the receiver refused with 503 first and accepted at the second attempt. */
async function retried(world) {
  const [app, path] = [await world.application(), world.path()];
  const endpoint = await world.endpoint(app, path);
  world.receiver.answer(path, [503, "not now"], [200, "got it"]);
  const message = await world.send(app, { channels: ["north"], payload: { amount: 9 } });
  const arrivals = await world.receiver.several(path, 2);
  const [taken, failed] = await world.attempts(app, message, 2);
  return { app, path, endpoint, message, arrivals, taken, failed };
}

export const checks = {
  async "retried under one id"(world) {
    const { app, endpoint, message, arrivals, taken, failed } = await retried(world);
    assert.deepEqual(ids(arrivals), [message.id, message.id]);
    assert.equal(arrivals[0].body, arrivals[1].body);
    assert.deepEqual([failed.status, failed.responseStatusCode, failed.response], [FAIL, 503, "not now"]);
    assert.deepEqual([taken.status, taken.responseStatusCode, taken.response], [SUCCESS, 200, "got it"]);
    for (const attempt of [failed, taken]) {
      assert.deepEqual([attempt.msgId, attempt.endpointId], [message.id, endpoint.id]);
      assert.deepEqual([attempt.url, attempt.triggerType], [endpoint.url, SCHEDULED]);
      const got = await world.svix.messageAttempt.get(app.id, message.id, attempt.id);
      assert.deepEqual([got.id, got.response, got.timestamp], [attempt.id, attempt.response, attempt.timestamp]);
    }
  },

  async "listed by message and by endpoint"(world) {
    const { messageAttempt } = world.svix;
    const { app, endpoint, message, taken, failed } = await retried(world);
    const listings = [
      (options) => messageAttempt.listByMsg(app.id, message.id, options),
      (options) => messageAttempt.listByEndpoint(app.id, endpoint.id, options),
    ];
    for (const listing of listings) {
      const listed = async (fields) => ids(await walk(listing, fields));
      assert.deepEqual(await listed(), [taken.id, failed.id]);
      assert.deepEqual(await listed({ status: FAIL }), [failed.id]);
      assert.deepEqual(await listed({ statusCodeClass: 200 }), [taken.id]);
      assert.deepEqual(await listed({ channel: "north" }), [taken.id, failed.id]);
      assert.deepEqual(await listed({ channel: "south" }), []);
      assert.deepEqual(await listed({ eventTypes: ["other.type"] }), []);
      assert.deepEqual(await listed({ before: minutesAgo(5) }), []);
      assert.deepEqual(
        (await walk(listing, { withContent: false })).map((attempt) => attempt.response),
        ["", ""],
      );
    }
  },

  async "messages of an endpoint, destinations of a message"(world) {
    const { messageAttempt } = world.svix;
    const { app, endpoint, message } = await retried(world);
    const listed = async (fields) => (await messageAttempt.listAttemptedMessages(app.id, endpoint.id, fields)).data;
    const [row] = await listed({ withContent: true });
    assert.deepEqual([row.id, row.status, row.payload], [message.id, SUCCESS, { amount: 9 }]);
    assert.deepEqual(ids(await listed({ status: FAIL })), []);
    const [destination] = (await messageAttempt.listAttemptedDestinations(app.id, message.id)).data;
    assert.deepEqual([destination.id, destination.status], [endpoint.id, SUCCESS]);
  },

  async "resent by hand"(world) {
    const { app, path, endpoint, message, arrivals } = await retried(world);
    await world.svix.messageAttempt.resend(app.id, message.id, endpoint.id);
    const arrival = await world.receiver.next(path);
    assert.deepEqual([arrival.id, arrival.body], [message.id, arrivals[0].body]);
    const [newest] = await world.attempts(app, message, 3);
    assert.deepEqual([newest.triggerType, newest.status], [MANUAL, SUCCESS]);
  },

  async "the response is expunged"(world) {
    const { messageAttempt } = world.svix;
    const { app, message, taken } = await retried(world);
    await messageAttempt.expungeContent(app.id, message.id, taken.id);
    const left = await messageAttempt.get(app.id, message.id, taken.id);
    assert.equal(left.id, taken.id);
    assert.ok(!left.response.includes("got it"));
    const nobody = "atmpt_2bYFAkeAndNotThere0000000000";
    await refused(404, "not_found", () => messageAttempt.get(app.id, message.id, nobody));
  },
};
