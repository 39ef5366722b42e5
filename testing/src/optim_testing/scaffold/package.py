"""The package of a new plugin: a pass that does something for each chosen stage, a target, tests."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from optim.engine.testing import PLUGIN_NAME, installed_names
from optim.errors import OptimError, disk_error
from optim.hooks import HOOK_API
from optim.passes import Stage


@dataclass(frozen=True, slots=True)
class _Sample:
    """The pass that a stage starts with, as the templates name it.

    Attributes:
        nothing_to_do: the model of ``optim_testing.models`` that it leaves alone, where that is not the usual one.
        base: the class that it is of.
        needs: other files of this package that it imports.
        is_rule: whether it is declared by a pattern and its replacement.
    """

    stage: Stage
    file: str
    class_name: str
    max_drift: float
    fires_on_everything: bool = False
    nothing_to_do: str = ""
    has_options: bool = False
    base: str = "Pass"
    needs: tuple[str, ...] = ()
    is_rule: bool = False

    @property
    def pass_name(self) -> str:
        return self.file.replace("_", "-")

    @property
    def hook(self) -> str:
        return self.stage.hook

    @property
    def stage_member(self) -> str:
        return self.stage.name


_SAMPLES = {
    sample.stage: sample
    for sample in (
        _Sample(Stage.PRE_EXPORT, "load_linear", "LoadLinear", 1e-6, base="SourcePass", needs=("linear",)),
        _Sample(Stage.EXPORT, "export_linear", "ExportLinear", 1e-5, base="Exporter", needs=("linear",)),
        _Sample(Stage.FUSE, "drop_identities", "DropIdentities", 1e-6),
        _Sample(Stage.QUANTIZE, "round_weights", "RoundWeights", 0.05, has_options=True),
        _Sample(Stage.CONVERT_PRECISION, "store_float16", "StoreFloat16", 1e-2),
        _Sample(Stage.TUNE, "one_thread", "OneThread", 1e-5, fires_on_everything=True),
        _Sample(Stage.POST_PROCESS, "add_label", "AddLabel", 1e-6, nothing_to_do="encoder"),
    )
}

_RULE = _Sample(Stage.FUSE, "fuse_softsign", "FuseSoftsign", 1e-6, is_rule=True)
"""The pass of stage fuse in ten lines."""

STAGES = tuple(_SAMPLES)
"""The stages that a new plugin can start with a pass in."""


_EXTRAS: Mapping[str, tuple[str, ...]] = {"metric": ("metric", "metric_options"), "command": ("command",)}
"""What a new plugin can start with beside passes, and its files."""


def write_package(
    name: str,
    folder: Path,
    stages: Sequence[Stage],
    *,
    own_runtime: bool = False,
    rule: bool = False,
    extras: Sequence[str] = (),
) -> list[Path]:
    """Write the package of a plugin.

    Args:
        name: of the plugin, in kebab-case; the distribution becomes ``optim-plugin-<name>``.
        folder: must not exist, or be empty; filled at the end, when everything is written.
        stages: each gets a pass.
        own_runtime: whether its target has a runtime of its own, and is no provider of onnxruntime.
        rule: whether the pass of stage fuse is a rewrite rule, declared and not a class.
        extras: of ``_EXTRAS``.

    Returns:
        The files, relative to the folder.

    Raises:
        OptimError: bad-plugin-name, plugin-name-taken, folder-not-empty, not-writable, disk-full.
    """
    module = f"optim_{name.replace('-', '_')}"
    _require_name(name, module)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptimError.usage(
            "folder-not-empty",
            f"{folder} is there already",
            "nothing in it is overwritten",
            f"optim plugins new {name} --folder another-folder",
        )
    samples = {**_SAMPLES, Stage.FUSE: _RULE} if rule else _SAMPLES
    passes = [samples[stage] for stage in STAGES if stage in stages]
    target = "target_own_runtime.py" if own_runtime else "target.py"
    files = _rendered(name, module, passes, target=target, extras=extras)
    try:
        _write(files, folder)
    except OSError as error:
        refused = disk_error(error, f"the package cannot be written to {folder}")
        if refused.reference == "not-writable":
            refused.fix = f"optim plugins new {name} --folder FOLDER, in a folder that you may write to"
        raise refused from error
    return list(files)


def _write(files: Mapping[Path, str], folder: Path) -> None:
    """All files or none; a folder that is there and empty, such as the current one, stays and is filled."""
    fill = folder.exists()
    home = folder if fill else folder.parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix=".optim-new-") as temporary:
        whole = Path(temporary) / "package"
        for path, text in files.items():
            (whole / path).parent.mkdir(parents=True, exist_ok=True)
            (whole / path).write_text(text, encoding="utf-8")
        if not fill:
            whole.rename(folder)
            return
        with ExitStack() as undo:
            for item in list(whole.iterdir()):
                item.rename(folder / item.name)
                undo.callback((folder / item.name).rename, item)
            undo.pop_all()


def _require_name(name: str, module: str) -> None:
    if not PLUGIN_NAME.fullmatch(name):
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        raise OptimError.usage(
            "bad-plugin-name",
            f"'{name}' is not a name for a plugin",
            "it must be kebab-case and begin with a letter: it becomes a package, and the prefix of its passes",
            f"optim plugins new {near}" if PLUGIN_NAME.fullmatch(near) else "optim plugins new my-vendor",
        )
    if name in installed_names() or importlib.util.find_spec(module) is not None:
        raise OptimError.usage(
            "plugin-name-taken",
            f"the plugin name '{name}' is taken",
            "a plugin or a module of that name is installed; of two plugins of one name neither is used",
            f"optim plugins list shows it; choose another name: optim plugins new {name}-2",
        )


def _rendered(
    name: str, module: str, passes: Sequence[_Sample], *, target: str, extras: Sequence[str]
) -> dict[Path, str]:
    environment = Environment(
        loader=PackageLoader("optim_testing.scaffold"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    values = {
        "plugin": name,
        "module": module,
        "distribution": f"optim-plugin-{name}",
        "passes": passes,
        "extras": extras,
        "tested": _tested(name, module, passes, extras),
        "prefix": "".join(part.capitalize() for part in name.split("-")),
        "hook_api": HOOK_API,
        "core_version": importlib.metadata.version("optim-core"),
    }
    source = Path("src") / module
    templates = {
        Path("pyproject.toml"): "pyproject.toml",
        Path("README.md"): "README.md",
        source / "plugin.py": "plugin.py",
        source / "target.py": target,
        Path("tests/test_conformance.py"): "tests/test_conformance.py",
        Path("tests/test_plugin.py"): "tests/test_plugin.py",
    }
    for sample in passes:
        template = "passes/rule" if sample.is_rule else f"passes/{sample.stage.name.lower()}"
        templates[source / f"{sample.file}.py"] = f"{template}.py"
        if sample.has_options:
            templates[source / f"{sample.file}_options.py"] = f"{template}_options.py"
        templates |= {source / f"{file}.py": f"passes/{file}.py" for file in sample.needs}
    for extra in extras:
        templates |= {source / f"{file}.py": f"{file}.py" for file in _EXTRAS[extra]}
    files = {path: environment.get_template(f"{template}.j2").render(values) for path, template in templates.items()}
    files[source / "__init__.py"] = f'"""optim for {name}."""\n'
    files[source / "py.typed"] = ""
    return files


def _tested(name: str, module: str, passes: Sequence[_Sample], extras: Sequence[str]) -> list[str]:
    """The imports of the plugin's own tests, in order."""
    prefix = "".join(part.capitalize() for part in name.split("-"))
    named = {one.file: [one.class_name] for one in passes} | {"target": ["TARGET", f"{prefix}Backend"]}
    if any("linear" in one.needs for one in passes):
        named["linear"] = ["Linear"]
    if extras:
        named["plugin"] = [f"optim_{extra}s" for extra in sorted(extras)]
    return [f"from {module}.{file} import {', '.join(names)}" for file, names in sorted(named.items())]
