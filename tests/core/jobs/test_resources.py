"""What control groups and affinity leave to a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from optim.jobs import resources
from optim.jobs.resources import ControlGroups

NO_LIMIT = 9223372036854771712


def groups(folder: Path, own: str | None, files: dict[str, str]) -> ControlGroups:
    """Control groups that a folder holds; ``own``: what ``/proc/self/cgroup`` has, None where it cannot be read."""
    for name, text in files.items():
        (folder / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "groups" / name).write_text(text)
    if own is not None:
        (folder / "own").write_text(own)
    return ControlGroups(folder / "groups", folder / "own")


V1 = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n"


@pytest.mark.parametrize(
    ("own", "files", "quota", "memory"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n", "memory.max": "4096\n"}, 1.5, 4096),
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, None, None),
        ("0::/job/step\n", {"job/memory.max": "4096", "job/step/memory.max": "max", "memory.max": "9000"}, None, 4096),
        ("0::/job/step\n", {"job/cpu.max": "50000 100000", "job/step/cpu.max": "200000 100000"}, 0.5, None),
        ("0::/../other\n", {"memory.max": "4096"}, None, 4096),
        (V1, {"memory/memory.limit_in_bytes": "4096", "memory/memory.usage_in_bytes": "0"}, None, 4096),
        (V1, {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0, None),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "-1", "cpu/docker/abc/cpu.cfs_period_us": "100000"}, None, None),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "200000"}, None, None),
        (None, {"memory.max": "4096", "cpu.max": "100000 100000"}, 1.0, 4096),
        (None, {}, None, None),
    ],
)
def test_the_tightest_limit_of_a_group_and_those_above_counts(
    own: str | None, files: dict[str, str], quota: float | None, memory: int | None, tmp_path: Path
) -> None:
    found = groups(tmp_path, own, files)
    assert (found.processors(), found.memory_bytes()) == (quota, memory)


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_pages_of_files_are_free_memory(prefix: str, tmp_path: Path) -> None:
    statistics = f"anon 500\n{prefix}inactive_file 300\n{prefix}active_file 100\n"
    found = groups(tmp_path, "0::/\n", {"memory.max": "1000", "memory.current": "900", "memory.stat": statistics})
    assert found.free_memory_bytes() == 500
    over = groups(tmp_path, "0::/\n", {"memory.current": "1500"})
    assert over.free_memory_bytes() == 0


def test_a_machine_has_no_more_than_its_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"memory.max": "1000", "memory.current": "900", "cpu.max": "50000 100000"}
    monkeypatch.setattr(resources, "ControlGroups", lambda: groups(tmp_path, "0::/\n", files))
    assert (resources.usable_memory_bytes(), resources.free_memory_bytes(), resources.usable_processors()) == (
        1000,
        100,
        1,
    )
    unlimited = {"memory.max": str(NO_LIMIT), "cpu.max": "9900000 100000"}
    monkeypatch.setattr(resources, "ControlGroups", lambda: groups(tmp_path, "0::/\n", unlimited))
    assert resources.free_memory_bytes() < resources.usable_memory_bytes() < NO_LIMIT
    assert resources.usable_processors() == resources.usable_cores()


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is read on Linux alone")
def test_a_run_on_fewer_cores_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from optim._engine.search import keys

    monkeypatch.setattr(keys, "instruction_sets", lambda: ("avx2",))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(ControlGroups, "processors", lambda _: None)
    whole = keys.machine_key()
    monkeypatch.setattr(ControlGroups, "processors", lambda _: 1.5)
    quota = keys.machine_key()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert len({whole, quota, keys.machine_key()}) == 3
    assert whole.endswith("/3/avx2") and quota.endswith("/3 for 1.5/avx2")
    monkeypatch.setattr(keys, "instruction_sets", lambda: ("avx2", "avx512f"))
    assert keys.machine_key().endswith("/avx2 avx512f")  # virtual machines have one name for many processors
