"""Where optim keeps what is not the user's own: the cache, and environments of isolated plugins."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``OPTIM_CACHE_DIR``, else the platform's cache folder of this user; what is in it can be made again."""
    if chosen := os.environ.get("OPTIM_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("optim")


def data_folder() -> Path:
    """``OPTIM_DATA_DIR``, else the platform's data folder of this user."""
    if chosen := os.environ.get("OPTIM_DATA_DIR"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("optim")


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
