"""Masks without the positions that exporters look them up at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ort_models import apply, names_and_shapes, operators, parsed, relative_l2

from optim import Model
from optim_plugins.ort.prepare.clean import Clean

_EXPORTED = """
    <ir_version: 10, opset_import: ["" : 20]>
    agraph (int64[batch, tokens] attention, float[batch, 2, tokens, 4] q, float[batch, 2, 4, tokens] k)
        => (float[batch, 2, tokens, tokens] y)
    <int64[1] last = {-1}, int64 zero = {0}, int64 one = {1}, int64[2] front = {0, 1}, int64[2] middle = {1, 2},
     int64[1] two = {2}, int64[1] three = {3}, bool[1, 1, 1, 1] new_ones = {1}, float never = {-3e38}, float none = {0}>
    {
        mask = Cast <to = 9> (attention)
        rows_size = Shape <start = 0, end = 1> (attention)
        rows = Squeeze (rows_size)
        columns_size = Shape <start = 1, end = 2> (attention)
        columns = Squeeze (columns_size)
        row = Range (START, rows, one)
        column = Range (zero, columns, one)
        row_near = Unsqueeze (row, middle)
        row_wide = Unsqueeze (row_near, three)
        column_near = Unsqueeze (column, front)
        column_query = Unsqueeze (column_near, three)
        column_key = Unsqueeze (column_near, two)
        positive = GreaterOrEqual (column_query, LIMIT)
        allowed = And (new_ones, positive)
        grid = Max (row_wide, column_key)
        size = Shape (grid)
        row_all = Expand (row_wide, size)
        row_index = Unsqueeze (row_all, last)
        column_all = Expand (column_key, size)
        column_index = Unsqueeze (column_all, last)
        index = Concat <axis = -1> (row_index, column_index)
        found = GatherND (mask, index)
        seen = And (allowed, found)
        hidden = Where (seen, none, never)
        scores = MatMul (q, k)
        y = Add (scores, hidden)
    }
"""


def _export(folder: Path, start: str = "zero", limit: str = "zero") -> Model:
    return parsed(folder, _EXPORTED.replace("START", start).replace("LIMIT", limit))


def _feeds(batch: int, tokens: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch * tokens)
    floats = {"q": (batch, 2, tokens, 4), "k": (batch, 2, 4, tokens)}
    seen = rng.integers(0, 2, (batch, tokens))
    return {"attention": seen, **{name: rng.standard_normal(shape, np.float32) for name, shape in floats.items()}}


def test_a_mask_that_is_looked_up_at_every_place_is_the_mask_itself(tmp_path: Path) -> None:
    model = _export(tmp_path)
    result = apply(Clean, model, tmp_path)
    assert sorted(operators(result.model)) == ["Add", "Cast", "MatMul", "Unsqueeze", "Where"]
    assert names_and_shapes(result.model) == names_and_shapes(model)
    for sizes in ((1, 1), (1, 7), (3, 5)):
        assert relative_l2(model, result.model, _feeds(*sizes)) == 0


@pytest.mark.parametrize(("start", "limit", "left"), [("one", "zero", "GatherND"), ("zero", "one", "GreaterOrEqual")])
def test_positions_that_leave_something_out_stay(start: str, limit: str, left: str, tmp_path: Path) -> None:
    model = _export(tmp_path, start, limit)
    result = apply(Clean, model, tmp_path)
    assert left in operators(result.model)
    if start == "zero":
        assert relative_l2(model, result.model, _feeds(3, 5)) == 0


_HEAD = '<ir_version: 10, opset_import: ["" : 20]> agraph '


@pytest.mark.parametrize(
    ("text", "expands"),
    [
        ("(float[1, n] x, float[m, n] z) => (float[m, n] y) {s = Shape(z) e = Expand(x, s) y = Add(e, z)}", 0),
        (
            "(float[1, n] x, float[m, n] z) => (float[m, n] y){s = Shape(z) e = Expand(x, s) w = Neg(e) y = Add(w, z)}",
            0,
        ),
        # Nothing else has the size: it is needed.
        ("(float[1, n] x, float[m, n] z) => (float[m, n] y) {s = Shape(z) e = Expand(x, s) y = Neg(e)}", 1),
        ("(float[1, n] x, float[m, n] z) => (float[m, n] y) {s = Shape(z) e = Expand(x, s) y = Softmax(e)}", 1),
        # Of two that lean on each other one must stay, and so must one that leans on itself.
        (
            "(float[1, n] x, float[1, n] w, float[m, n] z) => (float[m, n] y)"
            "{s = Shape(z) e = Expand(x, s) f = Expand(w, s) y = Add(e, f)}",
            1,
        ),
        (
            "(float[1, n] x, float[m, n] z) => (float[m, n] y){s = Shape(z) e = Expand(x, s) f = Neg(e) y = Add(e, f)}",
            1,
        ),
    ],
)
def test_an_expand_goes_where_another_operand_has_its_size(text: str, expands: int, tmp_path: Path) -> None:
    model = parsed(tmp_path, _HEAD + text)
    result = apply(Clean, model, tmp_path)
    assert operators(result.model).count("Expand") == expands
    rng = np.random.default_rng(0)
    sizes = {"x": (1, 3), "w": (1, 3), "z": (4, 3)}
    feeds = {one.name: rng.standard_normal(sizes[one.name], np.float32) for one in model.inputs}
    assert relative_l2(model, result.model, feeds) == 0


def test_a_target_that_is_chosen_by_another_number_than_minus_one_stays(tmp_path: Path) -> None:
    """``Where(s == 1, 5, s)`` is not how exporters spell a size of their own."""
    text = """(float[1, n] x) => (float[a, b] y) <int64 one = {1}, int64[2] fives = {5, 5}> {
        s = Shape(x) test = Equal(s, one) target = Where(test, fives, s) e = Expand(x, target) y = Neg(e) }"""
    model = parsed(tmp_path, _HEAD + text)
    result = apply(Clean, model, tmp_path)
    assert relative_l2(model, result.model, {"x": np.ones((1, 7), np.float32)}) == 0
