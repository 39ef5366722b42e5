"""How two processes talk: JSON in the frames of ``multiprocessing.connection``, never pickle, for neither is trusted.

The standard library alone: the server of an isolated plugin loads this file by its path, where there is no optim.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from typing import Any


class Talk:
    """One end of a connection, of a pipe or of a socket."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a JSON value; threads may do so at the same time.

        Raises:
            OSError: the other end is gone.
        """
        data = json.dumps(message).encode()
        with self._sending:
            self._connection.send_bytes(data)

    def receive(self, timeout_s: float | None = None, most_bytes: int | None = None) -> dict[str, Any]:
        """Wait for the other end's next message.

        Args:
            timeout_s: None: as long as it takes.
            most_bytes: that are accepted.

        Raises:
            TimeoutError: nothing came in time.
            EOFError: the other end is gone.
            OSError: the connection broke, or the message is too long.
            ValueError: it is no JSON object; with its beginning.
        """
        if timeout_s is not None and not self._connection.poll(max(0.0, timeout_s)):
            raise TimeoutError
        data = self._connection.recv_bytes(most_bytes)
        try:
            return dict(json.loads(data))
        except (TypeError, ValueError) as error:
            raise ValueError(repr(data[:80])) from error

    def close(self) -> None:
        """Give the end back."""
        self._connection.close()


def pair() -> tuple[Talk, Any]:
    """This process's end of a new pipe, and the connection that a child is to inherit."""
    own, other = Pipe()
    return Talk(own), other


def over_socket(connection: socket.socket) -> Talk:
    """A connection over a socket, which is handed over; small messages are sent at once."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Talk(Connection(connection.detach()))


def inherited(handle: int) -> Talk:
    """The end of a pipe that this process was started with; its own children do not get it."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        os.set_handle_inheritable(handle, False)
        return Talk(PipeConnection(handle))
    os.set_inheritable(handle, False)
    return Talk(Connection(handle))


class Channel:
    """The worker's side: tells the parent about progress and receives its requests.

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
