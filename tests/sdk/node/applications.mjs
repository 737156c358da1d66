import assert from "node:assert/strict";
import { first, invalid, refused } from "./sdk.mjs";
import { ids, walk } from "./world.mjs";

const NOBODY = "app_2bYFAkeAndNotThere0000000000";

export const checks = {
  async "made, found and changed"(world) {
    const { svix } = world;
    const uid = world.fresh("customer");
    const made = await world.application({ uid, metadata: { plan: "gold" } });
    assert.match(made.id, /^app_/);
    assert.deepEqual([made.uid, made.metadata], [uid, { plan: "gold" }]);
    assert.ok(Date.now() - made.createdAt < 60_000);
    assert.deepEqual(await svix.application.get(made.id), made);
    assert.deepEqual(await svix.application.get(uid), made);

    const upsert = first(svix.application, "upsert", "update");
    const renamed = await upsert(uid, { name: "Renamed", uid });
    assert.deepEqual([renamed.id, renamed.name, renamed.metadata], [made.id, "Renamed", {}]);
    const other = world.fresh("customer");
    await upsert(other, { name: "New by PUT", uid: other });
    assert.equal((await svix.application.get(other)).name, "New by PUT");
  },

  async patched(world) {
    const { svix } = world;
    const uid = world.fresh("customer");
    const made = await world.application({ uid, metadata: { plan: "gold" } });
    const named = await svix.application.patch(made.id, { name: "Patched" });
    assert.deepEqual([named.name, named.uid, named.metadata], ["Patched", uid, { plan: "gold" }]);
    const cleared = await svix.application.patch(uid, { uid: null });
    assert.deepEqual([cleared.name, cleared.uid ?? null], ["Patched", null]);
    await refused(404, "not_found", () => svix.application.get(uid));
  },

  async "made once"(world) {
    const { svix } = world;
    const uid = world.fresh("customer");
    const made = await world.application({ uid });
    await refused(409, "conflict", () => svix.application.create({ name: "Second", uid }));
    assert.deepEqual(await svix.application.getOrCreate({ name: "Third", uid }), made);

    const key = { idempotencyKey: world.fresh("key") };
    const once = await svix.application.create({ name: "Once" }, key);
    assert.deepEqual(await svix.application.create({ name: "Once" }, key), once);
    await invalid(() => svix.application.create({ name: "Another" }, key));
  },

  async "listed in both orders and directions"(world) {
    const mine = [];
    for (let n = 0; n < 5; n++) mine.push((await world.application()).id);
    const listed = async (order) => ids(await walk((options) => world.svix.application.list(options), { order }));
    const ascending = await listed("ascending");
    assert.deepEqual(
      mine.filter((id) => !ascending.includes(id)),
      [],
    );
    assert.deepEqual(ascending, ascending.toSorted());
    assert.deepEqual(await listed("descending"), ascending.toReversed());
  },

  async "refused and deleted"(world) {
    const { svix } = world;
    await refused(404, "not_found", () => svix.application.get(NOBODY));
    await invalid(() => svix.application.create({ name: "" }));
    await invalid(() => svix.application.list({ limit: 251 }));
    await refused(401, "authentication_failed", () => world.client("not.a.token").application.list());
    const made = await world.application();
    await svix.application.delete(made.id);
    await refused(404, "not_found", () => svix.application.get(made.id));
  },
};
