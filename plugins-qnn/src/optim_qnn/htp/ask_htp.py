"""Ask HTP which nodes of a graph it takes, and why it does not take the others.

The answer is onnxruntime's own: its assignment of nodes to providers, and the reasons that its QNN provider logs while
it looks at each of them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from optim import OptimError, SessionConfig, Target

_VERBOSE: dict[str, bool | int | str] = {"log_severity_level": 0, "graph_optimization_level": "ORT_DISABLE_ALL"}
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_NODE = re.compile(r"Operator type: \S+ Node name: (?P<name>.+) Node index: \d+$")
_REASON = re.compile(r"REASON : (?P<reason>.+)$")
_CHECKED = re.compile(r"backendValidateOpConfig\(\) failed for node `(?P<name>.+)` of type `(?P<type>.+)` with error")
_WARNING = re.compile(r"^\S+ \S+ \[[WE]:onnxruntime:[^\]]*\] (?P<text>.+)$")
_NOT_SET_UP = re.compile(r"QNN SetupBackend failed (?P<why>.+)$", re.MULTILINE)
_NO_REASON = "HTP runs none of its neighbours, and a part with this node only is not worth a transfer"


@dataclass(frozen=True, slots=True)
class Answer:
    """What HTP said of a graph.

    Attributes:
        left: names of the nodes that it leaves to others, and why, where it said so.
        failure: why no session could be opened at all; nothing is known of the nodes then.
    """

    left: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


def ask_htp(path: Path, target: Target) -> Answer:
    """Open a graph with the fallback admitted, whatever the target says, and read who took what.

    Args:
        path: the graph, with fixed shapes.
        target: HTP; floats are computed in float16 where its chip has it.
    """
    from optim.onnx import open_session
    from optim.providers import RECORD_ASSIGNMENT, nodes_by_provider

    options = {**target.provider_options, "enable_htp_fp16_precision": "1"}
    target = replace(target, provider_options=options, fallback=True)
    with native_stderr() as log:
        try:
            session = open_session(path, SessionConfig(_VERBOSE), target, extra_config=RECORD_ASSIGNMENT)
        except OptimError as error:
            return Answer(failure=error.cause)
        assigned = nodes_by_provider(session)
        text = log.read_text(encoding="utf-8", errors="replace")
    if failure := not_set_up(text):
        return Answer(failure=failure)
    reasons = reasons_in(text)
    others = (name for provider, names in assigned.items() if provider != target.provider for name in names)
    return Answer({name: reasons.get(name, _NO_REASON) for name in others})


def not_set_up(log: str) -> str:
    """Why the provider could not start HTP, from its log; empty where it did. The session then runs on the CPU."""
    found = _NOT_SET_UP.search(_COLOR.sub("", log))
    return " ".join(found["why"].split()) if found else ""


def reasons_in(log: str) -> dict[str, str]:
    """Why nodes were refused, by name, from the log of the provider; the last word on a node counts."""
    found: dict[str, str] = {}
    checked: set[str] = set()
    warning = name = ""
    for line in _COLOR.sub("", log).splitlines():
        if match := _CHECKED.search(line):
            checked.add(match["name"])
        elif match := _WARNING.match(line):
            warning = match["text"]
        if match := _NODE.search(line):
            name = match["name"].strip()
        elif match := _REASON.search(line):
            found[name] = _in_words(match["reason"], name in checked, warning)
            warning = ""
    return found


def _in_words(reason: str, checked: bool, warning: str) -> str:
    if "are not supported by QNN EP" in reason:
        return "onnxruntime's QNN provider does not have this operator"
    if checked:
        return "HTP refuses these types, shapes or attributes"
    text = reason if reason.rstrip(".") != "Failed to add node" or not warning else warning
    text = re.sub(r"^\S+\.(cc|h):\d+ \S+ ", "", text)
    return re.sub(r"\s*\S+ node `[^`]*` will not be assigned to QNN EP\.?", "", text).rstrip(".")


@contextmanager
def native_stderr() -> Iterator[Path]:
    """What native libraries write to stderr meanwhile, in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        kept = os.dup(2)
        with path.open("wb") as stream:
            os.dup2(stream.fileno(), 2)
            try:
                yield path
            finally:
                os.dup2(kept, 2)
                os.close(kept)
