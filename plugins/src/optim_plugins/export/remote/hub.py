"""``hf://``: files of the Hugging Face hub, through huggingface_hub and its cache, tokens and offline rules."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from optim.engine.export import CARRIED, needs_export
from optim.errors import ExitStatus, OptimError
from optim.layout import carry_files
from optim_plugins.export.remote.hub_address import HubAddress, bad_hub_address, hub_address, is_offline, offline
from optim_plugins.export.remote.kept import bring_model, downloads

_SOURCE_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.py")
"""What a model folder is exported from: no pickles, and no weights of other frameworks."""


def from_hub(spec: str, say: Callable[[str], None]) -> Path:
    """A file of a repository with what it refers to, its config and tokenizer; or the folder of a source.

    The graph is copied out of the hub's cache, whose links to content onnx refuses for weights beside a graph.

    Raises:
        OptimError: as :meth:`optim_plugins.export.remote.origins.Hub.fetch`.
    """
    address = hub_address(spec)
    with _told(spec):
        if not address.file:
            return _source_folder(address, say)
        say(f"looking for {spec}")
        first = _download(address, address.file)
        inside = PurePosixPath(address.file)
        # a file of the cache lies at snapshots/COMMIT/FILE: another commit is another folder of ours
        commit = first.parents[len(inside.parts) - 1].name
        key = hashlib.sha256(f"{address.repo}@{commit}/{address.file} with files".encode()).hexdigest()[:24]

        def get(name: str, to: Path) -> None:
            found = first if name == inside.name else _download(address, str(inside.parent / name), commit)
            shutil.copyfile(found, to)

        def get_more(folder: Path) -> None:
            _bring_files(address.repo, commit, inside.parent, folder)

        return bring_model(downloads() / key, inside.name, get, get_more)


def _bring_files(repo: str, commit: str, inside: PurePosixPath, folder: Path) -> None:
    """Config, tokenizer and pooling that belong to a graph, from its folder of the repository and those above it.

    Args:
        repo: organization and name.
        commit: of the repository.
        inside: the folder of the graph there.
        folder: where to.
    """
    from huggingface_hub import snapshot_download

    within = [inside, *inside.parents]
    patterns = [str(place / name) for place in within for name in CARRIED]
    snapshot = snapshot_download(repo, revision=commit, allow_patterns=patterns, local_files_only=is_offline())
    for place in within:
        carry_files(Path(snapshot) / place, folder)


def _source_folder(address: HubAddress, say: Callable[[str], None]) -> Path:
    """The folder of a repository as the cache has it.

    Raises:
        OptimError[address-not-found]: it has nothing that can be exported.
    """
    from huggingface_hub import snapshot_download

    say(f"looking for hf://{address.repo}")
    folder = Path(
        snapshot_download(
            address.repo, revision=address.revision, allow_patterns=list(_SOURCE_FILES), local_files_only=is_offline()
        )
    )
    if not needs_export(str(folder)):
        raise OptimError(
            "address-not-found",
            f"hf://{address.repo} has no model that can be exported",
            "there is no config.json with weights as safetensors in it",
            f"name a file: hf://{address.repo}/onnx/model.onnx",
            status=ExitStatus.BAD_INPUT,
        )
    return folder


def _download(address: HubAddress, file: str, revision: str | None = None) -> Path:
    from huggingface_hub import hf_hub_download

    asked = revision or address.revision
    return Path(hf_hub_download(address.repo, file, revision=asked, local_files_only=is_offline()))


@contextmanager
def _told(spec: str) -> Iterator[None]:
    """What huggingface_hub raises, as errors of ours."""
    try:
        from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is of httpx or httpx2
            HfHubHTTPError,
            HFValidationError,
            HTTPError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
        )
    except ImportError as error:
        raise OptimError.usage(
            "hub-missing", f"{spec} needs huggingface_hub", "it is not installed", "pip install 'huggingface_hub>=1.0'"
        ) from error
    try:
        yield
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError) as error:
        raise offline(spec, "huggingface_hub does not have it in its cache") from error
    except HfHubHTTPError as error:  # no such repository, revision or file, or not for this user
        said = str(error).strip().splitlines()
        raise OptimError(
            "address-not-found",
            f"{spec} cannot be downloaded",
            said[-1] if said else type(error).__name__,
            "check the name on huggingface.co; for a private or gated model: hf auth login",
        ) from error
    except HTTPError as error:  # of the library below it, where a connection broke too often
        raise offline(spec, f"the download is incomplete ({error})") from error
    except HFValidationError as error:
        raise bad_hub_address(spec, str(error)) from error
