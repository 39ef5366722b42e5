"""Results of other tools, and of all passes on onnx's backend models, judged at the default budget.

    python benchmarks/gate/judged_again.py --work FOLDER            # nine models, made where FOLDER/peers lacks them
    python benchmarks/gate/judged_again.py --work FOLDER --suite    # the sample of tests/suite: lossy passes, a minute
    python benchmarks/gate/judged_again.py --work FOLDER --table    # what is in FOLDER
    python benchmarks/gate/judged_again.py --results                # the results behind RESULTS.md, at once

Each result is verified as ``optim verify`` does, with the samples of the task that nothing was calibrated on
(default_budget.py describes models and tasks). What is refused answers its task, beside the original.
Results are kept in FOLDER, one line for each; an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from commands import say
from curve import peer, run
from default_budget import MODELS, SAMPLES, kept, kept_orders, np, unseen
from mutations import HARMLESS, Subject, digest_of_the_gate, judging, wheel

JUDGED = ("minilm", "digits-cnn", "magika", "nudenet", "ocr-rec", "ocr-cls", "dnsmos", "basic-pitch", "swift-f0")
PEERS = ("ort-8-bits", "ort-dynamic-best", "ort-static-best")
OPTIM = "optim"
RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True)
class Result:
    """What became of one result.

    Attributes:
        gate: digest of the gate's code.
        model: name.
        by: who made it.
        verdict: ``equal``, ``within``, ``refused``, ``not judged`` or ``error``.
        text: what verify says.
        same: answers of the task as before; 0 if it was not asked.
        answers: of the task; 0 if it was not asked.
    """

    gate: str
    model: str
    by: str
    verdict: str
    text: str
    same: int = 0
    answers: int = 0


def main() -> int:
    """Judge, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="environment, models and results, kept")
    parser.add_argument("--results", nargs="?", type=Path, const=RESULTS, help="read the results of bench.py there")
    parser.add_argument("--only", nargs="+", choices=JUDGED, default=list(JUDGED))
    parser.add_argument("--by", nargs="+", choices=(*PEERS, OPTIM), default=[*PEERS, OPTIM])
    parser.add_argument("--search-seconds", default="30", help="of each run of optim")
    parser.add_argument("--suite", action="store_true", help="judge the passes on onnx's backend models")
    parser.add_argument("--table", action="store_true", help="print the tables alone")
    chosen = parser.parse_args()
    if chosen.results:
        print("\n".join(results_table(sorted(chosen.results.glob("*/*.json")))))
        return 0
    if chosen.work is None:
        parser.error("give --work or --results")
    work = chosen.work.resolve()
    os.environ["OPTIM_CACHE_DIR"] = str(work / "store")
    if chosen.suite:
        print("\n".join(suite_table()))
        return 0
    file, gate = work / "judged.jsonl", digest_of_the_gate()
    done = [Result(**json.loads(line)) for line in file.read_text().splitlines()] if file.is_file() else []
    done = [one for one in done if one.gate == gate]
    if not chosen.table:
        known = {(one.model, one.by) for one in done}
        for name in chosen.only:
            for by in chosen.by:
                if (name, by) not in known and (result := judged(name, by, gate, chosen, work)) is not None:
                    done.append(result)
                    with file.open("a") as stream:
                        stream.write(json.dumps(asdict(result)) + "\n")
    print("\n".join(table(done)))
    return 0


def judged(name: str, by: str, gate: str, chosen: argparse.Namespace, work: Path) -> Result | None:
    """The verdict on one result; None if nobody made it."""
    subject = MODELS.get(name, wheel)(name, work)
    path = made(subject, by, chosen.search_seconds, work / "peers" / name)
    if path is None:
        return None
    samples = unseen(subject)[: SAMPLES.get(name)]
    with judging(subject, samples) as verified:
        verdict, text, _ = verified(path)
    same = answers = 0
    if verdict == "refused":
        before, after = subject.answers(subject.model), subject.answers(path)
        judge = (lambda: kept_orders(np.array(before), np.array(after))) if name == "dnsmos" else None
        same, answers = judge() if judge else kept(before, after)
    say(f"{name}: {by}: {text}; {same} of {answers} answers as before")
    return Result(gate, name, by, verdict, text, same, answers)


