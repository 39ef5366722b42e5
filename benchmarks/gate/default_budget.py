"""How much drift a task bears: trained models made worse step by step, and the share of their answers that stay.

    python benchmarks/gate/default_budget.py --work FOLDER                       # about ten minutes; default_budget.md
    python benchmarks/gate/default_budget.py --work FOLDER --only minilm silero
    python benchmarks/gate/default_budget.py --work FOLDER --table               # the table from the results in FOLDER

| model       | its task, on samples that no candidate was calibrated on                     |
|-------------|------------------------------------------------------------------------------|
| minilm      | the nearest of 40 held-out sentences for each, by the mean over its tokens   |
| minilm-docs | the same for 400 first lines of docstrings of Python's library, many alike   |
| minilm-docs, ties aside | the same; another line whose cosine was as high within 0.01 is right too |
| digits-cnn  | which digit is on each of 536 pictures                                       |
| digits-vit  | the same                                                                     |
| silero      | yes or no for each 32 ms of three texts                                      |
| magika      | the kind of each of 31 files                                                 |
| swift-f0    | the nearest semitone for each tenth of a second of four voices               |
| basic-pitch | the keys of a piano that sound, for each second of four tunes                |
| captcha, captcha-cells | the letters of 24 captchas, by two readers                        |
| orientation | by how much each of twelve pages is turned                                   |
| ocr-rec, ocr-det, ocr-cls | the lines of three pages, by each of three models of a reader  |
| nudenet     | classes and boxes on twelve pictures                                         |
| dnsmos      | which of two recordings sounds better, if their scores are 0.2 apart         |

Candidates: the weights rounded to a number of bits, symmetric, with a scale for each channel; and two tools' int8
models, calibrated on other samples. The drift of a candidate is that of ``optim verify`` on the task's samples.
A model *bears* a drift if each candidate up to that drift keeps 99 % of the answers. Of fewer than 100 answers one may
be another, since one may be a near tie.

Results are kept in FOLDER, one line for each candidate and version of the gate; an interrupted run continues.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from commands import instruction_sets, say
from curve import peer
from libraries import is_same
from mutations import HARMLESS, SUBJECTS, Subject, demo, digest_of_the_gate, judging, read, wheel
from onnx import numpy_helper

from optim._engine.search.settings import DEFAULT_MAX_DRIFT

TABLE = Path(__file__).parent / "default_budget.md"
BITS = (8.0, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0, 3.0)
"""With 6.5 bits there are 2 to the power of 5.5 steps on either side of zero."""

PEERS = ("ort-dynamic-best", "ort-static-best")
LEAST_WEIGHTS = 256
"""Elements of a constant of rank 2 or more that is rounded; smaller ones are no weights."""

CHANNELS = {"Conv": 0, "ConvTranspose": 1, "Gather": 0, "LSTM": 1, "GRU": 1}
"""The axis that has a scale for each slice, by the operator that reads the weight; else the last."""

APART = 0.2
"""Scores that differ by less are a tie: they are written to a tenth."""

LINES, WORDS = 400, range(6, 21)
"""Docstrings that are compared, and how many words they have."""

TIE = 0.01
"""Cosines that differ by less: which of two such lines is the nearer one, no reader can tell."""


def docstrings(name: str, work: Path) -> Subject:
    """MiniLM with first lines of docstrings; an answer is the vector of a line."""
    subject = SUBJECTS["minilm"]("minilm", work)
    tokenizer = tokenizer_of_minilm()

    def answers(model: Path) -> list[Any]:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        return list(demo.embed(session, tokenizer, first_lines()))

    return replace(subject, name=name, answers=answers)


def first_lines() -> list[str]:
    """Sentences of Python's own library, spread over it."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                line = (ast.get_docstring(node) or "").partition("\n")[0]
                if line.endswith(".") and len(line.split()) in WORDS:
                    found[line] = None
    lines = list(found)
    return [lines[place * len(lines) // LINES] for place in range(LINES)]


def tokenizer_of_minilm() -> Any:
    """The one that its package has."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(demo.find_package() / "tokenizer.json"))


NEAR = (0.05, 0.3)
"""Drifts of candidates that are listed one by one."""

CHECKS = ("ocr-rec", "ocr-det", "ocr-cls", "captcha-cells")
"""Models that were not in the first table."""

TIES_ASIDE = "minilm-docs, ties aside"

MODELS: dict[str, Callable[[str, Path], Subject]] = {
    "minilm": SUBJECTS["minilm"],
    "minilm-docs": docstrings,
    "digits-cnn": SUBJECTS["digits-cnn"],
    "digits-vit": SUBJECTS["digits-vit"],
    **dict.fromkeys(("silero", "magika", "swift-f0", "basic-pitch", "captcha", "orientation"), wheel),
    **dict.fromkeys(("nudenet", "dnsmos", "ocr-rec", "ocr-det", "ocr-cls", "captcha-cells"), wheel),
}
SAMPLES = {"minilm-docs": 6, "ocr-rec": 2, "ocr-det": 3, "nudenet": 4, "dnsmos": 4, "orientation": 4}
"""Samples to verify on, if not all that were recorded: of models that take a tenth of a second for each."""


@dataclass(frozen=True)
class Result:
    """One candidate.

    Attributes:
        gate: digest of the gate's code.
        model: name.
        candidate: how it was made.
        drift: the gate's, on unseen samples; None: infinite.
        where: the slice that is worst.
        same: answers as before.
        answers: all of them.
    """

    gate: str
    model: str
    candidate: str
    drift: float | None
    where: str
    same: int
    answers: int

    @property
    def far(self) -> float:
        """The drift as a number."""
        return math.inf if self.drift is None else self.drift

    @property
    def stays(self) -> bool:
        """Whether a user would not notice."""
        return self.answers - self.same <= max(1, self.answers * (1 - HARMLESS))


def main() -> int:
    """Measure all candidates, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="environment, models and results, kept")
    parser.add_argument("--only", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--bits", nargs="+", type=float, default=BITS, help="of rounded weights")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--table", action="store_true", help="write the table alone")
    parser.add_argument("--out", type=Path, default=TABLE)
    chosen = parser.parse_args()
    work = chosen.work.resolve()
    os.environ["OPTIM_CACHE_DIR"] = str(work / "budget-store")
    file, gate = work / "budget.jsonl", digest_of_the_gate()
    lines = file.read_text().splitlines() if file.is_file() else []
    done = {(one.model, one.candidate): one for line in lines if (one := Result(**json.loads(line))).gate == gate}
    for name in () if chosen.table else chosen.only:
        known = {key[1] for key in done if key[0] == name}
        for result in measured(MODELS[name](name, work), gate, chosen, known):
            done[result.model, result.candidate] = result
            with file.open("a") as stream:
                stream.write(json.dumps(asdict(result)) + "\n")
        shutil.rmtree(work / "budget-store", ignore_errors=True)
    chosen.out.write_text("\n".join(page(list(done.values()))) + "\n")
    return 0


def measured(subject: Subject, gate: str, chosen: argparse.Namespace, known: set[str]) -> Iterator[Result]:
    """Results of a model's candidates that there are no results of yet."""
    samples = unseen(subject)[: SAMPLES.get(subject.name)]
    before: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, judging(subject, samples, 1e9) as verified:
        for name, path in candidates(subject, chosen, known, Path(folder)):
            _, text, found = verified(path)
            if found is None:
                say(f"{subject.name}: {name}: {text}")
                continue
            before = before or subject.answers(subject.model)
            after = subject.answers(path)
            drift = found.drift.relative_error
            worst = max(found.outputs, key=lambda one: math.inf if one.problem else one.relative_error)
            where = f"{worst.name}, {worst.where}" if worst.where else worst.name
            for task, same, total in judged(subject.name, before, after):
                say(f"{task}: {name}: drift {drift:.4f} at {where}, {same} of {total} answers")
                yield Result(gate, task, name, drift if math.isfinite(drift) else None, where, same, total)


def unseen(subject: Subject) -> list[dict[str, np.ndarray]]:
    """Samples of the task, that nothing is calibrated on."""
    if subject.name.startswith("minilm"):
        lines = first_lines() if subject.name == "minilm-docs" else demo.split(demo.read_sentences())[1]
        return [demo.encode(tokenizer_of_minilm(), batch) for batch in demo.batches(lines)]
    if subject.name.startswith("digits"):
        return read(subject.model.with_suffix("").with_suffix(".feeds.npz"))
    return read(subject.feeds)


def candidates(
    subject: Subject, chosen: argparse.Namespace, known: set[str], folder: Path
) -> Iterator[tuple[str, Path]]:
    """Each that there is no result of, by name."""
    for bits in chosen.bits:
        name = f"weights of {bits:g} bits"
        if name not in known:
            model = onnx.load(str(subject.model))
            round_weights(model, bits)
            path = folder / f"{bits:g}.onnx"
            onnx.save(model, path)
            yield name, path
    calib = subject.feeds if subject.feeds.name != "unseen.npz" else subject.feeds.with_name("calib.npz")
    for tool in chosen.peers:
        if tool not in known:
            made = peer(tool, subject.model, calib, folder)
            if made is not None:
                yield tool, made.path


def round_weights(model: onnx.ModelProto, bits: float) -> None:
    """Round each weight in place to so many bits, with a scale for each channel."""
    most = max(1, round(2 ** (bits - 1)) - 1)
    readers = {name: node for graph in graphs(model.graph) for node in graph.node for name in node.input}
    for graph in graphs(model.graph):
        constants = [(one.name, one) for one in graph.initializer]
        constants += [
            (node.output[0], node.attribute[0].t)
            for node in graph.node
            if node.op_type == "Constant" and node.attribute[0].name == "value"
        ]
        for name, tensor in constants:
            if (
                tensor.data_type != onnx.TensorProto.FLOAT
                or len(tensor.dims) < 2
                or math.prod(tensor.dims) < LEAST_WEIGHTS
            ):
                continue
            axis = channel_axis(readers.get(name), len(tensor.dims))
            array = numpy_helper.to_array(tensor)
            rest = tuple(place for place in range(array.ndim) if place != axis)
            scale = np.abs(array).max(axis=rest, keepdims=True) / most
            rounded = np.round(array / np.where(scale > 0, scale, 1)) * scale
            tensor.CopyFrom(numpy_helper.from_array(rounded.astype(np.float32), tensor.name))


def channel_axis(node: onnx.NodeProto | None, rank: int) -> int:
    """The axis of a weight along which its reader has channels."""
    if node is None:
        return rank - 1
    if node.op_type == "Gemm":
        is_turned = any(one.name == "transB" and one.i for one in node.attribute)
        return 0 if is_turned else 1
    return CHANNELS.get(node.op_type, rank - 1)


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and all inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def judged(name: str, before: list[Any], after: list[Any]) -> Iterator[tuple[str, int, int]]:
    """The task, how many answers are as before, and how many there are."""
    if name == "minilm-docs":
        cosine = np.array(before) @ np.array(before).T
        old, new = (demo.nearest(np.array(one)).nearest for one in (before, after))
        rows = np.arange(len(old))
        yield name, int((old == new).sum()), len(old)
        yield TIES_ASIDE, int((cosine[rows, new] >= cosine[rows, old] - TIE).sum()), len(old)
    elif name == "dnsmos":
        yield name, *kept_orders(np.array(before), np.array(after))
    else:
        yield name, *kept(before, after)


def kept(before: list[Any], after: list[Any]) -> tuple[int, int]:
    """How many answers are as before, and how many there are: each line, box or key is one."""
    same = total = 0
    for old, new in zip(before, after, strict=True):
        if not isinstance(old, list):
            same, total = same + (old == new), total + 1
            continue
        total += max(len(old), len(new))
        if (old or new) and isinstance((old or new)[0], list):
            same += sum(any(is_same([box], [other]) for other in new) for box in old)
        else:
            same += (Counter(old) & Counter(new)).total()
    return same, total


def kept_orders(before: np.ndarray, after: np.ndarray) -> tuple[int, int]:
    """Pairs of recordings of which the better one stays the better, by each score."""
    old, new = (scores[:, None] - scores[None] for scores in (before, after))
    apart = old >= APART - 1e-9
    return int((apart & (new > 0)).sum()), int(apart.sum())


def page(results: Sequence[Result]) -> Iterator[str]:
    """The table, in markdown."""
    names = [name for name in (*MODELS, TIES_ASIDE) if any(one.model == name for one in results)]
    yield "# How much drift a task bears"
    yield ""
    yield (
        f"Taken on {time.strftime('%Y-%m-%d')} with onnxruntime {onnxruntime.__version__} and onnx {onnx.__version__}; "
        f"instruction sets: {instruction_sets()}. Command: `python benchmarks/gate/default_budget.py --work FOLDER`. "
        "[default_budget.py](default_budget.py) describes models, tasks and candidates. Drift is that of "
        "`optim verify`; the machine was busy, which changes no figure here."
    )
    yield ""
    yield "| model | answers | bears a drift of | first loss of more than 1 % | answers kept there |"
    yield "|---|---|---|---|---|"
    for name in names:
        own = sorted((one for one in results if one.model == name), key=lambda one: one.far)
        first = next((place for place, one in enumerate(own) if not one.stays), len(own))
        borne = f"{own[first - 1].far:.3f}" if first else "none"
        lost = own[first] if first < len(own) else None
        there = f"{lost.far:.3f} ({lost.candidate}) | {lost.same / lost.answers:.1%}" if lost else "none | "
        yield f"| {name} | {own[0].answers} | {borne} | {there} |"
    yield ""
    yield "## How the default was found, and a check"
    yield ""
    yield from conclusion([one for one in results if one.model != "minilm-docs"])
    yield ""
    yield "| drift | candidates | keep 99 % of the answers | keep 95 % | fewest answers kept |"
    yield "|---|---|---|---|---|"
    limits = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
    for low, high in pairwise(limits):
        own = [one for one in results if low < one.far <= high and one.model != "minilm-docs"]
        if own:
            shares = [one.same / one.answers for one in own]
            some = sum(share >= 0.95 for share in shares)
            yield f"| {low:g} to {high:g} | {len(own)} | {sum(one.stays for one in own)} | {some} | {min(shares):.1%} |"
    yield ""
    yield "## Candidates near the default"
    yield ""
    yield "| model | candidate | drift | worst at | answers as before |"
    yield "|---|---|---|---|---|"
    for name in names:
        for one in sorted((one for one in results if one.model == name), key=lambda one: one.far):
            if NEAR[0] <= one.far <= NEAR[1]:
                yield f"| {name} | {one.candidate} | {one.far:.3f} | {one.where} | {one.same} of {one.answers} |"


def conclusion(results: Sequence[Result]) -> Iterator[str]:
    """Whether these results support the default, in markdown."""
    yield (
        f"The default of `--max-drift` is {DEFAULT_MAX_DRIFT:g}. The rule for it (the largest of 1, 2 or 5 times a "
        "power of ten below the first loss of more than 1 %) was written after its authors had seen a first table, "
        "with another version of the gate. So that table proves nothing. Models that were not in it are a check."
    )
    yield ""
    for are, own in (
        ("the models of the first table", [one for one in results if one.model not in CHECKS]),
        ("models that were not in it", [one for one in results if one.model in CHECKS]),
    ):
        within = [one for one in own if one.far <= DEFAULT_MAX_DRIFT]
        bad = [one for one in within if not one.stays]
        lost = min((one for one in own if not one.stays), key=lambda one: one.far, default=None)
        first = f"the first loss is at {lost.far:.3f} ({lost.model}, {lost.candidate})" if lost else "none loses more"
        says = f"**{len(bad)} contradict it**" if bad else "none contradicts it"
        names = ", ".join(dict.fromkeys(one.model for one in own))
        yield (
            f"- Of {are} ({names}), {len(within)} of {len(own)} candidates are within the default: {says}, and {first}."
        )
        for one in bad:
            yield f"  - {one.model}, {one.candidate}: drift {one.far:.3f}, {one.same} of {one.answers} answers."
    if any(one.model == TIES_ASIDE for one in results):
        yield ""
        yield (
            "minilm-docs is left out of this conclusion and of the next table, because many docstrings nearly repeat "
            "each other. The row *ties aside* has the same candidates; there a neighbour is right too if its cosine "
            f"was as high within {TIE}."
        )


if __name__ == "__main__":
    sys.exit(main())
