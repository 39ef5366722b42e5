"""Where OpenVINO keeps what it compiled of models that ask for it."""

from __future__ import annotations

from optim.folders import cache_folder as whole_cache


def cache_folder() -> str:
    """A folder of this user's. OpenVINO makes anew what another version or processor made there."""
    folder = whole_cache() / "openvino"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
