"""Types what README.md says, from top to bottom, in a fresh clone and a fresh environment, and keeps what is seen.

    python docs/make_readme_run.py                      # some twenty minutes, of which torch takes six
    python docs/make_readme_run.py --without torch      # commands that need it are left out, and the page says so
    python docs/make_readme_run.py --seconds 20         # runs that do not say how long they take get so many seconds

Commands are taken from README.md itself: what is added there is typed here, or is named in :data:`NOT_TYPED` with the
reason. Each runs on a terminal of 80 columns; what README calls ``model.onnx``, ``feeds.npz``, ``path/to/model-folder``
and ``package.module:factory`` is made before. The page is docs/readme-run.md; the first command that fails ends it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
README = ROOT / "README.md"
PAGE = DOCS / "readme-run.md"

NOT_TYPED = {
    "make demo": "`make demo` shows its own result, and takes some minutes",
    "make test": "the tests take some eight minutes, and CI runs them",
    "make test-suite": "it takes seven minutes, and CI runs a sample of it",
}
"""Commands of README that are left out, and why."""

NEEDS_TORCH = ("./plugins[torch]", "./plugins[adapters]", "path/to/model-folder", "package.module:factory")
ENDS = (0, 4)
"""Exit statuses of commands that did what they should: a pass that is named and slows a toy down is told with 4."""

NOTHING_TO_PICK = "error[no-points]"
"""What `--pick` says where nothing was better than the toy: the page shows it, and is made to its end."""

_WORDS = ("make", "pip", "optim", "python")
_LAST_LINES = {"pip": 1}
"""Of what a command shows, where not all is of interest: pip ends with what it installed."""

GIVEN = """
from pathlib import Path
import numpy as np
from optim.testing import models

models.mlp(Path(), width=256).rename("model.onnx")
rng = np.random.default_rng(0)
np.savez("feeds.npz", x=rng.normal(size=(16, 32)).astype(np.float32), label=rng.integers(0, 10, 16))
"""
"""What README takes for granted: a model, and data with labels."""

GIVEN_TO_TORCH = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM

LlamaForCausalLM(
    LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )
).eval().save_pretrained("path/to/model-folder")
Path("package").mkdir()
Path("package/__init__.py").touch()
Path("package/module.py").write_text('''
import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.tags = torch.nn.Embedding(96, 32), torch.nn.Linear(32, 8)

    def forward(self, tokens):
        return self.tags(self.words(tokens))


def factory():
    return Tagger().eval(), (torch.ones(2, 7, dtype=torch.int64),)
''')
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A line of README that a user types, or a block of Python.

    Attributes:
        text: without the comment behind it.
        is_python: whether it is a block of Python.
    """

    text: str
    is_python: bool = False


def commands(readme: str) -> list[Command]:
    """Everything in README that can be typed, in its order."""
    found = []
    for match in re.finditer(r"^```python\n(?P<block>[\s\S]*?)^```$|^    (?P<line>\S.*)$", readme, re.MULTILINE):
        if match["block"]:
            found.append(Command(match["block"].rstrip(), is_python=True))
        elif match["line"].split()[0] in _WORDS:
            found.append(Command(re.split(r"\s{2,}#", match["line"])[0].rstrip()))
    return found


def left_out(command: Command, without: str) -> str:
    """Why a command is not typed; empty where it is."""
    if command.text in NOT_TYPED:
        return NOT_TYPED[command.text]
    if without == "torch" and not command.is_python and any(word in command.text for word in NEEDS_TORCH):
        return "it needs torch, which was left out of this run"
    return ""


def with_seconds(text: str, seconds: float | None) -> str:
    """The command with the seconds of its run, where it searches and says nothing of them."""
    searches = text.startswith("optim run") and "--pick" not in text and "--search-seconds" not in text
    return f"{text} --search-seconds {seconds:g}" if searches and seconds else text


def type_all(clone: Path, without: str, seconds: float | None) -> list[str]:
    """Types every command in a clone; returns the sections of the page.

    Raises:
        SystemExit: a command failed.
    """
    from make_first_hour import typed

    sections = []
    for command in commands((clone / "README.md").read_text(encoding="utf-8")):
        text = with_seconds(command.text, seconds)
        if why := left_out(command, without):
            sections.append(f"`{command.text}` was not typed here: {why}.\n")
            continue
        print(text, flush=True)
        if command.is_python:
            lines = [line for line in text.splitlines() if without != "torch" or "path/to/model-folder" not in line]
            Path("readme.py").write_text("import numpy as np\n\nx = np.load('feeds.npz')['x']\n" + "\n".join(lines))
            text = "python readme.py  # the block of Python of README"
        if text.startswith("optim") and not Path("model.onnx").exists():
            subprocess.run(["python", "-c", GIVEN], check=True)
        if without != "torch" and "path/to/model-folder" in command.text and not Path("path").exists():
            subprocess.run(["python", "-c", GIVEN_TO_TORCH], check=True)
        began = time.monotonic()
        status, seen = typed(text)
        took = f"{time.monotonic() - began:.0f} s" + (f", exit status {status}" if status else "")
        shown = "\n".join(seen.splitlines()[-_LAST_LINES.get(text.split()[0], 0) :])
        sections.append(f"```text\n$ {text}\n{shown}\n```\n\n{took}\n")
        if status not in ENDS and NOTHING_TO_PICK not in seen:
            print(seen, file=sys.stderr)
            raise SystemExit(f"{text}\nended with exit status {status}")
    return sections


def main() -> None:
    """Clone, make an environment, type everything, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", choices=("", "torch"), default="")
    parser.add_argument("--seconds", type=float)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="optim-readme-") as name:
        clone = Path(name) / "optim"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(Path(name) / "env")], check=True)
        os.environ.pop("PYTHONPATH", None)
        os.environ |= {"OPTIM_CACHE_DIR": f"{name}/cache", "TERM": "xterm", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        os.environ["PATH"] = f"{name}/env/bin{os.pathsep}{os.environ['PATH']}"
        os.chdir(clone)
        sections = type_all(clone, words.without, words.seconds)
    how = f"\n`optim run` was given {words.seconds:g} s where README leaves the time to it." if words.seconds else ""
    PAGE.write_text(f"{_INTRODUCTION}{how}\n\n" + "\n".join(sections), encoding="utf-8")


_INTRODUCTION = """# Every command of the README

Typed from top to bottom in a fresh clone and a fresh environment, on a terminal of 80 columns, by
`docs/make_readme_run.py`, which takes the commands out of README.md itself. The models are toys of some kilobytes: the
page shows what is seen, not what is gained. Figures are of the machine that made it."""


if __name__ == "__main__":
    main()
