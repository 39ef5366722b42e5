"""After a pass broke: whether the store is as it was, and if not, making it so again.

Files of the store are called by the digest of their bytes, so damage shows. What is damaged is deleted and made
anew: the original from the user's file, a model that passes made by those passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from optim._engine.graphs.user_files import stamps_of, still_there
from optim._engine.jobs import ingest
from optim._engine.store import Store, cache_key
from optim.errors import OptimError
from optim.onnx.data_files import file_digest
from optim.onnx.external_data import external_files
from optim.onnx.files import is_whole


def restore(path: Path, make: Callable[[], Path], store: Store) -> bool:
    """See to it that a graph of the store and its weights are what their names say.

    Args:
        path: of the graph.
        make: makes the graph, and data files of it that are not there; called after what is damaged was deleted.
        store: knows what was read before and looks as it did then: 4 GB take minutes to read on a busy machine.

    Returns:
        Whether anything had to be made anew.

    Raises:
        OptimError[store-damaged]: it does not come out the same.
    """
    for found_before in range(3):  # the graph, then the data files that a whole one names, then a last look
        damaged = damaged_files(path, store)
        if not damaged:
            return found_before > 0
        for file in (*damaged, path):
            file.unlink(missing_ok=True)
        if make() != path:
            break
    raise OptimError(
        "store-damaged",
        "a plugin damaged a model in the cache, and optim cannot make it again",
        path.name,
        "leave that plugin's passes out (--without); optim cache prune --max-size 0 empties the cache",
    )


def damaged_files(path: Path, store: Store) -> list[Path]:
    """Files of a graph in the store that are gone, or are not what their names say."""
    if not _is_whole(path, store):
        return [path]
    return [file for name in external_files(path) if not _is_whole(file := path.parent / name, store)]


def _is_whole(path: Path, store: Store) -> bool:
    if not path.is_file():
        return False
    stamps = stamps_of([path])
    key = cache_key("whole", [asdict(stamp) for stamp in stamps]) if stamps else ""
    if key:
        known = store.read("steps", key, bool)
        if known:
            return True
    whole = file_digest(path) == path.stem
    if key and whole:
        store.write("steps", key, whole)
    return whole


def is_as_it_was(store: Store, known: ingest.Answer) -> bool:
    """Whether neither the user's files nor those of the store changed since."""
    return still_there(known.read) and is_whole(known.model.path) and not damaged_files(known.model.path, store)
