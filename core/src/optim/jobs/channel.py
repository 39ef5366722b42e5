"""The worker's side of the conversation."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

from optim.jobs.talk import Talk


class Channel:
    """Tells the parent about progress and receives its requests.

    Messages to the parent are ``{"event": ..., ...}``, ``{"doing": ...}`` and ``{"calling": ...}`` during the work,
    then ``{"result": ...}`` or ``{"error": ...}``.
    """

    def __init__(self, talk: Talk, requests: queue.Queue[dict[str, Any]]) -> None:
        self._talk = talk
        self._requests = requests

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message to the parent."""
        self._talk.send(message)

    def event(self, name: str, /, **values: Any) -> None:
        """Tells the parent about an event; ``values`` are JSON values."""
        self.send({"event": name, **values})

    def receive(self) -> dict[str, Any]:
        """Waits for the next message of the parent."""
        return self._requests.get()
