"""What all conformance classes are: their tests run in a process of their own, each with a time limit."""

from __future__ import annotations

from typing import ClassVar


class Kit:
    """A class of tests that hold something of a plugin's to its contract.

    pytest has them run by a process of their own, one for each file: what ends that process or never comes back fails
    its test, and the next test has a new process. ``--pdb``, ``--trace`` and ``-s`` keep them in pytest's own process.

    Attributes:
        seconds: time limit of each test, with its fixtures.
    """

    seconds: ClassVar[float] = 120.0
