"""The worker's side of the conversation: one JSON object a line."""

from __future__ import annotations

import json
import queue
from typing import Any, BinaryIO


class Channel:
    """Tells the parent what happens and receives what it asks next.

    Lines to the parent are ``{"event": ..., ...}`` and ``{"doing": ...}`` while work goes on, then
    ``{"result": ...}`` or ``{"error": ...}``.
    """

    def __init__(self, answers: BinaryIO, requests: queue.Queue[bytes]) -> None:
        self._answers = answers
        self._requests = requests

    def send(self, message: dict[str, Any]) -> None:
        """Write one line to the parent."""
        self._answers.write(json.dumps(message).encode() + b"\n")
        self._answers.flush()

    def event(self, name: str, /, **values: Any) -> None:
        """Say that something happened; ``values`` are JSON values."""
        self.send({"event": name, **values})

    def doing(self, what: str) -> None:
        """Say what the worker is busy with, for the case that it dies of it; empty where it is done."""
        self.send({"doing": what})

    def receive(self) -> dict[str, Any]:
        """Wait for the parent's next line."""
        message: dict[str, Any] = json.loads(self._requests.get())
        return message
