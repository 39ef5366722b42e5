"""Which files of core one ``optim`` command runs a function of, in its main process.

python benchmarks/runs/run_path.py run model.onnx -o out --search-seconds 10
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

_PART = "/core/src/"
_WITH_OTHERS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Such run as parts of a function, which is counted itself, or of a module that is imported."""

_IS_FUNCTION = 1
"""CO_OPTIMIZED: bodies of classes and modules, which run when they are imported, do not have it."""


def main() -> None:
    """Run the command with a hook on every call."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & _IS_FUNCTION and code.co_name not in _WITH_OTHERS
        if event == "call" and is_function and _PART in code.co_filename:
            files.add(code.co_filename.partition(_PART)[2])

    sys.setprofile(note)
    threading.setprofile(note)
    from optim.__main__ import main as optim

    status = optim(sys.argv[1:])
    sys.setprofile(None)
    print(*sorted(files), sep="\n", file=sys.stderr)
    print(f"{len(files)} files, exit status {int(status)}", file=sys.stderr)


if __name__ == "__main__":
    main()
