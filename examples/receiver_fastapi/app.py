"""A receiver on FastAPI and SQLAlchemy.

The payment and the key of its webhook are committed in one transaction, so a copy of the webhook changes nothing.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from hookline.receive import Verifier, Webhook, inbox
from hookline.receive.fastapi import verified

guard = verified(Verifier(os.environ["WEBHOOK_SECRET"]))
engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///receiver.db"))
Session = async_sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class Payment(Base):
    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    order: Mapped[int]
    cents: Mapped[int]


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await inbox.create_table_async(connection)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/hooks")
async def hooks(webhook: Annotated[Webhook, Depends(guard)]) -> dict:
    paid = webhook.json()
    async with Session.begin() as session, inbox.once_async(session, webhook.id) as first:
        if first:
            session.add(Payment(order=paid["order"], cents=paid["cents"]))
    return {"first": first}


@app.get("/payments")
async def payments() -> list[dict]:
    async with Session() as session:
        found = await session.scalars(select(Payment).order_by(Payment.id))
        return [{"order": one.order, "cents": one.cents} for one in found]
