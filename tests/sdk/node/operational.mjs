// Operational webhooks. All checks share the organization, so each check subscribes to its own events and unsubscribes.

import assert from "node:assert/strict";
import { FILTER, first, invalid, refused } from "./sdk.mjs";
import { ids, walk } from "./world.mjs";

const KEYS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"];

export const checks = {
  async "made, found, changed and deleted"(world) {
    const operational = world.svix.operationalWebhook.endpoint;
    const [uid, url] = [world.fresh("operational"), world.receiver.url(world.path())];
    const made = await operational.create({ url, uid, description: "Pager", [FILTER]: ["endpoint.disabled"] });
    assert.match(made.id, /^ep_/);
    assert.deepEqual([made.url, made.uid, made.description, made.disabled], [url, uid, "Pager", false]);
    assert.deepEqual(made[FILTER], ["endpoint.disabled"]);
    assert.deepEqual(await operational.get(uid), made);
    const upsert = first(operational, "upsert", "update");
    const put = await upsert(uid, { url: `${url}/moved`, uid, disabled: true });
    assert.deepEqual([put.id, put.url, put.disabled, put.description], [made.id, `${url}/moved`, true, ""]);
    const listed = await walk((options) => operational.list(options));
    assert.ok(ids(listed).includes(made.id));
    await invalid(() => operational.create({ url, [FILTER]: ["order.paid"] }));
    await operational.delete(made.id);
    await refused(404, "not_found", () => operational.get(uid));
  },

  async "secret and headers"(world) {
    const operational = world.svix.operationalWebhook.endpoint;
    const url = world.receiver.url(world.path());
    const made = await operational.create({ url, secret: KEYS[0], disabled: true });
    assert.equal((await operational.getSecret(made.id)).key, KEYS[0]);
    await operational.rotateSecret(made.id, { key: KEYS[1] });
    assert.equal((await operational.getSecret(made.id)).key, KEYS[1]);
    const put = first(operational, "setHeaders", "updateHeaders");
    await put(made.id, { headers: { "X-Team": "red", "X-Token": "s3cr3t" } });
    const shown = await operational.getHeaders(made.id);
    assert.deepEqual([shown.headers, shown.sensitive], [{ "X-Team": "red" }, ["X-Token"]]);
    await operational.delete(made.id);
  },

  async "changes are sent as events and verified"(world) {
    const operational = world.svix.operationalWebhook.endpoint;
    const path = world.path();
    const kinds = ["endpoint.created", "endpoint.deleted"];
    const listener = await operational.create({ url: world.receiver.url(path), secret: KEYS[0], [FILTER]: kinds });
    const app = await world.application();
    const endpoint = await world.endpoint(app, world.path());
    await world.svix.endpoint.delete(app.id, endpoint.id);
    const events = [];
    while (events.length < 2) {
      const arrival = await world.receiver.next(path);
      assert.ok(arrival.verifiedBy(KEYS[0]));
      if (arrival.payload.data.appId === app.id) events.push(arrival.payload);
    }
    await operational.delete(listener.id);
    assert.deepEqual(events.map((each) => each.type).toSorted(), kinds);
    assert.deepEqual(new Set(events.map((each) => each.data.endpointId)), new Set([endpoint.id]));
  },
};
