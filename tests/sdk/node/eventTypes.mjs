import assert from "node:assert/strict";
import { first, invalid, refused } from "./sdk.mjs";
import { ids, walk } from "./world.mjs";

const SCHEMAS = { 1: { type: "object", properties: { amount: { type: "integer" } }, required: ["amount"] } };

const listed = async (world, fields) => ids(await walk((options) => world.svix.eventType.list(options), fields));

export const checks = {
  async "made, found and changed"(world) {
    const { svix } = world;
    const made = await world.eventType({ schemas: SCHEMAS, groupName: "orders", featureFlags: ["beta"] });
    assert.deepEqual([made.description, made.schemas, made.groupName], ["Paid", SCHEMAS, "orders"]);
    assert.deepEqual([made.featureFlags, made.archived, made.deprecated], [["beta"], false, false]);
    assert.deepEqual(await svix.eventType.get(made.name), made);
    await refused(409, "conflict", () => svix.eventType.create({ name: made.name, description: "Again" }));

    const upsert = first(svix.eventType, "upsert", "update");
    const put = await upsert(made.name, { description: "Put", deprecated: true });
    assert.deepEqual([put.name, put.description, put.deprecated], [made.name, "Put", true]);
    const patched = await svix.eventType.patch(made.name, { description: "Patched" });
    assert.deepEqual([patched.description, patched.deprecated], ["Patched", true]);
    const other = world.fresh("order.refunded");
    await upsert(other, { description: "New by PUT" });
    assert.equal((await svix.eventType.get(other)).description, "New by PUT");
  },

  async "archived and expunged"(world) {
    const { svix } = world;
    const { name } = await world.eventType();
    await svix.eventType.delete(name);
    assert.equal((await svix.eventType.get(name)).archived, true);
    assert.ok(!(await listed(world)).includes(name));
    assert.ok((await listed(world, { includeArchived: true })).includes(name));
    await svix.eventType.delete(name, { expunge: true });
    await refused(404, "not_found", () => svix.eventType.get(name));
  },

  async "listed in both orders and directions"(world) {
    for (let n = 0; n < 3; n++) await world.eventType({ schemas: SCHEMAS });
    const ascending = await listed(world, { order: "ascending" });
    assert.deepEqual(await listed(world, { order: "descending" }), ascending.toReversed());
  },

  async refused(world) {
    const { svix } = world;
    await refused(404, "not_found", () => svix.eventType.get("no.such.type"));
    await invalid(() => svix.eventType.create({ name: "not a name", description: "x" }));
  },
};
