"""What verify says beside one figure: the worst slice and sample, the share that differs, and what was not judged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import optim
from optim._engine.cli.main import main
from optim._engine.locks import acquire
from optim._engine.search.turns import CLOCK, Turns
from optim.errors import ExitStatus, OptimError

ROWS, WIDTH, SAMPLES = 16, 10, 6


def written(path: Path, *, factor: str = "1, 1, 1, 1, 1, 1, 1, 1, 1, 1", moved: int = 0, constant: str = "") -> Path:
    """A model with scores, whole numbers of which the first ``moved`` are other ones, and maybe a constant output."""
    offset = ", ".join("1" if place < moved else "0" for place in range(WIDTH))
    ends = f", float[1] {constant}" if constant else ""
    model = parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[{ROWS}, {WIDTH}] x) => (float[{ROWS}, {WIDTH}] logits, int64[{ROWS}, {WIDTH}] ids{ends})
        <float[{WIDTH}] factor = {{{factor}}}, float[{WIDTH}] offset = {{{offset}}}, float[1] one = {{1}}> {{
            logits = Mul(x, factor)
            rounded = Round(x)
            moved = Add(rounded, offset)
            ids = Cast<to = 7>(moved)
            {f"{constant} = Identity(one)" if constant else ""}
        }}""")
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    written(folder / "one.onnx")
    written(folder / "moved.onnx", moved=1)
    written(folder / "column.onnx", factor="1, 1, 1, 1.4, 1, 1, 1, 1, 1, 1")
    written(folder / "with-constant.onnx", constant="k")
    written(folder / "with-another.onnx", constant="k", factor="1.000001, 1, 1, 1, 1, 1, 1, 1, 1, 1")
    rng = np.random.default_rng(0)
    x = 10 * rng.standard_normal((SAMPLES, ROWS, WIDTH)).astype(np.float32)
    x[:, :, 3] += 60.0  # always the largest score
    x[4, :, 3] += 40.0  # where a wrong column 3 shows most
    np.savez(folder / "feeds.npz", **{f"{number}/x": one for number, one in enumerate(x)})
    return folder


@pytest.fixture
def verify(models: Path, capsys: pytest.CaptureFixture[str], jobs_here: None):
    """Call the command, and return its exit status and what it printed."""

    def call(one: str, other: str, *words: str) -> tuple[int, str]:
        command = ["verify", str(models / one), str(models / other), "--data", str(models / "feeds.npz"), *words]
        status = main(command)
        return status, capsys.readouterr().out

    return call


def test_whole_numbers_are_equal_unless_the_user_accepts_a_share_of_mismatches(verify) -> None:
    status, text = verify("one.onnx", "moved.onnx")
    assert status == ExitStatus.NOT_HELD
    assert "10.00% of output 'ids' differ; none may differ" in text
    status, text = verify("one.onnx", "moved.onnx", "--max-mismatch", "5%")
    assert status == ExitStatus.NOT_HELD
    assert "--max-mismatch accepts 5.00%" in text
    for share in ("0.1", "10%"):
        status, text = verify("one.onnx", "moved.onnx", "--max-mismatch", share)
        assert status == ExitStatus.DELIVERED
        assert "10 % differ" in text


def test_a_mismatch_that_the_user_accepts_is_no_drift(verify) -> None:
    words = ("--max-drift", "0.01", "--json")
    drifts = []
    for share in ("5%", "10%"):
        status, text = verify("one.onnx", "moved.onnx", "--max-mismatch", share, *words)
        found = json.loads(text)
        ids = found["outputs"][1]
        assert ids["mismatched"] == pytest.approx(0.1)
        assert (status == ExitStatus.DELIVERED) == ids["accepted"]
        drifts.append((found["drift"]["relative_error"], found["drift"]["at"]))
    assert drifts == [(pytest.approx(0.1), "output 'ids', 10 % of which differ"), (0.0, "")]


def test_floats_have_no_share_of_mismatches_that_could_be_accepted(verify) -> None:
    status, _ = verify("one.onnx", "column.onnx", "--max-mismatch", "50%")
    assert status == ExitStatus.NOT_HELD


def test_the_verdict_names_the_slice_and_the_row_the_sample(verify) -> None:
    _, text = verify("one.onnx", "column.onnx", "--max-drift", "5")
    *rows, verdict = text.splitlines()
    assert verdict.startswith("within the limit of 5: drift ")
    assert "at output 'logits', column 3 (rounding" in verdict
    assert any(row.startswith("logits") and "column 3, sample 4" in row for row in rows)
    assert any("top 1 stays in 100 % of rows" in row for row in rows)


def test_what_is_printed_is_in_json_too(verify) -> None:
    _, text = verify("one.onnx", "column.onnx", "--json")
    found = json.loads(text)
    logits, ids = found["outputs"]
    assert found["drift"]["at"] == "output 'logits', column 3"
    assert (logits["where"], logits["sample"], logits["each"].index(max(logits["each"]))) == ("column 3", "sample 4", 4)
    assert logits["above"]["0.1"] > 0
    assert (ids["mismatched"], ids["max_abs"], ids["cosine"]) == (0, None, None)


def test_an_output_that_samples_cannot_judge_is_said_to_be_not_judged(verify) -> None:
    status, text = verify("with-constant.onnx", "with-another.onnx")
    assert status == ExitStatus.NOT_HELD
    assert text.splitlines()[-1].startswith(
        "not judged: output 'k': it is one number on all samples; give --data on which this output differs"
    )


def test_one_file_beside_itself_is_judged(verify) -> None:
    status, text = verify("with-constant.onnx", "with-constant.onnx")
    assert status == ExitStatus.DELIVERED
    assert "not judged" not in text
    assert "equal up to rounding" in text


@pytest.mark.parametrize("share", ["1", "100%", "-0.1", "nan", "some"])
def test_a_share_that_cannot_be_one_is_refused_with_an_example(models: Path, share: str) -> None:
    with pytest.raises(OptimError) as caught:
        optim.verify(models / "one.onnx", models / "moved.onnx", max_mismatch=share)
    assert (caught.value.reference, caught.value.fix) == ("bad-budget", "--max-mismatch 1%")
    assert caught.value.what == f"--max-mismatch cannot be {share}"


def test_a_run_keeps_the_share_in_its_report_its_card_and_its_lock(
    models: Path, tmp_path: Path, jobs_here: None
) -> None:
    from optim._engine.api.request import settings_from

    report = optim.run(models / "one.onnx", tmp_path / "out", max_mismatch="1%", search_seconds=0)
    assert report.budget.max_mismatch == 0.01
    assert "1 % of texts or whole numbers that differ" in (tmp_path / "out" / "README.md").read_text()
    lock = tmp_path / "out" / "recipe.lock.toml"
    repeated, _ = settings_from(models / "one.onnx", None, lock, {}, trust_code=False)
    assert repeated.max_mismatch == 0.01
    assert repeated.budget(1e-4).max_mismatch == 0.01
    recipe = {"budget": {"max_mismatch": "2%"}}
    asked, _ = settings_from(models / "one.onnx", None, recipe, {}, trust_code=False)
    assert asked.max_mismatch == 0.02


def test_verify_does_not_wait_for_another_run_that_is_timing(verify, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Turns.__init__

    def impatient(turns: Turns, *given, **named) -> None:
        wait(turns, *given, **named)
        turns.most_wait_s = 0.0

    monkeypatch.setattr(Turns, "__init__", impatient)
    lock = acquire(CLOCK, "another run", wait_s=5.0)
    try:
        status, text = verify("one.onnx", "one.onnx")
    finally:
        lock.release()
    assert status == 0, text
