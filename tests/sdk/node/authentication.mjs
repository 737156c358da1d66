import assert from "node:assert/strict";
import { refused } from "./sdk.mjs";
import { ids } from "./world.mjs";

export const checks = {
  async "a portal token reaches one application"(world) {
    const { svix } = world;
    const [app, stranger] = [await world.application(), await world.application()];
    const access = await svix.authentication.appPortalAccess(app.id, {});
    assert.ok(access.url.startsWith(world.server));
    const portal = world.client(access.token);
    const endpoint = await portal.endpoint.create(app.id, { url: world.receiver.url(world.path()) });
    assert.deepEqual(ids((await svix.endpoint.list(app.id)).data), [endpoint.id]);
    await refused(404, "not_found", () => portal.application.get(stranger.id));
    await refused(403, "insufficient_access", () => portal.application.list());
    await portal.authentication.logout();
    await refused(401, "authentication_failed", () => portal.application.get(app.id));
  },

  async "a portal that only reads"(world) {
    const { svix } = world;
    const app = await world.application();
    const access = await svix.authentication.appPortalAccess(app.id, { readOnly: true, expiry: 3600 });
    const portal = world.client(access.token);
    assert.deepEqual((await portal.endpoint.list(app.id)).data, []);
    const url = world.receiver.url(world.path());
    await refused(403, "insufficient_access", () => portal.endpoint.create(app.id, { url }));
  },

  // Only the older generation of the SDK has this name.
  async "the name that the portal had"(world) {
    if (!("dashboardAccess" in world.bare.authentication)) return;
    const app = await world.application();
    const access = await world.svix.authentication.dashboardAccess(app.id);
    assert.deepEqual(await world.client(access.token).application.get(app.id), app);
  },

  async "every token of an application expires"(world) {
    const { svix } = world;
    const app = await world.application();
    const portal = world.client((await svix.authentication.appPortalAccess(app.id, {})).token);
    assert.equal((await portal.application.get(app.id)).id, app.id);
    await svix.authentication.expireAll(app.id, {});
    await refused(401, "authentication_failed", () => portal.application.get(app.id));
  },
};
