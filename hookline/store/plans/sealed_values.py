"""Count encrypted values by key, and re-encrypt them with the first secret key, which encrypts new values. Also store
the older token secrets, which only verify tokens, and when a token that each of them signed was last used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from hookline.errors import VaultError
from hookline.security.vault import Vault
from hookline.store.plans.plan import (
    Batch,
    Bulk,
    Plan,
    Plans,
    Step,
    changes,
    reads,
    searches,
    searches_and_changes,
    value,
)
from hookline.store.rows import Row
from hookline.store.rows.reading import maybe
from hookline.store.sealing import KeySeals, OlderSecret, Place, Range, Resealed, Seals, Spot, of_key, others


class SealedValues(Plans):
    @searches
    def seals(self, limit: int) -> Plan[Seals]:
        """Count how many values each key has encrypted. Each count stops at `limit`."""
        heads = self._vault.heads
        keys = []
        for head in heads:
            keys.append(KeySeals(head, (yield from _count(of_key(head), limit))))
        unknown = 0
        for within in others(heads):
            unknown += yield from _count(within, limit)
        return Seals(first=keys[0], older=tuple(keys[1:]), unknown=unknown)

    @searches_and_changes
    def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Plan[Resealed]:
        """Re-encrypt one batch of values with the first secret key, in one transaction.

        Values that changed since they were read, that another transaction has locked, or that no key decrypts stay
        unchanged.
        """
        found = yield Step("sealed_next", place=place, **asdict(within), **asdict(after), limit=limit)
        renewed, faults = _renew(self._vault, place, found)
        done = yield Bulk(place.statement, renewed)
        last = Spot(found[-1]["head"], found[-1]["row"]) if found else None
        return Resealed(done=len(done), faults=faults, last=last)

    # ── token secrets ──

    @changes
    def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> Plan[None]:
        """Store the older secrets, which only verify tokens. If the secret that signs tokens is stored as an older one,
        remove it. All secrets are given as hashes."""
        yield Step("secret_signs", id=signs)
        yield Batch("secret_watch", [{"id": each} for each in older])

    @changes
    def secret_seen(self, hashed: bytes) -> Plan[None]:
        """Set the last use of an older secret to now, because a token that it signed was used. The value is written at
        most once a minute."""
        yield Step("secret_seen", id=hashed)

    @reads
    def older_secrets(self) -> Plan[list[OlderSecret]]:
        instant = self._reading.instant
        return [
            OlderSecret(each["id"], instant(each["since"]), maybe(instant, each["seen_at"]))
            for each in (yield Step("older_secrets"))
        ]


def _count(within: Range, limit: int) -> Plan[int]:
    count = 0
    for place in Place:
        count += yield from value("sealed_count", place=place, **asdict(within), max_rows=limit)
    return count


def _renew(vault: Vault, place: Place, found: Sequence[Row]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Re-encrypt the values with the first secret key. Also return the errors of values that no key decrypts."""
    renewed, faults = [], []
    for each in found:
        bound = place.bound(each["row"])
        try:
            plain = vault.open(each["sealed"], bound)
        except VaultError as fault:
            faults.append(f"{place}: {fault}")
        else:
            renewed.append({"row": each["row"], "old": each["sealed"], "new": vault.seal(plain, bound)})
    return renewed, tuple(faults)
