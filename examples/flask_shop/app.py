"""A shop on Flask and sqlite3: an order and its webhook are committed together, or neither is."""

import os
import sqlite3

from flask import Flask, g, request

from hookline import outbox
from hookline.outbox.setup import create_table

CUSTOMER = "demo"  # the application in Hookline whose endpoints get the webhooks
ORDERS = (
    "CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, item text, cents integer, refunded integer DEFAULT 0)"
)

app = Flask(__name__)


def shop() -> sqlite3.Connection:
    """Return the database connection of the current request."""
    if "shop" not in g:
        g.shop = sqlite3.connect(os.environ.get("SHOP_DATABASE", "shop.db"))
    return g.shop


@app.teardown_appcontext
def leave(_error: BaseException | None) -> None:
    if "shop" in g:
        g.shop.close()


@app.cli.command("init")
def init() -> None:
    shop().execute("PRAGMA journal_mode = WAL")
    with shop():
        shop().execute(ORDERS)
        create_table(shop())


@app.post("/orders")
def pay() -> tuple[dict, int]:
    ordered = request.get_json(force=True)
    with shop():  # one transaction: commits at the end, rolls back on an error
        order = shop().execute("INSERT INTO orders (item, cents) VALUES (:item, :cents)", ordered).lastrowid
        event = outbox.publish(shop(), CUSTOMER, "order.paid", {"order": order, **ordered})
    return {"order": order, "event": event}, 201


@app.post("/orders/<int:order>/refund")
def refund(order: int) -> dict:
    with shop():
        shop().execute("UPDATE orders SET refunded = 1 WHERE id = ?", [order])
        outbox.publish(shop(), CUSTOMER, "order.refunded", {"order": order})
        give_back(order)  # raises: the transaction rolls back, so there is no refund and no webhook
    return {"order": order}


def give_back(order: int) -> None:
    raise ConnectionError(f"the bank does not answer; order {order} is not refunded")


@app.errorhandler(ConnectionError)
def unavailable(error: ConnectionError) -> tuple[dict, int]:
    return {"error": str(error)}, 503


@app.get("/orders")
def orders() -> list[dict]:
    found = shop().execute("SELECT id, item, cents, refunded FROM orders ORDER BY id")
    return [{"order": one, "item": item, "cents": cents, "refunded": bool(back)} for one, item, cents, back in found]
