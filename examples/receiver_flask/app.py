"""A receiver on Flask with a store of keys.

A request with a bad signature gets 401. A copy of a webhook gets the answer to the first request.
"""

import os
import sqlite3
from contextlib import closing

from flask import Flask

from hookline.receive import Verifier, Webhook
from hookline.receive.flask import verified
from hookline.receive.idempotency import IdempotencySettings, idempotent
from hookline.receive.stores.sqlite import SqliteKeys

PAYMENTS = "CREATE TABLE IF NOT EXISTS payments (id integer PRIMARY KEY, paid_order integer, cents integer)"

app = Flask(__name__)
verifier = Verifier(os.environ["WEBHOOK_SECRET"])


def database() -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect("receiver.db"))


with database() as conn:
    conn.execute(PAYMENTS)


@app.post("/hooks")
@idempotent(SqliteKeys("keys.db"), IdempotencySettings(verifier=verifier))
@verified(verifier)
def hooks(webhook: Webhook) -> dict:
    paid = webhook.json()
    with database() as conn, conn:
        receipt = conn.execute("INSERT INTO payments (paid_order, cents) VALUES (:order, :cents)", paid).lastrowid
    return {"receipt": receipt}


@app.get("/payments")
def payments() -> list[dict]:
    with database() as conn:
        found = conn.execute("SELECT paid_order, cents FROM payments ORDER BY id")
        return [{"order": order, "cents": cents} for order, cents in found]
