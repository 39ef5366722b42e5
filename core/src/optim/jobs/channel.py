"""The worker's side of the conversation."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

from optim.jobs.talk import Talk


class Channel:
    """Tells the parent what happens and receives what it asks next.

    Messages to the parent are ``{"event": ..., ...}``, ``{"doing": ...}`` and ``{"calling": ...}`` while work goes on,
    then ``{"result": ...}`` or ``{"error": ...}``.
    """

    def __init__(self, talk: Talk, requests: queue.Queue[dict[str, Any]]) -> None:
        self._talk = talk
        self._requests = requests

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the parent something."""
        self._talk.send(message)

    def event(self, name: str, /, **values: Any) -> None:
        """Say that something happened; ``values`` are JSON values."""
        self.send({"event": name, **values})

    def receive(self) -> dict[str, Any]:
        """Wait for what the parent says next."""
        return self._requests.get()
