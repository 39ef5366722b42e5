"""optim's decoder beside those of onnxruntime-genai, OpenVINO GenAI and llama.cpp: a Llama of 200 million parameters.

    python benchmarks/decoders/decoders_peers.py    # builds what is not built, then measures: a table and JSON
    python benchmarks/decoders/decoders_peers.py --only optim-4-bits genai --rounds 3

Weights are random, from a seed. Each peer is built by its own tools in an environment of its own, below the cache, and
stays there: a run that was cut short goes on where it was. What cannot be built or opened says why, and is left out.

Peers answer in turns, each in a process of its own: prompts of 64 and of 1024 tokens, greedily, some tokens each.
Ratios are medians over rounds of what peers took in the same round. Drift is to the scores of torch in float32, both
centred: llama.cpp tells probabilities only. Memory is the high water of the process that answered, with what it held
before its first answer beside it. Linux only, as ``memory.py`` is.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runs"))
from measured import run
from memory import high_water_bytes
from samples import drifts as drifts_of

HERE = Path(__file__).parent / "decoder_peers"
sys.path.insert(0, str(HERE))
from a_llama import WORDS, prompts  # noqa: E402 - beside the peers, which run in environments without optim

PEER = "genai"
"""What ratios are to, and whose drift is the budget of ``optim-searched``."""
NEW = 16
BUILD_S = 900.0
TORCH = ("torch==2.13.0", "transformers==5.5.4")
FOUR_BITS = "ort.quantize-weights:bits=4,block_size=32,method='rtn'"
WORKLOAD = ("--generate", "prompt=512,new=256")
"""Answers of a chat. With few tokens behind a long prompt dynamic 8 bits win: their prompts take half as long as those
of 4 bits, and their tokens 1.5 times."""

SHARED = ("--with", "ort.share-past")


@dataclass(frozen=True, slots=True)
class Entrant:
    """A row of the table.

    Attributes:
        label: of the row.
        worker: file that builds and answers.
        needs: packages of its environment; none: that of this program.
        unwanted: of what they bring: torchvision of the registry is made for another torch.
        words: further words of its build; ``{drift}`` is the peer's.
    """

    label: str
    worker: str
    needs: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


ENTRANTS = {
    "genai": Entrant(
        "onnxruntime-genai, int4", "with_genai.py", ("onnxruntime-genai==0.18.0", "onnx==1.23.2", "onnx_ir", *TORCH)
    ),
    "openvino": Entrant(
        "OpenVINO GenAI, int4",
        "with_openvino.py",
        ("openvino-genai==2026.4.1.0", "nncf==3.4.0", "optimum-intel==2.2.0", *TORCH),
        unwanted=("torchvision",),
    ),
    "llama-cpp": Entrant(
        "llama.cpp, Q4_0", "with_llama_cpp.py", ("xllamacpp==2026.10.11549", "gguf==0.19.0", "safetensors", "numpy")
    ),
    "optim-float": Entrant(
        "optim, float32", "with_optim.py", words=(*WORKLOAD, *SHARED, "--lossless", "--search-seconds", "60")
    ),
    "optim-4-bits": Entrant(
        "optim, 4 bits as genai rounds",
        "with_optim.py",
        words=(*WORKLOAD, *SHARED, "--max-drift", "1", "--search-seconds", "60", "--with", FOUR_BITS),
    ),
    "optim-searched": Entrant(
        "optim, searched within genai's drift",
        "with_optim.py",
        words=(*WORKLOAD, "--max-drift", "{drift}", "--search-seconds", "300"),
    ),
}


@dataclass
class Figures:
    """Of one entrant: what each round took, by depth."""

    version: str
    drift: float
    size_bytes: int
    idle_bytes: int
    first_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    token_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    peak_bytes: int = 0


class NotThereError(RuntimeError):
    """An entrant that is left out, with the reason."""


class Cache:
    """The model, environments and what was built, each whole or not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.reference = folder / "llama", folder / "reference.npz"
        folder.mkdir(parents=True, exist_ok=True)

    def make_model(self) -> None:
        """The Llama, and the scores of torch."""
        if not self.reference.exists():
            shutil.rmtree(self.model, ignore_errors=True)
            self._run([sys.executable, HERE / "a_llama.py", self.model, self.reference], "llama")

    def built(self, name: str, entrant: Entrant, drift: str) -> Path:
        """Where the entrant's model lies, built where it was not; optim's own anew where its code changed."""
        words = [word.format(drift=drift) for word in entrant.words]
        tied = words + ([] if entrant.needs else [code_digest()])
        whole, made = self.folder / f"{name}.json", self.folder / name
        if not whole.exists() or json.loads(whole.read_text()) != tied:
            shutil.rmtree(made, ignore_errors=True)
            self._run([self.python(name, entrant), HERE / entrant.worker, "build", self.model, made, *words], name)
            whole.write_text(json.dumps(tied))
        return made

    def python(self, name: str, entrant: Entrant) -> Path:
        """The Python of an entrant's environment."""
        if not entrant.needs:
            return Path(sys.executable)
        place = self.folder / f"{name}-venv"
        python, whole = place / "bin" / "python", place / "needs.json"
        if not whole.exists() or json.loads(whole.read_text()) != list(entrant.needs):
            self._run([sys.executable, "-m", "venv", "--clear", place], name)
            self._run([python, "-m", "pip", "install", "--quiet", *entrant.needs], name)
            if entrant.unwanted:
                self._run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *entrant.unwanted], name)
            whole.write_text(json.dumps(entrant.needs))
        return python

    def _run(self, command: Sequence[object], name: str) -> None:
        done = run([str(word) for word in command], self.folder / f"{name}.log", BUILD_S)
        if done.status != 0:
            last = done.tail.splitlines()[-1] if done.tail else "nothing was said"
            raise NotThereError(f"{Path(str(command[1])).name} ended with {done.status}: {last[:200]}")


