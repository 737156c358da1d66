// The SDK under test, whichever generation was asked for: its names, its methods, and a note of those that were called.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { SVIX_PACKAGES, SVIX_PACKAGE } = process.env;
const installed = createRequire(join(SVIX_PACKAGES, "package.json"));

export const svix = await import(pathToFileURL(installed.resolve(SVIX_PACKAGE)));
export const VERSION = installed("./package-lock.json").packages[`node_modules/${SVIX_PACKAGE}`].version;
export const FILTER = VERSION.startsWith("1.") ? "filterTypes" : "eventTypes";

/** What this generation calls it. */
export function first(owner, ...names) {
  const name = names.find((each) => each in owner);
  return (...given) => owner[name](...given);
}

/** The SDK's own client, or one of its resources. Methods are the SDK's; their names are kept as they are called. */
export function noting(target, called, prefix = "") {
  return new Proxy(target, {
    get(_, name) {
      const found = target[name];
      if (typeof found === "object") return noting(found, called, `${prefix}${name}.`);
      return (...given) => {
        called.add(prefix + name);
        return found.apply(target, given);
      };
    },
  });
}

// Old names that only call the new ones make no request of their own.
const REQUEST = /SvixRequest\(\s*(?:[\w.]*HttpMethod\.)?"?(\w+)"?,\s*"([^"]+)"/;

/** Each method of the SDK that makes a request: its name, and the request's method and path. */
export function* methods(resource, prefix = "", seen = new Set()) {
  for (const [name, { get, value }] of Object.entries(
    Object.getOwnPropertyDescriptors(Object.getPrototypeOf(resource)),
  )) {
    if (get) yield* methods(resource[name], `${prefix}${name}.`, seen);
    else if (name !== "constructor" && !seen.has(value)) {
      seen.add(value);
      const request = REQUEST.exec(value.toString());
      if (request) yield [prefix + name, request[1], request[2]];
    }
  }
}

/** The call fails with an error in Svix's shape, as the SDK throws it. */
export async function refused(status, code, call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof svix.ApiException, error);
    assert.deepEqual([error.code, error.body.code], [status, code]);
    assert.ok(error.body.detail);
    return true;
  });
}

/** The call fails with a 422 that says where the fault is, as the SDK throws it. */
export async function invalid(call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof svix.ApiException, error);
    assert.equal(error.code, 422);
    assert.ok(error.body.detail.length);
    for (const fault of error.body.detail) assert.ok(fault.loc.length && fault.msg && fault.type);
    return true;
  });
}
