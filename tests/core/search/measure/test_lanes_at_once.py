"""How many models of a race are open together: as many as fit into the memory of the machine and of the device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from optim._engine.search.measure.racing import Races

GIB = 1 << 30


def bench(size_bytes: int, free: int | None, taken: int = 0) -> Any:
    return SimpleNamespace(
        elsewhere=None,
        say=None,
        teller=None,
        original=SimpleNamespace(size_bytes=size_bytes),
        device_free_bytes=lambda: free,
        prepared=SimpleNamespace(device_bytes=taken),
    )


@pytest.mark.parametrize(
    ("size", "free", "taken", "lanes"),
    [
        (GIB, None, 0, 20),  # of 128 GiB of the machine, half, by 3.1 GiB
        (GIB, 80 * GIB, 0, 11),  # half of 80 GiB of the device by 3.6
        (GIB, 80 * GIB, 10 * GIB, 4),  # the original with its inputs took more than three times its size
        (GIB, 4 * GIB, 0, 2),  # a race is of two at least
        (1 << 20, 80 * GIB, 0, 67),  # a context of CUDA of 600 MiB for each
    ],
)
def test_lanes_fit_into_both_memories(
    size: int, free: int | None, taken: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=128 * GIB))
    assert Races(bench(size, free, taken)).at_once == lanes


@pytest.mark.parametrize(("lanes", "fit"), [(10, True), (11, False)])
def test_lanes_are_opened_beside_those_of_other_runs_where_a_quarter_of_the_memory_takes_them(
    lanes: int, fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=128 * GIB))
    assert Races(bench(GIB, None))._fit_beside_others(lanes) is fit