def code_digest() -> str:
    """Of optim and its plugins as they lie here: what they build is as new as their code."""
    root, found = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(root.glob("core/src/**/*.py")) + sorted(root.glob("plugins/src/**/*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


class Worker:
    """A process that answers."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.version = self._read()["version"]

    def ask(self, **asked: Any) -> dict[str, Any]:
        """One question, and its answer."""
        assert self._process.stdin is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        return self._read()

    @property
    def high_water_bytes(self) -> int:
        """The most that it held so far."""
        return high_water_bytes(self._process.pid)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise NotThereError(f"its process ended: {said[-1][:200] if said else 'nothing was said'}")
        return json.loads(line)


@contextmanager
def serving(cache: Cache, name: str, entrant: Entrant, made: Path) -> Iterator[Worker]:
    """A process that has opened the entrant's model."""
    command = [cache.python(name, entrant), HERE / entrant.worker, "serve", made]
    log = cache.folder / f"{name}-serve.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        try:
            yield Worker(process, log)
        finally:
            process.kill()
            process.communicate()


def drift_of(worker: Worker, reference: np.ndarray) -> float:
    """The mean over prompts of the gate's drift, of centred scores."""
    pairs = []
    for prompt, expected in zip(prompts(), reference, strict=True):
        found = np.frombuffer(base64.b64decode(worker.ask(scores=prompt)["scores"]), np.float32)
        pairs.append(tuple({"scores": one - one.mean()} for one in (expected, found)))
    return float(np.mean(drifts_of(pairs)))


def look_at(cache: Cache, names: Sequence[str]) -> tuple[dict[str, Figures], dict[str, str]]:
    """Build each and compare it with torch, in a process that ends; figures by name, and why others are not there."""
    reference = np.load(cache.reference)["scores"]
    figures: dict[str, Figures] = {}
    missing: dict[str, str] = {}
    for name in names:
        entrant = ENTRANTS[name]
        drift = f"{figures[PEER].drift:.3f}" if PEER in figures else "0.2"
        print(f"building {entrant.label}", file=sys.stderr)
        with leaving_out(name, figures, missing):
            made = cache.built(name, entrant, drift)
            with serving(cache, name, entrant, made) as worker:
                size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
                figures[name] = Figures(worker.version, drift_of(worker, reference), size, 0)
    return figures, missing


def race(
    cache: Cache, figures: dict[str, Figures], missing: dict[str, str], depths: Sequence[int], rounds: int
) -> None:
    """All in turns; the first round finds memory, and is not counted. Whoever ends on the way is left out."""
    ids = np.random.default_rng(2).integers(3, WORDS, max(depths)).tolist()
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name in list(figures):
            with leaving_out(name, figures, missing):
                workers[name] = stack.enter_context(serving(cache, name, ENTRANTS[name], cache.folder / name))
                figures[name].idle_bytes = workers[name].high_water_bytes
        for number in range(rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for depth in depths:
                for name in list(figures):
                    with leaving_out(name, figures, missing):
                        answer = workers[name].ask(prompt=ids[:depth], new=NEW)
                        if number:
                            figures[name].first_s[depth].append(answer["first_s"])
                            figures[name].token_s[depth].append(answer["token_s"])
        for name, found in figures.items():
            found.peak_bytes = workers[name].high_water_bytes


@contextmanager
def leaving_out(name: str, figures: dict[str, Figures], missing: dict[str, str]) -> Iterator[None]:
    """Whoever fails inside has no figures, and a reason."""
    try:
        yield
    except (NotThereError, BrokenPipeError) as error:
        figures.pop(name, None)
        missing[name] = str(error)
        print(f"{ENTRANTS[name].label} is left out: {error}", file=sys.stderr)


def table(figures: dict[str, Figures], missing: dict[str, str], depths: Sequence[int]) -> Iterator[str]:
    """Lines in Markdown; in brackets the ratio to the peer, below 1 for less."""
    base = figures.get(PEER)
    heads = [f"{what} {depth}" for what in ("first token behind", "tokens/s at") for depth in depths]
    yield f"| model | drift | {' | '.join(heads)} | memory at {max(depths)}, before it | on disk |"
    yield "|---" * (len(heads) + 4) + "|"
    for name, found in figures.items():
        cells = [ENTRANTS[name].label, f"{found.drift:.3f}"]
        for depth in depths:
            seconds = found.first_s[depth]
            cells.append(f"{1e3 * statistics.median(seconds):.0f} ms{_ratio(seconds, base and base.first_s[depth])}")
        for depth in depths:
            speeds = [1 / one for one in found.token_s[depth]]
            beside = base and [1 / one for one in base.token_s[depth]]
            cells.append(f"{statistics.median(speeds):.1f}{_ratio(speeds, beside)}")
        cells.append(f"{found.peak_bytes / 1e6:.0f} MB, {found.idle_bytes / 1e6:.0f} MB")
        yield f"| {' | '.join(cells)} | {found.size_bytes / 1e6:.0f} MB |"
    for name, why in missing.items():
        yield f"| {ENTRANTS[name].label} | left out: {why} |"


def _ratio(values: Sequence[float], base: Sequence[float] | None) -> str:
    if not base:
        return ""
    return f" ({statistics.median(one / other for one, other in zip(values, base, strict=True)):.2f})"


def main() -> int:
    """Build, measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "optim-benchmarks", "decoders")
    parser.add_argument("--cache", type=Path, default=default, help="of models and environments; 4 GB")
    parser.add_argument("--only", nargs="+", choices=ENTRANTS, default=list(ENTRANTS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--depths", nargs="+", type=int, default=[64, 1024], help="tokens of the prompts")
    parser.add_argument("--json", type=Path, help="all figures, round by round")
    chosen = parser.parse_args()
    cache = Cache(chosen.cache.resolve())
    cache.make_model()
    figures, missing = look_at(cache, [name for name in ENTRANTS if name in chosen.only])
    race(cache, figures, missing, chosen.depths, max(1, chosen.rounds))
    for line in table(figures, missing, chosen.depths):
        print(line)
    if chosen.json:
        found = {name: {**vars(one)} for name, one in figures.items()}
        chosen.json.write_text(json.dumps({"cores": os.cpu_count(), "figures": found, "missing": missing}, indent=2))
    return 0 if figures else 1


if __name__ == "__main__":
    sys.exit(main())
