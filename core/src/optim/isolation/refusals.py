"""What pip says when it cannot, shortened to the reason and with the way out."""

from __future__ import annotations

import re
import shutil
import subprocess

from packaging.specifiers import SpecifierSet

from optim.errors import OptimError
from optim.isolation.environments import Isolation

_UNREACHABLE = re.compile(
    r"(Failed to establish a new connection|Temporary failure in name resolution|Name or service not known|"
    r"Connection refused|Network is unreachable|Cannot connect to proxy|ProxyError|ConnectTimeout|Read timed out|"
    r"SSLError|ConnectionResetError|Connection aborted)[^\n]{0,120}"
)
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_MOST_LINES, _MOST_CHARACTERS = 3, 300


class PipFailed(Exception):  # noqa: N818 - it states what happened
    """A command of pip, uv or venv failed; ``said``: all that it printed."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def install_failed(isolation: Isolation, said: str) -> OptimError:
    """Why an environment could not be made, from what pip printed."""
    what = f"the environment of plugin {isolation.plugin} could not be made"
    again = f"optim plugins install {isolation.plugin}"
    if full := _NO_ROOM.search(said):
        return OptimError.usage(
            "disk-full", what, full[0], f"free some space, or set OPTIM_DATA_DIR to another disk; then: {again}"
        )
    if unreachable := _UNREACHABLE.search(said):
        return OptimError.usage(
            "index-unreachable",
            what,
            f"no connection to the package index: {unreachable[0]}",
            f"{again}   (after the network is back, it continues)",
        )
    return OptimError.usage("isolated-install-failed", what, reason(said), f"{again}   (it continues)")


def reason(said: str) -> str:
    """The lines of pip's output that say why, at most three."""
    _, conflict, causes = said.partition("To fix this you could")[0].partition("The conflict is caused by:")
    lines = [line.strip() for line in (causes if conflict else said).splitlines() if line.strip()]
    if conflict:
        return "\n".join(line[:_MOST_CHARACTERS] for line in lines[:_MOST_LINES] if " " in line)
    chosen = [line for line in lines if line.startswith(("ERROR:", "error:"))] or lines[-_MOST_LINES:]
    return "\n".join(line[:_MOST_CHARACTERS] for line in dict.fromkeys(chosen[:_MOST_LINES]))


def wrong_python(isolation: Isolation, cause: str) -> OptimError:
    """The pins have nothing for this Python; names one of this machine that fits, where there is one."""
    found = fitting_python(isolation.python)
    fix = f"optim plugins install {isolation.plugin} --python {found or 'PATH_OF_A_FITTING_PYTHON'}"
    return OptimError.usage(
        "isolated-python", f"the environment of plugin {isolation.plugin} cannot be made with this Python", cause, fix
    )


def fitting_python(wanted: str) -> str | None:
    """A Python on the search path that fits; asked, since a shim may be there without its Python."""
    for minor in range(30, 8, -1):
        name = f"python3.{minor}"
        if f"3.{minor}.0" in SpecifierSet(wanted) and shutil.which(name):
            done = subprocess.run([name, "-c", ""], capture_output=True, check=False)
            if done.returncode == 0:
                return name
    return None
