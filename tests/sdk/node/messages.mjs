import assert from "node:assert/strict";
import { invalid, refused, svix as sdk } from "./sdk.mjs";
import { ids, minutesAgo, walk } from "./world.mjs";

export const checks = {
  async "delivered and verified"(world) {
    const { svix } = world;
    const [app, path] = [await world.application(), world.path()];
    const endpoint = await world.endpoint(app, path);
    const payload = { name: "Żółć 🚲", deep: { list: [1, 2.5, null, true] } };
    const body = { eventType: "order.paid", payload, eventId: "first", channels: ["north"], tags: ["vip"] };
    const sent = await svix.message.create(app.id, body, { withContent: true });
    assert.match(sent.id, /^msg_/);
    assert.deepEqual([sent.eventId, sent.payload, sent.channels, sent.tags], ["first", payload, ["north"], ["vip"]]);
    const arrival = await world.receiver.next(path);
    assert.deepEqual([arrival.id, arrival.payload], [sent.id, payload]);
    assert.ok(arrival.verifiedBy(await world.secret(app, endpoint)));
    assert.deepEqual(await svix.message.get(app.id, sent.id, { withContent: true }), sent);
    assert.deepEqual((await svix.message.get(app.id, sent.id, { withContent: false })).payload, {});
  },

  async "one key, one message"(world) {
    const { svix } = world;
    const app = await world.application();
    const key = { idempotencyKey: world.fresh("key") };
    const send = (n) => svix.message.create(app.id, { eventType: "order.paid", payload: { n } }, key);
    const sent = await send(1);
    assert.equal((await send(1)).id, sent.id);
    await invalid(() => send(2));
    assert.deepEqual(ids((await svix.message.list(app.id)).data), [sent.id]);
  },

  async "the application is made with its first message"(world) {
    const { svix } = world;
    const uid = world.fresh("inline");
    const application = { name: "Made on the way", uid };
    await svix.message.create(uid, { eventType: "order.paid", payload: {}, application });
    assert.equal((await svix.application.get(uid)).name, "Made on the way");
  },

  async "delivered later"(world) {
    const [app, path] = [await world.application(), world.path()];
    await world.endpoint(app, path);
    const deliverAt = minutesAgo(-24 * 60);
    const sent = await world.send(app, { deliverAt });
    assert.equal(sent.deliverAt.getTime(), deliverAt.getTime());
    const now = await world.send(app);
    assert.equal((await world.receiver.next(path)).id, now.id);
    assert.deepEqual((await world.svix.messageAttempt.listByMsg(app.id, sent.id)).data, []);
  },

  async "raw payloads are refused rather than sent empty"(world) {
    const app = await world.application();
    await invalid(() => world.svix.message.create(app.id, sdk.messageInRaw("order.paid", "<order/>", "application/xml")));
  },

  async "listed with filters"(world) {
    const [app, kind] = [await world.application(), (await world.eventType()).name];
    const sent = [];
    for (const fields of [{ eventType: kind, tags: ["vip"] }, { channels: ["north"] }, {}, {}, {}])
      sent.push((await world.send(app, fields)).id);
    const listed = async (fields) =>
      ids(await walk((options) => world.svix.message.list(app.id, options), { withContent: true, ...fields }));
    assert.deepEqual(await listed(), sent.toSorted().toReversed());
    assert.deepEqual(await listed({ eventTypes: [kind] }), [sent[0]]);
    assert.deepEqual(await listed({ tag: "vip" }), [sent[0]]);
    assert.deepEqual(await listed({ channel: "north" }), [sent[1]]);
    assert.deepEqual(await listed({ before: minutesAgo(5) }), []);
    assert.deepEqual(await listed({ after: minutesAgo(-5) }), []);
  },

  async "content is expunged"(world) {
    const { svix } = world;
    const [app, path] = [await world.application(), world.path()];
    const endpoint = await world.endpoint(app, path);
    const sent = await world.send(app, { payload: { card: "4242" } });
    await world.attempts(app, sent, 1);
    await svix.message.expungeContent(app.id, sent.id);
    const left = await svix.message.get(app.id, sent.id, { withContent: true });
    assert.ok(!JSON.stringify(left).includes("4242"));
    await assert.rejects(() => svix.messageAttempt.resend(app.id, sent.id, endpoint.id), sdk.ApiException);
  },

  async refused(world) {
    const { svix } = world;
    const app = await world.application();
    await world.send(app, { eventId: "order-7" });
    await refused(409, "conflict", () => world.send(app, { eventId: "order-7" }));
    await refused(404, "not_found", () => world.send({ id: "nobody" }));
    await refused(404, "not_found", () => svix.message.get(app.id, "msg_2bYFAkeAndNotThere0000000000"));
    await invalid(() => world.send(app, { eventType: "not a type" }));
  },

  async "many at once"(world) {
    const [app, path] = [await world.application(), world.path()];
    await world.endpoint(app, path);
    const sent = await Promise.all(Array.from({ length: 20 }, (_, n) => world.send(app, { payload: { n } })));
    assert.deepEqual(ids(await world.receiver.several(path, 20)).sort(), ids(sent).sort());
  },
};
