"""Count encrypted values by key, and re-encrypt them with the first key. Also the secrets that still verify tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.store import sealed
from hookline.store.plans.plan import Batch, Bulk, Plan, Shared, Step, changes, reads, searches, value, works
from hookline.store.rows.reading import maybe
from hookline.store.sealed import KeySeals, OlderSecret, Place, Range, Resealed, Seals, Spot, Value


class SealedValues(Shared):
    @searches
    def seals(self, most: int) -> Plan[Seals]:
        heads = self._vault.heads
        keys = []
        for head in heads:
            keys.append(KeySeals(head, (yield from _count(sealed.of_key(head), most))))
        unknown = 0
        for within in sealed.others(heads):
            unknown += yield from _count(within, most)
        return Seals(first=keys[0], older=tuple(keys[1:]), unknown=unknown)

    @works
    def reseal(self, place: Place, within: Range, after: Spot, limit: int) -> Plan[Resealed]:
        found = yield Step(
            "sealed_next",
            place=place,
            start=within.start,
            stop=within.stop,
            head=after.head,
            row=after.row,
            limit=limit,
        )
        values = [Value.read(each["head"], each["row"], each["sealed"]) for each in found]
        renewed, faults = sealed.renew(self._vault, place, values)
        done = yield Bulk(place.statement, [{"row": one.row, "old": one.old, "new": one.new} for one in renewed])
        return sealed.step(values, faults, len(done))

    # ── token secrets ──

    @changes
    def watch_secrets(self, signs: bytes, older: Sequence[bytes]) -> Plan[None]:
        yield Step("secret_signs", id=signs)
        yield Batch("secret_watch", [{"id": each} for each in older])

    @changes
    def secret_seen(self, hashed: bytes) -> Plan[None]:
        yield Step("secret_seen", id=hashed)

    @reads
    def older_secrets(self) -> Plan[list[OlderSecret]]:
        instant = self._reading.instant
        return [
            OlderSecret(each["id"], instant(each["since"]), maybe(instant, each["seen_at"]))
            for each in (yield Step("older_secrets"))
        ]


def _count(within: Range, most: int) -> Plan[int]:
    count = 0
    for place in Place:
        count += yield from value("sealed_count", place=place, start=within.start, stop=within.stop, most=most)
    return count
