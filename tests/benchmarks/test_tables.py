"""The tables of README.md and RESULTS.md: what they are made of, and what may not stand in them."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> Any:
    """The modules of benchmarks/table by name."""
    before, known = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(ROOT / "benchmarks" / "table"))
    import apart
    import page
    import paragraphs
    import pictures
    import plan
    import rows

    class Modules:
        pass

    for one in (apart, page, paragraphs, pictures, plan, rows):
        setattr(Modules, one.__name__, one)
    yield Modules
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if str(ROOT / "benchmarks") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def samples(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"ids": np.array([[first + i, 7]]), "mask": np.ones((1, 2))} for i in range(count)]


def test_sets_that_are_apart_are_counted(table: Any) -> None:
    found = table.apart.check_apart(samples(16), samples(8, first=16))
    assert (found["calibration"]["samples"], found["judging"]["samples"]) == (16, 8)
    assert found["calibration"]["sha256"] != found["judging"]["sha256"]


def test_a_judging_sample_that_tools_calibrated_on_is_an_error(table: Any) -> None:
    judging = [*samples(7, first=16), samples(1, first=5)[0]]
    with pytest.raises(table.apart.SamplesOverlapError, match="judging sample 7 is calibration sample 5"):
        table.apart.check_apart(samples(16), judging)


def test_the_old_rotation_of_eight_sentences_is_an_error(table: Any) -> None:
    sentences = np.arange(8)
    rotated = [{"ids": np.array([[sentences[(k + i) % 8] for i in range(12)]])} for k in range(9)]
    with pytest.raises(table.apart.SamplesOverlapError):
        table.apart.check_apart(rotated[1:], [rotated[0], *samples(8)])


def test_equal_or_few_judging_samples_are_an_error(table: Any) -> None:
    with pytest.raises(table.apart.SamplesOverlapError, match="judging samples 0 and 8 are equal"):
        table.apart.check_apart(samples(8), [*samples(8, first=8), samples(1, first=8)[0]])
    with pytest.raises(table.apart.SamplesOverlapError, match="7 judging samples"):
        table.apart.check_apart(samples(8), samples(7, first=8))


def test_paragraphs_for_calibration_and_judging_are_others(table: Any) -> None:
    halves = [table.paragraphs.paragraphs(judged) for judged in (False, True)]
    assert len(set(halves[0])) == len(halves[0]) >= 16
    assert len(set(halves[1])) == len(halves[1]) >= 8
    assert not set(halves[0]) & set(halves[1])


def contender(tool: str, setting: str, drift: float, **more: Any) -> dict[str, Any]:
    known = {"key": f"{tool}|{setting}", "tool": tool, "label": tool, "setting": setting, "drift": drift}
    return {**known, "where": "y", "kind": "ort", "seconds": 3.0, "quick_ratio": 0.5, "unchanged": False, **more}


def kept(contenders: list[dict[str, Any]], ratios: dict[str, float]) -> dict[str, Any]:
    """A result as bench.py keeps it: two races of three rounds."""
    base = [10.0, 11.0, 10.5]
    rounds = {"original": base} | {key: [value * one for one in base] for key, value in ratios.items()}
    races = [{"rounds_ms": rounds, "errors": {}, "others": 0.01}] * 2
    known: dict[str, Any] = {"class": "AVX9", "machine": "a machine", "date": "2026-11-27", "versions": ["x 1"]}
    apart = {name: {"samples": 8, "sha256": "0"} for name in ("calibration", "judging")}
    return {**known, "part": "readme", "samples": apart, "contenders": contenders, "races": races}


def minilm(table: Any, ours: float, theirs: float, drift: float = 0.05) -> Any:
    contenders = [
        contender("optim", "0.1, target cpu", drift, status="improved"),
        contender("ort-dynamic", "defaults", 0.08),
        contender("ort-static", "QDQ", 3.0),
        contender("onnxslim", "defaults", 0.0, unchanged=True),
        contender("onnxsim", "defaults", 0.0, error="it crashed"),
    ]
    ratios = {"optim|0.1, target cpu": ours, "ort-dynamic|defaults": theirs, "ort-static|QDQ": 0.2}
    return table.rows.result(table.plan.MODELS["minilm"], kept(contenders, ratios))


def test_the_best_peer_is_the_fastest_within_the_budget(table: Any) -> None:
    one = minilm(table, 0.4, 0.6)
    assert one.best_peer("0.1").contender["tool"] == "ort-dynamic"
    assert one.fastest_peer().contender["tool"] == "ort-static"
    assert one.of_optim("0.1", "cpu").ratio == pytest.approx(0.4)
    assert table.rows.losses([one]) == []


def test_a_peer_that_is_ahead_is_told(table: Any) -> None:
    (lost,) = table.rows.losses([minilm(table, 0.7, 0.6)])
    assert (lost.budget, lost.target, lost.is_clear) == ("0.1", "cpu", True)
    assert "| 0.1 | cpu | 0.70 (0.70 to 0.70) | ort-dynamic | 0.60 (0.60 to 0.60) | yes |" in table.page.loss_line(lost)


def test_what_optim_delivers_beyond_its_budget_is_told_and_counts_as_lost(table: Any) -> None:
    one = minilm(table, 0.4, 0.6, drift=0.3)
    (lost,) = table.rows.losses([one])
    assert lost.is_clear and len(table.rows.beyond([one])) == 1
    assert "drift 0.3, beyond the limit" in table.page.ours(one.of_optim("0.1", "cpu"))


def test_a_result_without_a_change_is_called_so_and_is_no_best_peer(table: Any) -> None:
    one = minilm(table, 0.4, 0.6)
    page = table.page.page({"AVX9": [one]})
    assert "- onnxslim: changed nothing (defaults)" in page
    assert "- onnxsim: `it crashed` (defaults)" in page
    assert "- PyTorch compile: not taken" in page


def test_only_changed_models_race_and_each_tool_has_its_best(table: Any) -> None:
    found = [
        contender("optim", "0.1, target cpu", 0.0),
        contender("slow", "a", 0.01, quick_ratio=0.9),
        contender("slow", "b", 0.02, quick_ratio=0.7),
        contender("slow", "c", 5.0, quick_ratio=0.3),
        contender("slow", "d", 6.0, quick_ratio=0.4),
        contender("same", "a", 0.0, unchanged=True),
    ]
    chosen = table.rows.chosen_for_race(found, {}, table.plan.MODELS["minilm"])
    assert chosen == {"optim|0.1, target cpu", "slow|a", "slow|b", "slow|c"}


def test_a_result_that_is_made_anew_is_judged_and_timed_anew(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench

    def made(self: Any, budget: str, target: str, out: Path) -> None:
        out.mkdir(parents=True)
        (out / "run.json").write_text(json.dumps({"key": f"optim|{budget}, target {target}"}))

    monkeypatch.setattr(table.plan, "WORK", tmp_path)
    monkeypatch.setattr(bench.Taken, "run_optim", made)
    taken = bench.Taken(table.plan.MODELS["magika"], "readme", 1e9, again=False, tiny=False)
    known = {"optim|0.1, target cpu": {"drift": 0.0}, "optim|0.5, target cpu": {"drift": 0.0}, "nncf|mixed": {}}
    (taken.work / "judged.json").write_text(json.dumps(known))
    (taken.work / "races.json").write_text("{}")
    taken.runs(["default"])
    assert json.loads((taken.work / "judged.json").read_text()).keys() == {"optim|0.5, target cpu", "nncf|mixed"}
    assert not (taken.work / "races.json").exists()


def test_pictures_are_well_formed_and_labels_do_not_overlap(table: Any) -> None:
    one = minilm(table, 0.41, 0.42)
    contenders = [contender("ort-dynamic", f"setting {i}", 0.05 / (i + 1)) for i in range(12)]
    ratios = {line["key"]: 0.4 + 0.001 * i for i, line in enumerate(contenders)}
    crowded = table.rows.result(one.model, kept(contenders, ratios))
    for theme in table.pictures.THEMES.values():
        for drawn in (table.pictures.bars([one], theme), table.pictures.scatter([one, crowded], theme)):
            assert ElementTree.fromstring(drawn).tag.endswith("svg")
    boxes = [box for _, box in table.pictures.labels(crowded.rows)]
    assert len(boxes) == 12
    pairs = [(one, other) for i, one in enumerate(boxes) for other in boxes[:i]]
    assert not any(table.pictures.overlap(*pair) for pair in pairs)
    points = [table.pictures.place(row) for row in crowded.rows]
    assert not any(left < x < right and top < y < bottom for left, top, right, bottom in boxes for x, y in points)


def test_a_bar_is_grey_where_the_limit_is_broken(table: Any) -> None:
    lines = table.pictures.bars_of(minilm(table, 0.4, 0.6))
    assert [broken for _, _, broken in lines] == [False, False, True, False]
    drawn = table.pictures.bars([minilm(table, 0.4, 0.6)], table.pictures.LIGHT)
    assert drawn.count(f'fill="{table.pictures.LIGHT.broken}"') == 1


def test_a_run_of_optim_without_a_result_has_its_line_in_the_bars(table: Any) -> None:
    missed = contender("optim", "0.1, target cpu", 0.0, error="budget-missed: no model within the budget")
    one = table.rows.result(table.plan.MODELS["minilm"], kept([missed], {}))
    assert "budget-missed: no model within the budget" in table.pictures.bars([one], table.pictures.LIGHT)


def test_pages_are_what_the_raw_results_make(table: Any) -> None:
    found = table.rows.results()
    assert (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8") == table.page.page(found)
    assert (ROOT / "benchmarks" / "readme_table.md").read_text(encoding="utf-8") == table.page.readme_table(found)


def test_the_table_of_the_readme_is_that_of_the_raw_results(table: Any) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.page.check_readme(readme) == table.page.readme_table(table.rows.results()).strip()


def test_the_gate_of_the_tables_is_that_of_optim(table: Any) -> None:
    from judge import Gate

    from optim.drift import compare_outputs

    random = np.random.default_rng(0)
    expected = [[random.normal(size=(1, 6)), random.normal(size=(1, 3, 4)) + 50] for _ in range(8)]
    found = [[array + 0.1 * random.normal(size=array.shape) for array in outputs] for outputs in expected]
    pairs = [
        tuple(dict(zip("ab", outputs, strict=True)) for outputs in pair) for pair in zip(expected, found, strict=True)
    ]
    wanted = max(one.relative_error for one in compare_outputs(pairs))
    assert 0.05 < wanted == Gate(["a", "b"], expected).worst(found)["drift"]


def test_budgets_and_models_are_those_that_are_asked_for(table: Any) -> None:
    trained = [table.plan.MODELS[name] for name in table.plan.PARTS["trained"]]
    assert len(trained) >= 10
    assert len({model.family for model in trained}) >= 4
    assert len({table.plan.MODELS[name].family for name in table.plan.README}) == 4
    assert all(table.plan.DEFAULT in model.budgets and "lossless" in model.budgets for model in trained)
    help_text = (ROOT / "docs" / "what-drift-means.md").read_text(encoding="utf-8")
    assert re.search(rf"default, {re.escape(table.plan.DEFAULT)}\b", help_text)


def test_a_turn_begins_after_a_rest_and_its_first_run_does_not_count(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import race

    runs, rests = iter([9.0, 0.25, 0.25, 0.5]), []
    monkeypatch.setattr(race, "one_run", lambda process: next(runs))
    monkeypatch.setattr(race.time, "sleep", rests.append)
    assert race.one_turn(table, 20, 0.4) == 0.25
    assert rests == [race.REST_S]


def test_a_race_counts_only_where_other_programs_left_the_machine_alone(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench
    import others

    seconds, cores = iter([0.0, 10.0] * 5), 2
    monkeypatch.setattr(others.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(others.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(others, "_own_s", lambda: 0.0)
    busy = iter([0.0, 0.5, 0.0, 4.0, 0.0, 0.2, 0.0, 4.0, 0.0, 4.0])
    monkeypatch.setattr(others, "_busy_s", lambda: next(busy))
    taken = object.__new__(bench.Taken)
    taken.tiny = False
    assert taken.undisturbed(dict, "race") == {"others": 0.025}
    assert taken.undisturbed(dict, "race") == {"others": 0.01}  # the second try
    with pytest.raises(bench.OutOfTimeError):
        taken.undisturbed(dict, "race")
