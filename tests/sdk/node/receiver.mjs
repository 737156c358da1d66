// A receiver on loopback, as a customer would write it. It verifies with the SDK and answers as the check demands.

import { createServer } from "node:http";
import { svix } from "./sdk.mjs";

export const PATIENCE = 60_000;

class Arrival {
  constructor(headers, body) {
    this.headers = headers;
    this.body = body;
    this.id = headers["webhook-id"];
  }

  get payload() {
    return JSON.parse(this.body);
  }

  verifiedBy(secret) {
    try {
      new svix.Webhook(secret).verify(this.body, this.headers);
      return true;
    } catch (error) {
      if (error instanceof svix.WebhookVerificationError) return false;
      throw error;
    }
  }
}

export class Receiver {
  #arrivals = new Map();
  #answers = new Map();
  #waiting = new Map();
  // Keep connections open. Closing one during a request would cost another attempt.
  #server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => this.#received(request, response));

  async start() {
    await new Promise((ready) => this.#server.listen(0, "127.0.0.1", ready));
    return this;
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  url(path) {
    return `http://127.0.0.1:${this.#server.address().port}${path}`;
  }

  /** Set the answers of the next requests, in order. The last answer stays. */
  answer(path, ...answers) {
    this.#answers.set(path, answers);
  }

  /** Wait for the next request for this path and return it. */
  async next(path) {
    const arrived = this.#arrivals.get(path)?.shift();
    if (arrived) return arrived;
    return await new Promise((resolve, reject) => {
      const late = () => reject(new Error(`nothing arrived at ${path} in ${PATIENCE} ms`));
      const timer = setTimeout(late, PATIENCE);
      this.#waiting.set(path, (arrival) => (clearTimeout(timer), resolve(arrival)));
    });
  }

  async several(path, count) {
    const arrivals = [];
    while (arrivals.length < count) arrivals.push(await this.next(path));
    return arrivals;
  }

  nothingMore(path) {
    return !this.#arrivals.get(path)?.length;
  }

  async #received(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const path = request.url;
    this.#keep(path, new Arrival(request.headers, Buffer.concat(chunks).toString()));
    const answers = this.#answers.get(path) ?? [[200, "thanks"]];
    const [status, body] = answers.length > 1 ? answers.shift() : answers[0];
    response.writeHead(status).end(body);
  }

  #keep(path, arrival) {
    const waiting = this.#waiting.get(path);
    this.#waiting.delete(path);
    if (waiting) waiting(arrival);
    else this.#arrivals.set(path, [...(this.#arrivals.get(path) ?? []), arrival]);
  }
}
