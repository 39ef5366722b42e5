"""Many adapters over one model: peft folders are converted for a run folder, and one session answers with each.

optim run PEFT_FOLDER -o out --with adapters.extract
python many_adapters.py out PEFT_FOLDER ANOTHER_PEFT_FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import optim

PROMPT = [[5, 6, 7]]


def main(run_folder: Path, peft_folders: list[Path]) -> None:
    """Print what the base says, and what it says with each adapter."""
    decoder = optim.load(run_folder)
    print(f"base: {decoder.generate(PROMPT, max_new_tokens=8).tolist()}")
    for folder in peft_folders:
        file = folder / "converted.onnx_adapter"
        subprocess.run(["optim", "adapters", "convert", folder, "--for", run_folder, "-o", file], check=True)
        print(f"{folder.name}: {decoder.generate(PROMPT, max_new_tokens=8, adapter=file).tolist()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
