"""Rows of tables that no sample reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from feed_models import FLOAT, INT64, build, constant, helper, value, write

import optim
from optim._engine.feeds.traces import unread_rows

_TABLE = np.arange(800, dtype=np.float32).reshape(200, 4)  # beyond 1 KiB: a skeleton leaves its numbers in the file
_SAMPLES = [{"ids": np.array([[0, 3, 5]])}, {"ids": np.array([[5, -1, 7]])}]


def _changed(row: int) -> np.ndarray:
    table = _TABLE.copy()
    table[row] += 1
    return table


def _lookup(path: Path, table: np.ndarray, *nodes: object, index: str = "ids", read: str = "table") -> Path:
    """A table whose row each id chooses; further nodes may stand before and behind."""
    weights = [constant("table", table), constant("one", np.array([1])), constant("pads", np.array([0, 0, 0, 1]))]
    weights += [constant("scale", np.float32(0.5)), constant("kind", np.array([True]))]
    chosen = helper.make_node("Gather", [read, index], ["y"])
    ports = [value("ids", INT64, [1, 3])], [value("y", FLOAT, None)]
    return write(build([*nodes, chosen], *ports, weights), path).path


def test_unread_rows_of_a_changed_table_are_counted(tmp_path: Path) -> None:
    first, other = (_lookup(tmp_path / f"{row}.onnx", _changed(row)) for row in (0, 9))
    (said,) = unread_rows(first, other, _SAMPLES)
    assert said == "no sample reads 195 of the 200 rows of 'table': optim did not compare these rows"
    assert unread_rows(first, other, [{"ids": np.arange(200)}]) == ()


def test_an_equal_table_is_not_named_under_whatever_name(tmp_path: Path) -> None:
    first = _lookup(tmp_path / "a.onnx", _TABLE)
    other = _lookup(tmp_path / "b.onnx", _TABLE, helper.make_node("Identity", ["table"], ["copy"]), read="copy")
    assert unread_rows(first, other, _SAMPLES) == ()


def test_an_equal_table_that_nobody_reads_hides_no_other(tmp_path: Path) -> None:
    first = _lookup(tmp_path / "a.onnx", _TABLE)
    other = write(
        build(
            [helper.make_node("Gather", ["wrong", "ids"], ["y"])],
            [value("ids", INT64, [1, 3])],
            [value("y", FLOAT, None)],
            [constant("wrong", _changed(9)), constant("table", _TABLE)],
        ),
        tmp_path / "b.onnx",
    ).path
    assert len(unread_rows(first, other, _SAMPLES)) == 1


@pytest.mark.parametrize(
    ("nodes", "names", "unread"),
    [
        ([helper.make_node("Add", ["ids", "one"], ["index"])], {"index": "index"}, 195),
        ([helper.make_node("Pad", ["ids", "pads"], ["index"])], {"index": "index"}, None),
        ([helper.make_node("Where", ["kind", "ids", "one"], ["index"])], {"index": "index"}, None),
        ([helper.make_node("ArgMax", ["ids"], ["index"])], {"index": "index"}, None),
        ([helper.make_node("Transpose", ["table"], ["turned"])], {}, None),
        ([helper.make_node("Mul", ["table", "scale"], ["scaled"])], {"read": "scaled"}, None),
    ],
    ids=["shifted", "padded", "replaced", "computed", "read in whole too", "a computed table"],
)
def test_only_rows_that_inputs_alone_choose_are_counted(
    tmp_path: Path, nodes: list[object], names: dict[str, str], unread: int | None
) -> None:
    first, other = (_lookup(tmp_path / f"{row}.onnx", _changed(row), *nodes, **names) for row in (0, 9))
    found = unread_rows(first, other, _SAMPLES)
    assert [said.split()[3] for said in found] == ([] if unread is None else [str(unread)])


def test_verify_names_them(tmp_path: Path, jobs_here: None) -> None:
    first, other = (_lookup(tmp_path / f"{row}.onnx", _changed(row)) for row in (0, 9))
    samples = [{"ids": np.array([[row, row + 1, 90]])} for row in range(20, 26)]
    found = optim.verify(first, other, data=samples)
    assert found.within
    assert found.notes == ("no sample reads 192 of the 200 rows of 'table': optim did not compare these rows",)
    assert optim.verify(first, first, data=samples).notes == ()
