// Webhooks signed and verified by npm packages. Reads a list of jobs from stdin and writes a list of results to stdout.

import { text } from "node:stream/consumers";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const installed = createRequire(join(process.env.SDK_PACKAGES, "package.json"));
const load = (name) => import(pathToFileURL(installed.resolve(name)));

const { Webhook } = await load("standardwebhooks");
const { Webhook: SvixWebhook } = await load("svix");
const { default: Stripe } = await load("stripe");
const stripe = new Stripe("sk_test_unused");

// The package is pure ESM, so only an import condition finds it.
const octokit = await import(
  pathToFileURL(join(process.env.SDK_PACKAGES, "node_modules/@octokit/webhooks-methods/dist-node/index.js"))
);

const dotted = (Package, prefix) => ({
  sign: ({ secret, id, timestamp, body }) => ({
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(timestamp),
    [`${prefix}-signature`]: new Package(secret).sign(id, new Date(timestamp * 1000), body),
  }),
  verify: ({ secret, headers, body }) => new Package(secret).verify(body, headers),
});

const packages = {
  standardwebhooks: dotted(Webhook, "webhook"),
  svix: dotted(SvixWebhook, "svix"),
  stripe: {
    sign: ({ secret, timestamp, body: payload }) => ({
      "Stripe-Signature": stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp }),
    }),
    verify: ({ secret, headers, body }) => stripe.webhooks.constructEvent(body, headers["Stripe-Signature"], secret),
  },
  "@octokit/webhooks-methods": {
    sign: async ({ secret, body }) => ({ "X-Hub-Signature-256": await octokit.sign(secret, body) }),
    verify: async ({ secret, headers, body }) => {
      if (!(await octokit.verify(secret, body, headers["X-Hub-Signature-256"]))) throw new Error("no match");
    },
  },
};

async function done(job) {
  try {
    return { result: (await packages[job.package][job.verb](job)) ?? null };
  } catch (error) {
    return { error: error.message };
  }
}

const jobs = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(await Promise.all(jobs.map(done))));
