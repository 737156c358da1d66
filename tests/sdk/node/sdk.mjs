// The SDK under test, of either generation: its names, its methods, and a record of the methods that were called.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { SVIX_PACKAGES, SVIX_PACKAGE } = process.env;
const installed = createRequire(join(SVIX_PACKAGES, "package.json"));

export const svix = await import(pathToFileURL(installed.resolve(SVIX_PACKAGE)));
export const VERSION = installed("./package-lock.json").packages[`node_modules/${SVIX_PACKAGE}`].version;
export const FILTER = VERSION.startsWith("1.") ? "filterTypes" : "eventTypes";

/** Return the first of these names that this generation has. */
export function first(owner, ...names) {
  const name = names.find((each) => each in owner);
  return (...given) => owner[name](...given);
}

/** The SDK's own client, or one of its resources. It records the name of each method that is called. */
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

// Old names only call the new ones and make no request themselves.
const REQUEST = /SvixRequest\(\s*(?:[\w.]*HttpMethod\.)?"?(\w+)"?,\s*"([^"]+)"/;

/** Return each method of the SDK that makes a request: its name, and the request's method and path. */
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

/** Check that the call fails with an error in Svix's format, as the SDK throws it. */
export async function refused(status, code, call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof svix.ApiException, error);
    assert.deepEqual([error.code, error.body.code], [status, code]);
    assert.ok(error.body.detail);
    return true;
  });
}

/** Check that the call fails with a 422 that names the wrong field, as the SDK throws it. */
export async function invalid(call) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof svix.ApiException, error);
    assert.equal(error.code, 422);
    assert.ok(error.body.detail.length);
    for (const fault of error.body.detail) assert.ok(fault.loc.length && fault.msg && fault.type);
    return true;
  });
}
