"""Models that ship inside wheels, in their own library: what it feeds them, and what it answers with another model.

    python benchmarks/models/wheels.py nudenet record FOLDER        # model.onnx, calib.npz, unseen.npz
    python benchmarks/models/wheels.py nudenet answer [RESULT]      # JSON; RESULT is an .onnx file or a run folder

Runs in an environment that has the libraries (benchmarks/wheels.py makes it), and knows nothing of optim.
``onnxruntime.InferenceSession`` is replaced by one that notes what it is fed, and opens RESULT where the library opens
its own model. Calibration and what is judged come of different pictures, pages and sentences: photographs of
scikit-image and doclayout-yolo and cuts of them, pages drawn with Pillow's own font, sentences spoken by espeak-ng.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

MOST = 8
"""Samples of either file, spread over all that the library fed."""

Picture = np.ndarray
Answers = list[Any]


@dataclass(frozen=True)
class Case:
    """A model in its library.

    Attributes:
        module: that has the file in its folder.
        file: in that folder.
        answers: what the library says of the material of calibration (False), or of what is judged (True).
    """

    module: str
    file: str
    answers: Callable[[bool], Answers]

    @property
    def path(self) -> Path:
        """The model as the wheel has it."""
        found = importlib.util.find_spec(self.module)
        if found is None or found.origin is None:
            raise SystemExit(f"there is no {self.module}")
        return Path(found.origin).parent / self.file


def main() -> None:
    """Record what a model is fed, or print what its library answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=sorted(CASES))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("folder", type=Path)
    commands.add_parser("answer").add_argument("result", type=Path, nargs="?")
    chosen = parser.parse_args()
    case = CASES[chosen.case]
    if chosen.command == "record":
        record(case, chosen.folder)
        return
    with contextlib.redirect_stdout(sys.stderr), replaced(case.path, chosen.result):
        found = case.answers(True)
    print(json.dumps(found))


def record(case: Case, folder: Path) -> None:
    """Write the model, and what it is fed for calibration and for judging."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(case.path, folder / "model.onnx")
    with replaced(case.path, None) as fed:
        for name, judged in (("calib", False), ("unseen", True)):
            fed.clear()
            case.answers(judged)
            chosen = fed if len(fed) <= MOST else [fed[i * (len(fed) - 1) // (MOST - 1)] for i in range(MOST)]
            arrays = {f"{number}/{key}": array for number, one in enumerate(chosen) for key, array in one.items()}
            np.savez(folder / f"{name}.npz", **arrays)


@contextlib.contextmanager
def replaced(path: Path, result: Path | None) -> Iterator[list[dict[str, Any]]]:
    """Sessions of the file note what they are fed; they are of a result where there is one."""
    fed: list[dict[str, Any]] = []
    plain = onnxruntime.InferenceSession

    class Session(plain):  # type: ignore[misc, valid-type]
        """A session that may be of another model than it was asked for."""

        def __init__(self, model: Any, *arguments: Any, **named: Any) -> None:
            self.watched = isinstance(model, (str, Path)) and Path(model).name == path.name
            if self.watched and result is not None and not result.is_dir():
                model = str(result)
            super().__init__(model, *arguments, **named)
            self.other = opened_folder(result) if self.watched and result is not None and result.is_dir() else None

        def run(self, names: Sequence[str] | None, feeds: dict[str, Any], *rest: Any) -> Any:
            """Returns the outputs."""
            if self.watched:
                fed.append({name: np.array(array) for name, array in feeds.items()})
            if self.other is None:
                return super().run(names, feeds, *rest)
            with unwatched(plain):
                return self.other.run(names, feeds)

    onnxruntime.InferenceSession = Session
    try:
        yield fed
    finally:
        onnxruntime.InferenceSession = plain


@contextlib.contextmanager
def unwatched(plain: Any) -> Iterator[None]:
    """Sessions are onnxruntime's own."""
    watching, onnxruntime.InferenceSession = onnxruntime.InferenceSession, plain
    try:
        yield
    finally:
        onnxruntime.InferenceSession = watching


def opened_folder(folder: Path) -> Any:
    """The session that the run folder's own load.py opens."""
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with unwatched(onnxruntime.InferenceSession.__mro__[1]):
        return module.load()


