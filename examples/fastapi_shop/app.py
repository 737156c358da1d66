"""A shop on FastAPI and SQLAlchemy: an order and its webhook are committed together, or neither is."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from hookline import outbox
from hookline.outbox.setup import create_table_async

CUSTOMER = "demo"  # the application in Hookline whose endpoints get the webhooks

engine = create_async_engine(os.environ.get("SHOP_DATABASE_URL", "sqlite+aiosqlite:///shop.db"))
Session = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    cents: Mapped[int]
    refunded: Mapped[bool] = mapped_column(default=False)


class Ordered(BaseModel):
    item: str
    cents: int


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await create_table_async(connection)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def pay(ordered: Ordered) -> dict:
    async with Session.begin() as session:  # one transaction: commits at the end, rolls back on an error
        order = Order(item=ordered.item, cents=ordered.cents)
        session.add(order)
        await session.flush()  # sets order.id
        event = await outbox.publish_async(session, CUSTOMER, "order.paid", {"order": order.id, **ordered.model_dump()})
    return {"order": order.id, "event": event}


@app.post("/orders/{number}/refund")
async def refund(number: int) -> dict:
    async with Session.begin() as session:
        order = await session.get_one(Order, number)
        order.refunded = True
        await outbox.publish_async(session, CUSTOMER, "order.refunded", {"order": number})
        give_back(number)  # raises: the transaction rolls back, so there is no refund and no webhook
    return {"order": number}


def give_back(number: int) -> None:
    raise HTTPException(503, f"the bank does not answer; order {number} is not refunded")


@app.get("/orders")
async def orders() -> list[dict]:
    async with Session() as session:
        found = await session.scalars(select(Order).order_by(Order.id))
        return [{"order": one.id, "item": one.item, "cents": one.cents, "refunded": one.refunded} for one in found]
