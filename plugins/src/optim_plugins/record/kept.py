"""The calls that are kept of many: a fair sample (Vitter's algorithm R) within a limit of bytes."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


class Room:
    """Bytes that all calls may take together, and what decides which calls are kept; safe for threads.

    Args:
        limit: calls of each caller.
        max_bytes: of all calls.
        seed: of the choice among more calls.
    """

    def __init__(self, limit: int, max_bytes: int, seed: int) -> None:
        self.limit, self.left = limit, max_bytes
        self.random = random.Random(seed)
        self.guard = threading.Lock()


@dataclass(slots=True)
class KeptCalls(Generic[T]):
    """The calls of one caller.

    Attributes:
        room: shared by all callers.
        count: calls that there were.
        seconds: that they took.
        too_large: calls that did not fit.
        items: calls that are kept, by their place.
        sizes: bytes of each.
    """

    room: Room
    count: int = 0
    seconds: float = 0.0
    too_large: int = 0
    items: dict[int, T] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def place(self) -> int | None:
        """Where the next call is kept; None: it is only counted."""
        with self.room.guard:
            self.count += 1
            place = self.count - 1 if self.count <= self.room.limit else self.room.random.randrange(self.count)
        return place if place < self.room.limit else None

    def spent(self, seconds: float) -> None:
        """Add the seconds of a call."""
        with self.room.guard:
            self.seconds += seconds

    def put(self, place: int, item: T, size: int) -> bool:
        """Keep a call, in place of another one if there is one; returns whether there is room for it."""
        with self.room.guard:
            left = self.room.left + self.sizes.get(place, 0)
            if size > left:
                self.too_large += 1
                return False
            self.room.left = left - size
            self.items[place], self.sizes[place] = item, size
            return True

    def drop(self, place: int) -> None:
        """Give the room of a call back that is kept no more."""
        with self.room.guard:
            self.room.left += self.sizes.pop(place)
            del self.items[place]

    @property
    def calls(self) -> list[T]:
        """The calls that are kept."""
        return list(self.items.values())
