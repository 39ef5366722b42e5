"""Folders of optim: the cache, and the environments of isolated plugins."""

from __future__ import annotations

import os
from pathlib import Path

_CACHE = "OPTIM_CACHE_DIR"
"""Environment variable: folder of the cache: models, samples, outputs, measurements and downloads. By default the
user's cache folder."""

_DATA = "OPTIM_DATA_DIR"
"""Environment variable: folder for the environments of isolated plugins. By default the user's data folder."""

_RUNTIME = "XDG_RUNTIME_DIR"
"""Environment variable: folder for locks, which are files without contents. By default the temporary folder."""


def cache_folder() -> Path:
    """Returns ``OPTIM_CACHE_DIR``, or else the user's cache folder. optim can make its contents again.

    Raises:
        OptimError[no-home]: this user has no home folder, as is usual in containers.
    """
    return _chosen_or_found(_CACHE, "user_cache_path")


def data_folder() -> Path:
    """Returns ``OPTIM_DATA_DIR``, or else the user's data folder.

    Raises:
        OptimError[no-home]: this user has no home folder, as is usual in containers.
    """
    return _chosen_or_found(_DATA, "user_data_path")


def _chosen_or_found(variable: str, place: str) -> Path:
    import platformdirs

    from optim.errors import OptimError

    chosen = os.environ.get(variable)
    try:
        found = Path(chosen).expanduser().absolute() if chosen else getattr(platformdirs, place)("optim")
    except RuntimeError:  # of pathlib, and of a platformdirs of late; earlier ones leave the ~ in the path
        found = Path("~")
    if found.is_absolute():
        return Path(found)
    raise OptimError.usage(
        "no-home",
        "this user has no home folder to keep files in",
        "HOME is not set, and the system does not know the user",
        "set HOME to a folder that you may write to, or OPTIM_CACHE_DIR and OPTIM_DATA_DIR",
    )


def lock_folder() -> Path:
    """Returns the folder for locks of this user: in ``XDG_RUNTIME_DIR``, or else in the temporary folder.

    Raises:
        OptimError[lock-folder-unusable]: the folder cannot be made, or belongs to another user.
    """
    import tempfile

    from optim.errors import OptimError

    whose = os.getuid() if hasattr(os, "getuid") else ""
    runtime = os.environ.get(_RUNTIME)
    tried = []
    for folder in (*([Path(runtime) / "optim"] if runtime else []), Path(tempfile.gettempdir()) / f"optim-{whose}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = folder.stat().st_uid
        except OSError as error:
            tried.append(f"{folder}: {error.strerror or error}")
            continue
        if (whose == "" or owner == whose) and os.access(folder, os.W_OK | os.X_OK):
            return folder
        tried.append(f"{folder}: it is not yours")
    raise OptimError.usage(
        "lock-folder-unusable",
        "there is no folder to keep locks in",
        "; ".join(tried),
        "set XDG_RUNTIME_DIR to a folder that you may write to",
    )
