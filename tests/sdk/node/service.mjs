import assert from "node:assert/strict";

export const checks = {
  async healthy(world) {
    assert.equal((await world.svix.health.get()) ?? null, null);
  },
};