def made(subject: Subject, by: str, search_seconds: str, folder: Path) -> Path | None:
    """The file that somebody made of a model, made now if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    calib = subject.feeds if subject.feeds.name != "unseen.npz" else subject.feeds.with_name("calib.npz")
    if by == OPTIM:
        path = folder / "optim-0.1" / "model.onnx"
        if not path.is_file():
            found = run(subject.model, calib, "0.1", search_seconds, folder)
            return path if found.path.is_dir() else None
        return path
    path = folder / by / "model.onnx"
    if not path.is_file():
        found = peer(by, subject.model, calib, folder)
        return None if found is None else found.path
    return path


def table(results: list[Result]) -> Iterator[str]:
    """Verdicts by model and maker, then what is refused, in markdown."""
    yield "| model | " + " | ".join((*PEERS, OPTIM)) + " |"
    yield "|---|" + "---|" * (len(PEERS) + 1)
    for name in JUDGED:
        own = {one.by: one for one in results if one.model == name}
        if own:
            yield f"| {name} | " + " | ".join(own[by].verdict if by in own else "" for by in (*PEERS, OPTIM)) + " |"
    yield ""
    yield "| model | made by | verify says | answers as before |"
    yield "|---|---|---|---|"
    for one in results:
        if one.verdict not in ("equal", "within"):
            loses = "" if one.same >= HARMLESS * one.answers else ", fewer than 99 %"
            yield f"| {one.model} | {one.by} | {one.text} | {one.same} of {one.answers}{loses} |"


def results_table(files: Iterable[Path]) -> Iterator[str]:
    """A table in markdown: the results of all tools behind RESULTS.md that the default budget refuses, by model."""
    from optim._engine.search.settings import DEFAULT_MAX_DRIFT

    yield f"| model, date | results | within {DEFAULT_MAX_DRIFT:g} | refused | drifts refused | answers as before |"
    yield "|---|---|---|---|---|---|"
    for file in files:
        told = json.loads(file.read_text())
        drifts = [one for one in told["contenders"] if one.get("drift") is not None]
        refused = sorted((one for one in drifts if one["drift"] > DEFAULT_MAX_DRIFT), key=lambda one: one["drift"])
        asked = [one for one in refused if one.get("answers", "not taken") != "not taken"]
        span = f"{refused[0]['drift']:.3g} to {refused[-1]['drift']:.3g}" if refused else ""
        kept = "; ".join(f"{' '.join(one['answers'].split()[:3])} at {one['drift']:.2g}" for one in asked)
        counts = f"{len(drifts)} | {len(drifts) - len(refused)} | {len(refused)}"
        yield f"| {told['model']}, {told['date']} | {counts} | {span} | {kept} |"


def suite_table() -> Iterator[str]:
    """How far lossy passes move onnx's backend models of the sample, by precision, in markdown."""
    from optim._engine.search.settings import DEFAULT_MAX_DRIFT
    from suite import trials, worker
    from suite.sample import SAMPLE

    found: list[tuple[str, float]] = []
    judge = trials._problem

    def kept_in_mind(subject: Any, path: Path, precision: str) -> str:
        try:
            found.append((precision or "lossless", trials.drift(subject.expected, trials.run(path, subject.samples))))
        except Exception:  # it is what the suite calls wrong
            found.append((precision or "lossless", float("nan")))
        return judge(subject, path, precision)

    trials._problem = kept_in_mind
    outcomes: Counter[str] = Counter()
    work = worker.Work(names=SAMPLE, thorough=False)
    for case in worker.cases_of(work):
        for result in worker.try_case(case, work, lambda *_: None, trials.model_passes()):
            outcomes[result.outcome] += 1
    yield ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    yield ""
    yield f"| numbers | changed models | within a drift of {DEFAULT_MAX_DRIFT:g} | refused | worst |"
    yield "|---|---|---|---|---|"
    for precision in sorted({one for one, _ in found}):
        drifts = [far for one, far in found if one == precision]
        within = sum(far <= DEFAULT_MAX_DRIFT for far in drifts)
        yield f"| {precision} | {len(drifts)} | {within} | {len(drifts) - within} | {max(drifts):.3g} |"


if __name__ == "__main__":
    sys.exit(main())
