"""optim and its peers on the same models: one command for a table, taken up again where it was interrupted.

    python benchmarks/bench.py readme                        # the table of README.md: four trained models, 12 minutes
    python benchmarks/bench.py trained --only minilm silero  # all tools and budgets on these; --minutes 15 ends sooner
    python benchmarks/bench.py trained --budgets default     # optim's default budget alone; the others later
    python benchmarks/bench.py random --only gpt2            # architectures with random weights
    python benchmarks/bench.py tables                        # RESULTS.md, README's table, pictures: from results/
    python benchmarks/bench.py                               # everything; hours

For each model: it is made, and its samples are checked to be apart; each peer tries its settings; optim runs; every
result is judged on samples that no tool saw; the fastest settings of each tool race with the original, in processes of
their own and in turns; last, the task's own answers are compared. Every step is kept in .cache/bench and not done
again, unless ``--again``. Results with all their rounds go to results/, a folder for each class of processor.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "table"))
import plan
from commands import fresh_run
from families import FAMILIES, Family
from machine import machine, versions
from make import WHEELS, made, torch_source
from others import MOST, Watch
from page import write_pages
from plan import HERE, PARTS, Effort, Model
from race import race
from rows import chosen_for_race, missing, result
from unchanged import changed_nothing, computes_in_floats

Contender = dict[str, Any]


class OutOfTimeError(Exception):
    """The minutes of this call are over, or other programs do not leave the machine alone."""


def main() -> int:
    """Take the parts that were asked for, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=(*PARTS, "all", "tables"), default="all")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="models of the part")
    parser.add_argument("--budgets", nargs="+", choices=plan.BUDGETS, default=plan.BUDGETS, help="of optim")
    parser.add_argument("--without", nargs="+", choices=FAMILIES, default=(), help="tools left for a later call")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further step after so many")
    parser.add_argument("--again", action="store_true", help="do also what was done already")
    parser.add_argument(
        "--tiny", action="store_true", help="try the command: seconds of search, one round; keep nothing"
    )
    chosen = parser.parse_args()
    deadline = time.monotonic() + 60 * chosen.minutes
    for part in () if chosen.part == "tables" else tuple(PARTS) if chosen.part == "all" else (chosen.part,):
        unknown = set(chosen.only or ()) - set(PARTS[part])
        if unknown and chosen.part != "all":
            parser.error(f"{part} has no {', '.join(sorted(unknown))}; it has {', '.join(PARTS[part])}")
        for name in PARTS[part]:
            if chosen.only and name not in chosen.only:
                continue
            if plan.MODELS[name].source in ("decoder", "export") and not installed("torch"):
                continue
            try:
                taken = Taken(plan.MODELS[name], part, deadline, again=chosen.again, tiny=chosen.tiny)
                taken.take(chosen.budgets, chosen.without)
            except OutOfTimeError:
                print(f"{name}: the minutes are over, or the machine is busy; the same command goes on from here")
                break
    if chosen.tiny:
        return 0
    write_pages()
    for line in missing():
        print(line)
    return 0


