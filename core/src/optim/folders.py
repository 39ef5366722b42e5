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