def photographs(judged: bool) -> list[Picture]:
    """Pictures [height, width, 3] in BGR, people on most of them: whole, halves, mirrored."""
    import cv2

    sources = ("zidane", "coffee", "astronaut", "rocket") if judged else ("bus", "chelsea", "motorcycle_left")
    folders = [
        Path(str(importlib.util.find_spec(name).origin)).parent / inside  # type: ignore[union-attr]
        for name, inside in (("skimage", "data"), ("doclayout_yolo", "assets"))
    ]
    found = []
    for name in sources:
        path = next(path for folder in folders for path in sorted(folder.glob(f"{name}.*")))
        whole = cv2.imread(str(path))
        width = whole.shape[1]
        found += [whole, whole[:, : width * 2 // 3], whole[:, ::-1][:, : width * 2 // 3]]
    return [np.ascontiguousarray(picture) for picture in found]


def nudenet(judged: bool) -> Answers:
    """Class and box of each detection, by picture."""
    from nudenet import NudeDetector

    detector = NudeDetector()
    found = [detector.detect(picture) for picture in photographs(judged)]
    return [[[one["class"], *map(int, one["box"])] for one in each] for each in found]


TEXTS = (
    "Heavy rain is expected along the coast until Friday. Ferries to the islands will not leave. Call 555-0199.",
    "Invoice No. 20418: 3 boxes at $12.50, 7 lamps at $48.00, shipping $9.95. Total due: $383.45 by 14 March.",
    "The committee has postponed its vote on the new library until the architect answers three questions.",
    "To change a flat tyre, loosen the nuts before you lift the car, and tighten them crosswise afterwards.",
    "Departures: 08:15 Lisbon gate 4, 09:40 Oslo gate 12, 11:05 Porto gate 7, 12:30 Zurich cancelled, 13:55 Rome.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen. It feeds nearly all life on earth.",
)
"""The first half is for calibration."""

COLOURS = (((255, 255, 255), (20, 20, 20)), ((245, 240, 220), (60, 40, 30)), ((30, 40, 60), (240, 240, 200)))
"""Paper and ink of each page."""


def pages(judged: bool) -> list[Picture]:
    """Drawn pages [height, width, 3] in BGR: a text in lines of other lengths, sizes and colours, some on a slant."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(judged)
    half = len(TEXTS) // 2
    found = []
    for number, text in enumerate(TEXTS[half:] if judged else TEXTS[:half]):
        paper, ink = COLOURS[number]
        page = Image.new("RGB", (800, 600), paper)
        draw, words, top = ImageDraw.Draw(page), text.split(), 30
        while words and top < 540:
            count, size = int(random.integers(2, 6)), int(random.integers(20, 40))
            line, words = " ".join(words[:count]), words[count:]
            draw.text((40, top), line, font=ImageFont.load_default(size), fill=ink)
            top += 2 * size
        page = page.rotate((0, 2, -1)[number], fillcolor=paper)
        noisy = np.asarray(page) + random.normal(0, 6, (600, 800, 3))
        found.append(np.clip(noisy[:, :, ::-1], 0, 255).astype(np.uint8))
    return found


def ocr(judged: bool) -> Answers:
    """The lines of each page."""
    from rapidocr import RapidOCR

    engine = RapidOCR()
    return [list(engine(page).txts or ()) for page in pages(judged)]


def spoken(text: str) -> np.ndarray:
    """Speech at 16 kHz, float32, with half a second of silence behind it and a little noise."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(2, 0, str(espeakng_loader.get_data_path()).encode(), 0)
    heard: list[np.ndarray] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def hear(samples: Any, count: int, _event: Any) -> int:
        if samples and count:
            heard.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    library.espeak_SetSynthCallback(hear)
    words = text.encode()
    library.espeak_Synth(ctypes.c_char_p(words), ctypes.c_size_t(len(words) + 1), 0, 0, 0, 1, None, None)
    library.espeak_Synchronize()
    sound = np.concatenate([*heard, np.zeros(rate // 2)]) / (1 << 15)
    sound = np.interp(np.arange(0, len(sound), rate / 16000), np.arange(len(sound)), sound)
    return (sound + np.random.default_rng(0).normal(0, 2e-3, len(sound))).astype(np.float32)


def voice(judged: bool) -> Answers:
    """Whether there is speech, for each 32 ms; fed as silero-vad's own wrapper does, which needs torch."""
    half = len(TEXTS) // 2
    session = onnxruntime.InferenceSession(str(CASES["silero"].path), providers=["CPUExecutionProvider"])
    found = []
    for text in TEXTS[half:] if judged else TEXTS[:half]:
        sound, state, before = spoken(text), np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
        for begin in range(0, len(sound) - 511, 512):
            heard = np.concatenate([before, sound[begin : begin + 512]])
            feeds = {"input": heard[None], "state": state, "sr": np.array(16000, np.int64)}
            chance, state = session.run(None, feeds)
            before = heard[-64:]
            found.append(bool(chance[0, 0] > 0.5))
    return found


CASES = {
    "nudenet": Case("nudenet", "320n.onnx", nudenet),
    "ocr-det": Case("rapidocr", "models/PP-OCRv6_det_small.onnx", ocr),
    "ocr-rec": Case("rapidocr", "models/PP-OCRv6_rec_small.onnx", ocr),
    "ocr-cls": Case("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", ocr),
    "silero": Case("silero_vad", "data/silero_vad.onnx", voice),
}

if __name__ == "__main__":
    main()