class Taken:
    """One model in one part."""

    def __init__(self, model: Model, part: str, deadline: float, *, again: bool, tiny: bool) -> None:
        self.model, self.part, self.deadline, self.tiny = model, part, deadline, tiny
        self.effort = (
            Effort((("0.1", "cpu"),), 15, 5, slow=False, races=1, rounds=3) if tiny else plan.effort(part, model)
        )
        self.work = plan.work_folder(model) if not tiny else plan.WORK / "tiny" / model.name
        if again:
            shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()

    def take(self, budgets: Sequence[str], without: Collection[str]) -> None:
        """All steps; the result is kept. Results of earlier calls count too, also of other budgets and tools."""
        self.step("originals")
        samples = made(self.model, tiny=self.tiny)
        found = self.peers(without) + self.runs(budgets)
        judged = self.judge(found)
        racing = chosen_for_race(found, judged, self.model)
        raced = self.race([one for one in found if one["key"] in racing])
        asked = racing if self.effort.slow else shown(found, judged, raced)
        answers = self.answers([one for one in found if one["key"] in asked])
        if not self.tiny:
            self.keep(samples, found, judged, raced, answers)
        print(f"{self.model.name}: {time.monotonic() - self.began:.0f} s", flush=True)

    def step(self, name: str) -> None:
        """A step begins, if there is time.

        Raises:
            OutOfTimeError: there is none.
        """
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        print(f"{time.strftime('%H:%M:%S')} {self.model.name}: {name}", flush=True)

    def peers(self, without: Collection[str]) -> list[Contender]:
        """Every setting of every peer that takes part, or that took part before."""
        found: list[Contender] = []
        for name, family in FAMILIES.items():
            out = self.work / name
            if not (out / "tries.json").is_file():
                if name in without or (family.slow and not self.effort.slow) or not installed(name):
                    continue
                self.step(family.label)
                self.forget(f"{name}|")
                self.try_settings(name, family, out)
            found += self.contenders(name, family, json.loads((out / "tries.json").read_text()))
        return found

    def try_settings(self, name: str, family: Family, out: Path) -> None:
        """Run a tool with all its settings."""
        model, limit = self.model, max(self.effort.tool_s, 120) if family.slow else self.effort.tool_s
        known = ["--type", model.kind, "--heads", str(model.heads), "--hidden", str(model.hidden)]
        command = [sys.executable, str(HERE / "peers" / "families.py"), name, str(model.path), str(out)]
        out.mkdir(parents=True, exist_ok=True)
        with (out / "log.txt").open("w") as log:
            words = [*command, "--calib", str(model.calib), *known, "--limit", str(limit)]
            process = subprocess.Popen(words, stdout=log, stderr=log, cwd=out, env={**os.environ, "NNCF_CI": "1"})
            try:
                process.wait(3 * limit + 60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not (out / "tries.json").is_file():
            said = (out / "log.txt").read_text(errors="replace").strip().splitlines()
            failed = [{"setting": "all", "error": (said or ["it crashed"])[-1][:200]}]
            (out / "tries.json").write_text(json.dumps(failed))

    def contenders(self, name: str, family: Family, tries: list[dict[str, Any]]) -> list[Contender]:
        """Returns the contenders: each model that was made, once for each runtime that opens it."""
        found = []
        for one in tries:
            how = one.pop("opened", {})
            if how.get("kind") == "torch" and not torch_source(self.model):
                one["error"] = "no torch module of this model is at hand"
            for runtime in (how["kind"],) if how else family.runtimes:
                setting = one["setting"] + (", on onnxruntime" if runtime == "ort" and len(family.runtimes) > 1 else "")
                entry = {**one, **how, "kind": runtime, "tool": name, "label": family.label, "setting": setting}
                entry.setdefault("path", str(self.model.path))
                if runtime == "torch":
                    entry["source"] = torch_source(self.model)
                found.append({**entry, "key": f"{name}|{setting}"})
        return found

    def runs(self, budgets: Sequence[str]) -> list[Contender]:
        """Runs optim for each budget, each time with an empty cache."""
        found = []
        wanted = {self.effort.runs[0][0] if self.tiny else self.model.budgets[plan.BUDGETS.index(b)] for b in budgets}
        asked = [run for run in self.effort.runs if run[0] in wanted]
        done = [
            tuple(path.parent.name.removeprefix("optim-").split("_")) for path in self.work.glob("optim-*/run.json")
        ]
        for budget, target in [*asked, *(one for one in done if one not in asked)]:
            out = self.work / f"optim-{budget}_{target}"
            if not (out / "run.json").is_file():
                self.step(f"optim, {budget}, target {target}")
                self.forget(f"optim|{budget}, target {target}")
                self.run_optim(budget, target, out)
            found.append(json.loads((out / "run.json").read_text()))
        return found

    def run_optim(self, budget: str, target: str, out: Path) -> None:
        """One run."""
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        limit = ["--lossless"] if budget == plan.LOSSLESS else ["--max-drift", budget]
        words = [*limit, "--target", target, "--search-seconds", str(self.effort.search_s)]
        report, seconds = fresh_run(
            str(self.model.path), "-o", str(out / "out"), "--data", str(self.model.calib), *words
        )
        setting = f"{budget}, target {target}"
        entry = {"key": f"optim|{setting}", "tool": "optim", "label": "optim", "setting": setting, "seconds": seconds}
        entry |= {"kind": "folder", "path": str(out / "out"), "search_s": self.effort.search_s, "commit": commit()}
        if "error" in report:
            entry["error"] = str(report["error"]["what"])[:200]
        elif not report["result"]:
            entry["error"] = f"{report['status']}: no model within the budget"
        else:
            kept = [step["pass"] for step in report["steps"] if step["status"] == "kept"]
            entry |= {"status": report["status"], "passes": kept}
        (out / "run.json").write_text(json.dumps(entry))

    def forget(self, begin: str) -> None:
        """Drops what is known of results whose keys begin so: they are about to be made anew."""
        for path in (self.work / "judged.json", self.work / "answers.json"):
            if path.is_file():
                known = json.loads(path.read_text())
                path.write_text(json.dumps({key: one for key, one in known.items() if not key.startswith(begin)}))
        (self.work / "races.json").unlink(missing_ok=True)

    def judge(self, found: list[Contender]) -> dict[str, Any]:
        """Drift on the judging samples, and a quick time, by key."""
        path = self.work / "judged.json"
        known = json.loads(path.read_text()) if path.is_file() else {}
        if left := [one for one in found if "error" not in one and one["key"] not in known]:
            self.step(f"judging {len(left)} results")
            try:
                self.undisturbed(partial(self.in_judge, left, path, "", known), "first look")
            except OutOfTimeError:
                path.write_text(json.dumps(known))
                raise
            known = json.loads(path.read_text())
            for one in left:
                if one["kind"] == "ort" and "error" not in known[one["key"]]:
                    made_of_it = Path(one["path"])
                    idle = FAMILIES[one["tool"]].quantizes and computes_in_floats(made_of_it)
                    known[one["key"]]["unchanged"] = idle or changed_nothing(self.model.path, made_of_it)
            path.write_text(json.dumps(known))
        return known

    def in_judge(self, contenders: list[Contender], path: Path, task: str, known: dict[str, Any]) -> dict[str, Any]:
        """Run judge.py until each contender has an answer, also one that crashes it. Returns all answers."""
        path.write_text(json.dumps(known))
        asked = self.work / "asked.json"
        what = {"model": str(self.model.path), "judged": str(self.model.judged), "contenders": contenders, "task": task}
        asked.write_text(json.dumps(what))
        command = [sys.executable, str(HERE / "table" / "judge.py"), str(asked), str(path)]
        for _ in contenders:
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                return json.loads(path.read_text())
        known = json.loads(path.read_text())
        for one in contenders:
            known.setdefault(one["key"], {"error": "it could not be judged"})
        path.write_text(json.dumps(known))
        return known

    def race(self, contenders: list[Contender]) -> list[dict[str, Any]]:
        """Races in fresh processes; taken anew where the contenders are others."""
        path = self.work / "races.json"
        keys = sorted(one["key"] for one in contenders)
        known = json.loads(path.read_text()) if path.is_file() else {}
        timed = self.model.path, self.model.judged
        races: list[dict[str, Any]] = known.get("races", []) if known.get("keys") == keys else []
        for number in range(len(races), self.effort.races):
            self.step(f"race {number + 1} of {self.effort.races}, {len(contenders)} results beside the original")
            races.append(self.undisturbed(partial(race, *timed, contenders, self.effort.rounds, number), "race"))
            path.write_text(json.dumps({"keys": keys, "races": races}))
        return races

    def undisturbed(self, timed: Callable[[], dict[str, Any]], what: str) -> dict[str, Any]:
        """The result of a race or of a first look, with the share of the processors that other programs took meanwhile.

        Raises:
            OutOfTimeError: they took too much, twice.
        """
        for _ in range(2):
            watch = Watch()
            found = {**timed(), "others": round(watch.others(), 3)}
            if found["others"] <= MOST or self.tiny:
                return found
            print(f"other programs took {100 * found['others']:.0f} % of the processors: this {what} does not count")
        raise OutOfTimeError

    def answers(self, contenders: list[Contender]) -> dict[str, str]:
        """Returns the task's answers with each of these models, by key."""
        path = self.work / "answers.json"
        known: dict[str, str] = json.loads(path.read_text()) if path.is_file() else {}
        left = [one for one in contenders if one["key"] not in known]
        if left and self.model.source == "wheel":
            self.step(f"answers of the library with {len(left)} results")
            known |= library_answers(self.model, left)
        elif left and self.model.source in ("minilm", "decoder"):
            self.step(f"answers with {len(left)} results")
            judged = self.work / "judged-answers.json"
            found = self.in_judge(left, judged, self.model.source, {})
            known |= {key: one.get("answers", "not taken") for key, one in found.items()}
        path.write_text(json.dumps(known))
        return known

    def keep(
        self, samples: dict[str, Any], found: list[Contender], judged: dict[str, Any], raced: list[Any], answers: Any
    ) -> None:
        """Write the result."""
        base = self.model.path.stat().st_size
        lines = []
        for one in found:
            line = {name: one[name] for name in KEPT if name in one} | judged.get(one["key"], {})
            line["seconds"] = round(one.get("seconds", 0.0), 1)
            if "error" not in line and one["kind"] != "torch":
                line["size"] = round(size_bytes(Path(one["path"])) / base, 3)
            if one["key"] in answers:
                line["answers"] = answers[one["key"]]
            lines.append({name: rounded(value) for name, value in line.items()})
        known: dict[str, Any] = {"model": self.model.name, "class": plan.processor_class(), "machine": machine()}
        known |= {"date": date.today().isoformat(), "versions": versions(), "part": self.part, "samples": samples}
        known |= {"contenders": lines, "races": raced}
        path = plan.result_path(self.model)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=1).replace(f"{HERE.parent}/", "") + "\n")  # errors name files here


