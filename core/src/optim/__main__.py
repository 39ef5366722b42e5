"""``python -m optim`` is the command ``optim``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    from optim._engine.cli.main import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
