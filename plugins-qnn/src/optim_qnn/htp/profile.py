"""Where the nodes of a session ran, read from onnxruntime's profile of its first run.

A profile has one event for each kernel that ran, with its provider. What HTP took is compiled, one kernel for each part
of the graph, so the profile alone cannot count its nodes: for those parts onnxruntime's record of its assignment does.
A provider that was assigned nodes and ran no kernel has no share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from optim import SessionConfig
from optim.arrays import Feeds, Outputs
from optim.onnx import OnnxRuntimeSession
from optim.providers import nodes_by_provider, provider_shares
from optim_qnn.htp.targets import PROVIDER

if TYPE_CHECKING:
    import onnxruntime


class QnnSession(OnnxRuntimeSession):
    """A session on HTP alone, opened with onnxruntime's record of its assignment; the CPU is switched off."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        super().__init__(session, PROVIDER)
        self._assigned = {provider: len(nodes) for provider, nodes in nodes_by_provider(session).items()}

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Share of nodes by provider, as onnxruntime assigned them."""
        return provider_shares(self._assigned, PROVIDER)


class ProfiledSession(QnnSession):
    """A session in which nodes may fall back to the CPU; what ran where is read from a profile of its first run.

    Args:
        session: opened with the same record and :func:`profiled`.
        folder: the profile's; gone when the session is closed.
    """

    def __init__(self, session: onnxruntime.InferenceSession, folder: TemporaryDirectory[str]) -> None:
        super().__init__(session)
        self._folder, self._ran = folder, dict[str, int]()

    def run(self, feeds: Feeds) -> Outputs:
        """One run; the first is profiled."""
        outputs = super().run(feeds)
        if not self._ran:
            self._ran = ran(kernels(Path(self._session.end_profiling())), self._assigned)
            self._folder.cleanup()  # here already: a worker's process may end without closing what it opened
        return outputs

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Share of nodes by provider: where they ran; before the first run, where they were assigned."""
        return provider_shares(self._ran or self._assigned, PROVIDER)

    def close(self) -> None:
        """Let the runtime's memory and the profile go."""
        super().close()
        self._folder.cleanup()


def profiled(settings: SessionConfig, folder: Path) -> SessionConfig:
    """Session settings that write a profile below a folder."""
    options: dict[str, int | str] = {"enable_profiling": True, "profile_file_prefix": str(folder / "run")}
    return replace(settings, session_options={**settings.session_options, **options})


def kernels(profile: Path) -> dict[str, int]:
    """How many kernels of each provider ran, from a profile of onnxruntime."""
    found: dict[str, set[str]] = {}
    for event in json.loads(profile.read_text(encoding="utf-8")):
        about = event.get("args") or {}
        if event.get("cat") == "Node" and about.get("provider"):
            found.setdefault(about["provider"], set()).add(about.get("node_index") or event["name"])
    return {provider: len(names) for provider, names in found.items()}


def ran(kernels: Mapping[str, int], assigned: Mapping[str, int]) -> dict[str, int]:
    """Nodes that ran, by provider: kernels are nodes, but for HTP's, which are whole parts of the graph."""
    return {
        provider: assigned.get(provider, count) if provider == PROVIDER else count
        for provider, count in kernels.items()
    }