def shown(found: list[Contender], judged: dict[str, Any], raced: list[Any]) -> set[str]:
    """Keys of what README.md shows: optim's rows, the best peer within the default budget, the fastest peer."""
    kept = {"races": raced, "contenders": [one | judged.get(one["key"], {}) for one in found]}
    here = result(plan.MODELS["minilm"], kept)
    rows = [*here.ours, here.best_peer(plan.DEFAULT), here.fastest_peer()]
    return {row.contender["key"] for row in rows if row is not None}


def installed(tool: str) -> bool:
    """Whether a tool that has an environment of its own has it; else it is said."""
    python = {"olive": plan.OLIVE, "inc": plan.INC}.get(tool, Path(sys.executable))
    if python.is_file() and (not tool.startswith("torch") or importlib.util.find_spec("torch") is not None):
        return True
    print(f"{tool} is not installed: make bench-peers installs it")
    return False


KEPT = ("key", "tool", "label", "setting", "error", "search_s", "status", "passes", "kind", "commit")


def commit() -> str:
    """Returns the commit of the working tree; empty outside a repository."""
    words = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def rounded(value: Any) -> Any:
    """Floats with four digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def size_bytes(path: Path) -> int:
    """Returns the bytes of a model with its data, or of the models of a run folder."""
    models = [path] if path.is_file() else [*path.glob("model.onnx"), *path.glob("*.xml"), *path.glob("*.bin")]
    return sum(f.stat().st_size for one in models for f in {one, *one.parent.glob(f"{one.name}.data")} if f.is_file())


def library_answers(model: Model, contenders: list[Contender]) -> dict[str, str]:
    """Returns the answers of a wheel's library with another model file, or a run folder, in place of its own."""
    from libraries import Recorded, agreement, answers, environment

    python, one = environment(WHEELS), Recorded(model.name, model.folder)
    before, found = answers(python, one), {}
    for contender in contenders:
        found[contender["key"]] = "not taken"
        if contender["kind"] in ("ort", "folder"):
            try:
                found[contender["key"]] = agreement(before, answers(python, one, Path(contender["path"])))
            except SystemExit as failed:
                found[contender["key"]] = f"the library failed: {str(failed)[-120:]}"
    return found


if __name__ == "__main__":
    sys.exit(main())
