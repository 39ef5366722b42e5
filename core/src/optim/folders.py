"""Where optim keeps what is not the user's own: the cache, and environments of isolated plugins."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``OPTIM_CACHE_DIR``, else the platform's cache folder of this user; what is in it can be made again.

    Raises:
        OptimError[no-home]: this user has no home folder, as users of containers often have none.
    """
    return _chosen_or_found("OPTIM_CACHE_DIR", "user_cache_path")


def data_folder() -> Path:
    """``OPTIM_DATA_DIR``, else the platform's data folder of this user.

    Raises:
        OptimError[no-home]: as of the cache folder.
    """
    return _chosen_or_found("OPTIM_DATA_DIR", "user_data_path")


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
    """Returns where this user's processes keep their locks: below ``XDG_RUNTIME_DIR``, else below the temporary folder.

    Raises:
        OptimError[lock-folder-unusable]: it cannot be made, or it is somebody else's.
    """
    import tempfile

    from optim.errors import OptimError

    whose = os.getuid() if hasattr(os, "getuid") else ""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
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
