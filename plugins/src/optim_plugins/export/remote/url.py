"""``https://`` and ``http://``: an ``.onnx`` file and the weights beside it, kept until the server has others."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from optim.engine.export import read_json
from optim.errors import OptimError
from optim_plugins.export.remote.hub_address import is_offline, offline
from optim_plugins.export.remote.kept import bring_model, downloads, forget

_PATIENCE_S = 30.0
"""Without a byte: a server that is slower than that will not bring a model."""


def from_url(url: str, say: Callable[[str], None]) -> Path:
    """The file that a URL leads to, with the files that it refers to.

    A copy is kept with the tag that the server gives it (``ETag`` or ``Last-Modified``), and asked about each time;
    offline, and if the server cannot be reached, the copy is used as it is.

    Raises:
        OptimError: as :meth:`optim_plugins.export.remote.origins.Https.fetch`.
    """
    try:
        return _brought(url, say)
    except (ValueError, http.client.InvalidURL) as error:  # brackets, letters or a port that no address has
        raise _bad_address(url, "is no address", str(error)) from error


def _brought(url: str, say: Callable[[str], None]) -> Path:
    """Raises ValueError too, of an address that cannot be asked for."""
    # unquoted before it is split: '..%2Fx.onnx', '..%5Cx.onnx' and 'C%3Ax.onnx' are no names of files
    name = re.split(r"[/\\:]", unquote(urlsplit(url).path))[-1]
    if not name.endswith(".onnx") or "\0" in name:
        raise _bad_address(url, "leads to no .onnx file", f"its last part is {name!r}")
    place = downloads() / hashlib.sha256(url.encode()).hexdigest()[:24]
    known = _known(place)
    if is_offline():
        if known is None:
            raise offline(url, "it was not downloaded before")
        return known[0]
    try:
        tag = _tag(url)
        if known is not None and tag and known[1] == tag:
            return known[0]
        say(f"downloading {url}")
        return _download(url, name, place, tag)
    except HTTPError as error:
        with error:
            raise OptimError(
                "address-not-found",
                f"{url} cannot be downloaded",
                f"the server says {error.code} {error.reason}",
                "open the address in a browser and correct it",
            ) from error
    except http.client.InvalidURL:
        raise
    except (URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        if known is not None:
            say(f"{url} cannot be reached: optim uses the copy that it downloaded before")
            return known[0]
        raise offline(url, f"the server does not answer ({getattr(error, 'reason', None) or error})") from error


def _bad_address(url: str, what: str, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-address", f"{url} {what}", cause, "name the file itself, as https://host/folder/model.onnx"
    )


def _download(url: str, name: str, place: Path, tag: str) -> Path:
    """A new copy, which takes the place of the one before once it is whole."""

    def get(file: str, to: Path) -> None:
        address = url if file == name else urljoin(url, quote(file))
        with _opened(address, "GET") as answer, to.open("wb") as stream:
            shutil.copyfileobj(answer, stream)
            told = answer.headers.get("Content-Length")
            if told is not None and int(told) != stream.tell():
                raise http.client.IncompleteRead(b"", int(told) - stream.tell())

    version = place / hashlib.sha256(tag.encode()).hexdigest()[:12]
    place.mkdir(exist_ok=True)
    if not tag:
        forget(version)  # nobody can say whether it is the same
    path = bring_model(version, name, get)
    before = _known(place)
    (place / "now.json").write_text(json.dumps({"folder": version.name, "name": name, "tag": tag}), encoding="utf-8")
    if before is not None and before[0].parent != version:
        forget(before[0].parent)
    return path


def _known(place: Path) -> tuple[Path, str] | None:
    """The copy that was made last, and its tag; marks it as used."""
    try:
        said: dict[str, Any] = read_json(place / "now.json")
        path = place / said["folder"] / said["name"]
        if not path.is_file():
            return None
        os.utime(place)
        return path, str(said["tag"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tag(url: str) -> str:
    """What tells this content from another; empty where the server does not say, or answers downloads alone."""
    try:
        with _opened(url, "HEAD") as answer:
            return answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    except HTTPError as error:
        error.close()
        return ""


def _opened(url: str, method: str) -> http.client.HTTPResponse:
    asked = Request(url, method=method, headers={"User-Agent": "optim"})
    answer: http.client.HTTPResponse = urlopen(asked, timeout=_PATIENCE_S)
    return answer
