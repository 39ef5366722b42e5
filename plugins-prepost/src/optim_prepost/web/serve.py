"""``optim web serve DIR``: the page of a run folder, shown on this machine only."""

from __future__ import annotations

import io
import threading
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from optim import OptimError
from optim_prepost import PACKAGE

_LOCAL = "127.0.0.1"
_NAMES = (_LOCAL, "localhost")


class _Handler(SimpleHTTPRequestHandler):
    """Files of one folder; isolated from other pages, so that the browser lets WASM have threads."""

    extensions_map = {  # noqa: RUF012 - the base class has it so
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".onnx": "application/octet-stream",
    }

    def parse_request(self) -> bool:
        """Take requests only that name this server: another name that leads here is some other page's trick."""
        if not super().parse_request():
            return False
        port = self.connection.getsockname()[1]
        if self.headers.get("Host", "") not in {f"{name}:{port}" for name in _NAMES}:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return False
        return True

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Files that really lie in the folder: no link leads out of it, and no name is impossible."""
        try:
            inside = Path(self.translate_path(self.path)).resolve().is_relative_to(Path(self.directory).resolve())
        except (OSError, ValueError):
            inside = False
        if not inside:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """The headers that isolate a page."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Say nothing: the terminal is for the person who started it."""


class ServedFolder:
    """A folder on a port of this machine; a context manager that stops serving at its end.

    Args:
        folder: with an ``index.html``.
        port: 0 for any that is free.

    Raises:
        OptimError[not-a-web-folder]: a run for target web did not write it.
        OptimError[port-in-use]: something else serves there.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not (folder / "index.html").is_file() or not (folder / "plan.json").is_file():
            raise OptimError.usage(
                "not-a-web-folder",
                f"{folder} has no page",
                "there is no index.html with its plan.json",
                "make one: optim run MODEL -o DIR --target web",
                PACKAGE,
            )
        try:
            self._server = ThreadingHTTPServer((_LOCAL, port), partial(_Handler, directory=str(folder)))
        except OSError as error:
            raise OptimError.usage(
                "port-in-use",
                f"port {port} cannot be used",
                error.strerror or str(error),
                "name another: --port 8001",
                PACKAGE,
            ) from error
        self.url = f"http://{_LOCAL}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
