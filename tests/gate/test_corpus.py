"""Each generator of the corpus once: wrong pairs are refused, right pairs pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.case import Generator, Verdict, generators
from gate.judged import judged

pytestmark = pytest.mark.slow

ALL = generators()


@pytest.mark.parametrize("generator", ALL, ids=lambda one: one.name)
def test_the_verdict_on_a_pair_is_right(generator: Generator, tmp_path: Path) -> None:
    found = judged(generator.case(), tmp_path)
    assert found.verdict in generator.accepted, f"{generator.reason}; verify says: {found.text}"


def test_there_are_as_many_pairs_as_promised() -> None:
    assert sum(not one.is_right for one in ALL) >= 80
    assert sum(one.is_right for one in ALL) >= 40


def test_no_wrong_pair_may_be_called_equal() -> None:
    assert not [one.name for one in ALL if not one.is_right and Verdict.EQUAL in one.accepted]
    assert not [one.name for one in ALL if one.is_right and Verdict.REFUSED in one.accepted]
