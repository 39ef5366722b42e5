"""The page's template, compiled once, and kept where Python keeps the compiled modules of this package."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import BytecodeCache


def compiled_beside(folder: Path) -> BytecodeCache | None:
    """A place for compiled templates; None where Python keeps nothing there.

    Compiling the page's template takes a tenth of a run that is served from the cache. What lies in ``folder`` is
    trusted as the modules there are: nobody writes into it who could not write the package itself.
    """
    if sys.dont_write_bytecode or sys.pycache_prefix is not None or not folder.is_dir():
        return None
    from jinja2 import FileSystemBytecodeCache
    from jinja2.bccache import Bucket

    class Beside(FileSystemBytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError, EOFError, ValueError, TypeError):  # a torn file is compiled anew
                super().load_bytecode(bucket)

        def dump_bytecode(self, bucket: Bucket) -> None:
            with contextlib.suppress(OSError):  # a package that is installed for everybody is not ours to write into
                super().dump_bytecode(bucket)

    return Beside(str(folder), "%s.jinja")
