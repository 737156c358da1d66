"""Builders of operators, sessions and audit entries. All values differ."""

from __future__ import annotations

import hashlib

from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.audit import NewAuditEntry
from hookline.model.operators import NewSession, Operator
from tests.support import factory


def new_operator(org_id: str, **fields: object) -> Operator:
    number = factory.number()
    given: dict[str, object] = {
        "name": f"operator {number}",
        "org_id": org_id,
        "role": Scope.FULL,
        "password": f"scrypt${number}",
        "created_at": factory.instant(),
    }
    return Operator(**(given | fields))  # type: ignore[arg-type]


def new_session(org_id: str, **fields: object) -> NewSession:
    number = factory.number()
    given: dict[str, object] = {
        "hash": hashlib.sha256(str(number).encode()).digest(),
        "org_id": org_id,
        "role": Scope.FULL,
        "lifetime": 7 * 86_400.0 + number,
    }
    return NewSession(**(given | fields))  # type: ignore[arg-type]


def new_audit(org_id: str, **fields: object) -> NewAuditEntry:
    number = factory.number()
    given: dict[str, object] = {
        "org_id": org_id,
        "actor": Actor(kind=ActorKind.OPERATOR, name=f"operator {number}"),
        "action": "endpoint.pause",
        "subject": f"ep_{number}",
        "app_id": f"app_{number}",
        "detail": f"detail {number}",
        "address": f"192.0.2.{number % 250}",
    }
    return NewAuditEntry(**(given | fields))  # type: ignore[arg-type]
