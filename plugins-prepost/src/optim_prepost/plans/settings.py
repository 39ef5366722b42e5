"""What a Hugging Face model folder says of pre- and post-processing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optim import OptimError
from optim_prepost import PACKAGE

PREPROCESSOR = "preprocessor_config.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """The files of a folder that say something; empty where there is no folder.

    Attributes:
        preprocessor: ``preprocessor_config.json``.
        config: ``config.json``.
        tokenizer: ``tokenizer_config.json``.
        pooling: ``1_Pooling/config.json`` of sentence-transformers.
        modules: ``modules.json`` of sentence-transformers.
        vocabulary: path of the tokenizer's vocabulary, or empty.
    """

    preprocessor: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    pooling: Mapping[str, Any] = field(default_factory=dict)
    modules: tuple[Mapping[str, Any], ...] = ()
    vocabulary: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of classes in order; empty where the folder has none but LABEL_0, LABEL_1 ...

        Raises:
            OptimError[bad-settings]: they are neither a list nor numbers and their names.
        """
        given = self.config.get("id2label") or {}
        named = dict(enumerate(given)) if isinstance(given, list) else given
        try:
            found = tuple(str(named[key]) for key in sorted(named, key=int))
        except (TypeError, ValueError) as error:
            raise _bad(
                Path("config.json"), "its id2label is not a list of names, and no numbers and their names"
            ) from error
        return () if found == tuple(f"LABEL_{number}" for number in range(len(found))) else found


def read_settings(path: str | None) -> Settings:
    """Read a folder, or the folder of one of its files.

    Raises:
        OptimError[bad-settings]: a file there is not JSON, or there is none that says anything.
    """
    if path is None:
        return Settings()
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    modules = _read(folder / "modules.json")
    preprocessor = _object(folder / PREPROCESSOR)
    found = Settings(
        preprocessor=preprocessor or (_object(Path(path)) if Path(path).is_file() else {}),
        config=_object(folder / "config.json"),
        tokenizer=_object(folder / "tokenizer_config.json"),
        pooling=_object(folder / "1_Pooling" / "config.json"),
        modules=tuple(modules) if isinstance(modules, list) else (),
        vocabulary=next((str(folder / name) for name in _VOCABULARIES if (folder / name).is_file()), ""),
    )
    if found == Settings():
        known = (PREPROCESSOR, "config.json", "tokenizer_config.json", *_VOCABULARIES)
        raise _bad(Path(path), f"it has none of {', '.join(known)}")
    return found


_VOCABULARIES = ("vocab.txt", "tokenizer.json", "vocab.json")


def read_vocabulary(path: str) -> dict[str, int]:
    """Words and their numbers, from ``vocab.txt``, ``vocab.json`` or ``tokenizer.json``.

    Raises:
        OptimError[bad-settings]: it is none of these.
    """
    text = _text(Path(path))
    if Path(path).suffix != ".json":
        return {word: number for number, line in enumerate(text.split("\n")) if (word := line.rstrip("\r"))}
    data = _parsed(text, Path(path))
    told = data.get("model") if isinstance(data, dict) else None  # of a vocabulary it is a word like any other
    model = told if isinstance(told, dict) else {}
    words = model.get("vocab", data)
    if not isinstance(words, dict) or not all(isinstance(number, int) for number in words.values()):
        raise _bad(Path(path), "it has no dictionary of words and their numbers")
    if model.get("type") not in (None, "WordPiece"):
        raise _bad(Path(path), f"its tokenizer is {model['type']}, not BERT's WordPiece")
    return {str(word): int(number) for word, number in words.items()}


def read_labels(given: tuple[str, ...] | str | None, settings: Settings) -> tuple[str, ...]:
    """Names of classes: as given, one a line of a file, or of the settings."""
    if isinstance(given, str):
        return tuple(line.strip() for line in _text(Path(given)).splitlines() if line.strip())
    return given or settings.labels


def _read(path: Path) -> Any:
    return _parsed(_text(path), path) if path.is_file() else {}


def _object(path: Path) -> Mapping[str, Any]:
    found = _read(path)
    if not isinstance(found, dict):
        raise _bad(path, "it is not a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, str(error)) from error


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"it is not JSON: {error}") from error


def _bad(path: Path, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-settings", f"{path} cannot be used", cause, "optim passes show prepost.append", PACKAGE
    )
