import assert from "node:assert/strict";
import { FILTER, first, invalid, refused } from "./sdk.mjs";
import { ids, walk } from "./world.mjs";

const KEYS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"];

export const checks = {
  async "made, found and changed"(world) {
    const { svix } = world;
    const [app, uid, path] = [await world.application(), world.fresh("endpoint"), world.path()];
    const kind = (await world.eventType()).name;
    const made = await world.endpoint(app, path, {
      uid,
      description: "Orders",
      throttleRate: 20,
      channels: ["north"],
      metadata: { team: "red" },
      secret: KEYS[0],
      [FILTER]: [kind],
    });
    assert.match(made.id, /^ep_/);
    assert.deepEqual([made.url, made.uid, made.description], [world.receiver.url(path), uid, "Orders"]);
    assert.deepEqual([made.throttleRate, made.metadata, made.disabled], [20, { team: "red" }, false]);
    assert.deepEqual([made.channels, made[FILTER]], [["north"], [kind]]);
    assert.deepEqual(await svix.endpoint.get(app.id, uid), made);
    assert.equal(await world.secret(app, made), KEYS[0]);

    const upsert = first(svix.endpoint, "upsert", "update");
    const put = await upsert(app.id, uid, { url: `${made.url}/moved`, uid, disabled: true });
    assert.deepEqual([put.id, put.url, put.disabled, put.description], [made.id, `${made.url}/moved`, true, ""]);
    const patched = await svix.endpoint.patch(app.id, uid, { description: "Patched" });
    assert.deepEqual([patched.description, patched.disabled], ["Patched", true]);
    const cleared = await svix.endpoint.patch(app.id, made.id, { uid: null });
    assert.equal(cleared.uid ?? null, null);
  },

  async "listed in both orders and directions"(world) {
    const app = await world.application();
    const mine = [];
    for (let n = 0; n < 5; n++) mine.push((await world.endpoint(app, world.path())).id);
    const listed = async (order) => ids(await walk((options) => world.svix.endpoint.list(app.id, options), { order }));
    assert.deepEqual(await listed("ascending"), mine.toSorted());
    assert.deepEqual(await listed("descending"), mine.toSorted().toReversed());
  },

  async "headers are kept, hidden and sent"(world) {
    const { svix } = world;
    const [app, path] = [await world.application(), world.path()];
    const endpoint = await world.endpoint(app, path);
    const put = first(svix.endpoint, "setHeaders", "updateHeaders");
    await put(app.id, endpoint.id, { headers: { "X-Team": "red", Authorization: "Bearer s3cr3t" } });
    const shown = await svix.endpoint.getHeaders(app.id, endpoint.id);
    assert.deepEqual([shown.headers, shown.sensitive], [{ "X-Team": "red" }, ["Authorization"]]);
    await svix.endpoint.patchHeaders(app.id, endpoint.id, { headers: { "X-Desk": "7" }, deleteHeaders: ["X-Team"] });
    assert.deepEqual((await svix.endpoint.getHeaders(app.id, endpoint.id)).headers, { "X-Desk": "7" });
    await world.send(app);
    const { headers } = await world.receiver.next(path);
    assert.deepEqual(
      [headers["x-team"], headers["x-desk"], headers.authorization],
      [undefined, "7", "Bearer s3cr3t"],
    );
  },

  async "secrets rotate without a gap"(world) {
    const { svix } = world;
    const [app, path] = [await world.application(), world.path()];
    const endpoint = await world.endpoint(app, path);
    const made = await world.secret(app, endpoint);
    await svix.endpoint.rotateSecret(app.id, endpoint.id, { key: KEYS[1], gracePeriodSeconds: 3600 });
    assert.equal(await world.secret(app, endpoint), KEYS[1]);
    await world.send(app);
    const arrival = await world.receiver.next(path);
    assert.deepEqual(
      [made, KEYS[1], KEYS[0]].map((secret) => arrival.verifiedBy(secret)),
      [true, true, false],
    );
    await svix.endpoint.rotateSecret(app.id, endpoint.id, {});
    assert.ok(![made, ...KEYS].includes(await world.secret(app, endpoint)));
  },

  async "examples are sent"(world) {
    const [app, path] = [await world.application(), world.path()];
    const endpoint = await world.endpoint(app, path);
    const kind = (await world.eventType({ schemas: { 1: { type: "object", examples: [{ amount: 7 }] } } })).name;
    const sent = await world.svix.endpoint.sendExample(app.id, endpoint.id, { eventType: kind });
    const arrival = await world.receiver.next(path);
    assert.deepEqual([arrival.id, arrival.payload], [sent.id, { amount: 7 }]);
    assert.ok(arrival.verifiedBy(await world.secret(app, endpoint)));
  },

  async "refused and deleted"(world) {
    const { svix } = world;
    const [app, uid, url] = [await world.application(), world.fresh("endpoint"), world.receiver.url("/nowhere")];
    const made = await world.endpoint(app, "/nowhere", { uid });
    await refused(409, "conflict", () => svix.endpoint.create(app.id, { url, uid }));
    await invalid(() => svix.endpoint.create(app.id, { url: "no address" }));
    await invalid(() => svix.endpoint.create(app.id, { url, [FILTER]: ["no.such.type"] }));
    await svix.endpoint.delete(app.id, made.id);
    await refused(404, "not_found", () => svix.endpoint.get(app.id, uid));
  },
};
