from __future__ import annotations

from hookline.api.operation import Operation

OPERATIONS: list[Operation] = []
