"""The delivered page in headless Chromium: a sample goes in as a visitor gives it, outputs are compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optim import ExitStatus, OptimError
from optim.arrays import Array, Feeds, Outputs
from optim.backend import Check, Delivery
from optim_prepost import PACKAGE
from optim_prepost.plans.plan import StepPlan
from optim_prepost.web.agreement import expected_of, require_equal, sample_of
from optim_prepost.web.packages import PUPPETEER, node, require

NAME = "opens in Chromium"
_SCREENSHOT = "page.png"
_DRIVER = Path(__file__).with_name("chromium.mjs")
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S = 180.0


def find_chromium() -> str | None:
    """The path of a Chromium on this machine."""
    return next((found for name in _PROGRAMS if (found := shutil.which(name))), None)


def check_in_chromium(delivery: Delivery, plan: StepPlan | None) -> Check:
    """Open the page, give it a sample, compare its outputs, and keep a picture of it.

    Raises:
        OptimError[page-failed]: the page did not open the model, or said so.
        OptimError[page-differs]: it gives other outputs than the model that was judged.
    """
    browser = find_chromium()
    if browser is None:
        return Check(NAME, "skipped", f"there is no Chromium on this machine ({', '.join(_PROGRAMS[:3])})")
    try:
        require(PUPPETEER)
    except OptimError as error:
        return Check(NAME, "skipped", f"{error.what}: {error.cause}")
    feeds = sample_of(delivery, plan)
    got = run_page(delivery.folder, feeds, browser, delivery.folder / _SCREENSHOT)
    drift = require_equal(expected_of(delivery, feeds), got, "in Chromium")
    version = subprocess.run([browser, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Check(NAME, "passed", f"{version.split(' built')[0]}, drift {drift:.2g}; {_SCREENSHOT} shows the page")


def run_page(
    folder: Path, feeds: Feeds, browser: str, screenshot: Path | None = None, *, picture: Path | None = None
) -> Outputs:
    """Give the page of a run folder one sample, and read what comes out.

    Args:
        folder: of the run.
        feeds: what the model takes; pixels go in as a PNG file, by the page's own picker.
        browser: path of Chromium.
        screenshot: where to keep a picture of the page.
        picture: a file for the picker, in place of the feeds.

    Raises:
        OptimError[page-failed]: the page did not open the model, or said so.
    """
    from optim_prepost.web.serve import ServedFolder

    with tempfile.TemporaryDirectory(prefix="optim-page-") as scratch, ServedFolder(folder) as served:
        request = {
            "puppeteer": str(require(PUPPETEER)),
            "browser": browser,
            "url": served.url,
            "profile": f"{scratch}/profile",
            "screenshot": str(screenshot) if screenshot else None,
            **_given(feeds, picture, Path(scratch)),
        }
        asked = Path(scratch) / "request.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        answer = Path(scratch) / "answer.json"
        try:
            done = subprocess.run(
                [node(), str(_DRIVER), str(asked), str(answer)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _failed(f"it did not finish within {_TIMEOUT_S:.0f} s") from error
        if not answer.is_file():
            raise _failed(done.stderr.strip()[-600:] or f"its driver ended with status {done.returncode}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in found:
        raise _failed(found["error"])
    return {name: _array(one) for name, one in found["outputs"].items()}


def _given(feeds: Feeds, picture: Path | None, scratch: Path) -> dict[str, Any]:
    """Pixels as a file for the picker; other feeds as arrays for ``model.run``."""
    from PIL import Image

    only = next(iter(feeds.values())) if len(feeds) == 1 else None
    if picture is None and only is not None and only.dtype == np.uint8 and only.ndim == 3 and only.shape[2] == 3:
        picture = scratch / "sample.png"
        Image.fromarray(np.ascontiguousarray(only)).save(picture)
    if picture is not None:
        return {"file": str(picture)}
    return {"feeds": {name: _sent(array) for name, array in feeds.items()}}


def _sent(array: Array) -> dict[str, Any]:
    kind = "string" if array.dtype.kind in "SUO" else array.dtype.name
    data = [str(word) for word in array.ravel()] if kind == "string" else array.ravel().tolist()
    return {"type": kind, "dims": list(array.shape), "data": data}


def _array(one: Mapping[str, Any]) -> Array:
    dtype = np.dtype(object) if one["type"] == "string" else np.dtype(one["type"])
    return np.array(one["data"], dtype=dtype).reshape(one["dims"])


def _failed(cause: str) -> OptimError:
    return OptimError(
        "page-failed",
        "the page of the run folder does not work in Chromium",
        cause,
        "optim web serve DIR shows it in your own browser",
        PACKAGE,
        ExitStatus.NOT_HELD,
    )
