"""Explores every state that a protocol can reach, breadth first, so that a trace that ends in a fault is a shortest one."""

from __future__ import annotations

import re
from time import perf_counter
from typing import NamedTuple

from hookline.errors import IllegalMove
from tests.model import invariants
from tests.model.protocol import Broken, Protocol
from tests.model.states import State, canonical


class Report(NamedTuple):
    states: int
    seconds: float
    kinds: frozenset[str]  # of the steps, and the circuits that lanes had
    fault: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        steps = (f"{number:3} {text}" for number, text in enumerate((*self.trace, self.fault or "no fault"), 1))
        return "\n".join((f"{self.states} states in {self.seconds:.1f} s", *steps))


class Explorer:
    def __init__(self, protocol: Protocol, limit: int = 2_000_000) -> None:
        self._protocol = protocol
        self._limit = limit
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._from: list[tuple[int, str]] = []  # of each state: the state before it, and the step between them
        self._fair: list[list[int]] = []  # of each state: the states from which a fair step leads to it

    def run(self) -> Report:
        began = perf_counter()
        found = self._reach() or self._stuck()
        seconds = perf_counter() - began
        if found is None:
            return Report(len(self._states), seconds, self._kinds())
        number, fault = found
        return Report(len(self._states), seconds, self._kinds(), fault, self._trace(number))

    def _kinds(self) -> frozenset[str]:
        circuits = {lane.circuit.name for state in self._states for lane in state.lanes if lane is not None}
        return frozenset(circuits | {re.sub(r"\d+", "N", text) for _, text in self._from})

    def _reach(self) -> tuple[int, str] | None:
        """Visit every state. Return the first state with a fault."""
        self._add(self._protocol.start(), -1, "")
        for number, state in enumerate(self._states):
            fault = invariants.fault(state, self._protocol.setting.slots)
            if fault is not None:
                return number, fault
            try:
                for text, after, fair in self._protocol.steps(state):
                    reached = self._add(canonical(after), number, text)
                    if fair:
                        self._fair[reached].append(number)
            except (Broken, IllegalMove) as error:
                return number, str(error)
            assert len(self._states) < self._limit, "too many states"
        return None

    def _add(self, state: State, before: int, text: str) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
            self._from.append((before, text))
            self._fair.append([])
        return number

    def _stuck(self) -> tuple[int, str] | None:
        """Return the first state from which fair steps alone cannot end all deliveries.

        If there is none, each run ends all deliveries, in which every step that is possible again and again happens.
        """
        ends = [number for number, state in enumerate(self._states) if invariants.ended(state)]
        reached = set(ends)
        while ends:
            for before in self._fair[ends.pop()]:
                if before not in reached:
                    reached.add(before)
                    ends.append(before)
        stuck = next((number for number in range(len(self._states)) if number not in reached), None)
        return None if stuck is None else (stuck, "not all deliveries can end")

    def _trace(self, number: int) -> tuple[str, ...]:
        steps: list[str] = []
        while number > 0:
            number, text = self._from[number]
            steps.append(text)
        return tuple(reversed(steps))


def explore(protocol: Protocol) -> Report:
    return Explorer(protocol).run()
