"""Values that one key encrypted are found by an index, in its order, however many values other keys encrypted."""

from __future__ import annotations

import pytest

from hookline.security.vault import Vault
from hookline.store.postgres import PostgresStore
from hookline.store.sealing import Place, others
from tests.store_postgres.plans import explain, nodes
from tests.support.scene import Scene
from tests.support.sealing import add_sealed_endpoints

INDEXES = {
    Place.SECRETS: "endpoint_secrets_key",
    Place.HEADERS: "endpoint_headers_key",
    Place.URL: "endpoint_url_key",
    Place.ANSWER: "answer_key",
}


@pytest.mark.parametrize("place", Place)
async def test_a_step_of_key_rotation_reads_one_index_and_sorts_nothing(
    scene: Scene, vault: Vault, place: Place
) -> None:
    assert isinstance(scene.store, PostgresStore)
    await add_sealed_endpoints(scene, vault, 300)
    await scene.raw.execute("ANALYZE endpoint")
    for within in others(vault.heads):
        asked = (place.value, within.start, within.stop)
        for name, more in (("sealed_next", (b"", "", 10)), ("sealed_count", (10,))):
            found = list(nodes(await explain(scene.store, name, *asked, *more)))
            assert {node.get("Index Name") for node in found} <= {None, INDEXES[place]}
            assert not [node for node in found if node["Node Type"] in ("Seq Scan", "Sort")]
            assert sum(node.get("Rows Removed by Filter", 0) for node in found) == 0
