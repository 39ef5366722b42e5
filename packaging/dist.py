"""Builds the eight distributions, and tries them from their wheels alone in every Python that is there.

python packaging/dist.py                  # into dist/: eight sdists, and a wheel made of each
python packaging/dist.py --pythons 3.11   # try them in these only

The first Python also tries each distribution, and a plugin of a third party, alone on core; ``--no-matrix`` does not.

Each trial is a fresh environment with nothing of this checkout: `pip check`, `optim --plugins list`, and a small run
whose model is opened. A worker of a second environment, with what a board needs and no more, then does a run's work.
Needs the packages `build` and `hatchling` in the Python that runs it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = (
    "core",
    "plugins",
    "plugins-qnn",
    "plugins-inc",
    "plugins-prepost",
    "plugins-openvino",
    "plugins-fleet",
    "testing",
)
PYTHONS = ("3.11", "3.12", "3.13")
SMALL_RUN = """
import pathlib, optim
from optim_testing import models

model = models.mlp(pathlib.Path())
report = optim.run(model, "out", search_seconds=1, data={"x": [[0.5] * 32] * 4})
print(report.status, optim.load("out").get_inputs()[0].name, optim.__file__)
assert report.result and any(step.pass_name == "ort.clean" for step in report.steps), report.reason
assert "site-packages" in optim.__file__
"""
RUN_ON_WORKER = """
import os, pathlib, subprocess, sys, distributed, optim
from optim_testing import models

model, (worker, cache) = models.mlp(pathlib.Path()), sys.argv[1:]
with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
    command = [worker, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1", "--no-nanny"]
    command += ["--no-dashboard", "--resources", "optim-clock-cpu=1", "--local-directory", cache]
    with subprocess.Popen(command, env={**os.environ, "OPTIM_CACHE_DIR": cache}) as process:
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(1, timeout=120)
            report = optim.run(model, "far", goal="size", search_seconds=20, cluster=cluster.scheduler_address)
        finally:
            process.kill()
print(report.status, report.machine.cores)
assert report.result and any(pathlib.Path(cache, "models").iterdir()), report.reason
"""


def build(out: Path) -> list[Path]:
    """Make an sdist of each package, and a wheel of each sdist: what is published builds without this checkout."""
    shutil.rmtree(out, ignore_errors=True)
    for folder in FOLDERS:
        _call([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT / folder)], quiet=True)
    wheels = sorted(out.glob("*.whl"))
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    strange = [file.name for file in out.iterdir() if f"-{version}" not in file.name]
    if len(wheels) != len(FOLDERS) or strange:
        raise SystemExit(f"expected {len(FOLDERS)} wheels of {version}, there are {wheels}; {strange}")
    for wheel in wheels:
        _require_files(wheel)
    return wheels


def plugins_of(*folders: str) -> list[str]:
    """Names of the plugins that packages bring, as their pyproject.toml says."""
    found: list[str] = []
    for folder in folders:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        found += project.get("entry-points", {}).get("optim.plugins", {})
    return sorted(found)


def _require_files(wheel: Path) -> None:
    """A wheel has its types and its license, and nothing that is compiled."""
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("py.typed", "LICENSE"):
        if not any(name.endswith(wanted) for name in names):
            raise SystemExit(f"{wheel.name} has no {wanted}")
    if any("__pycache__" in name for name in names):
        raise SystemExit(f"{wheel.name} has compiled files")
    _require_metadata(wheel.name, metadata_of(wheel))
    sdist = next(wheel.parent.glob(f"{wheel.name.split('-')[0]}-*.tar.gz"))
    with tarfile.open(sdist) as archive:
        if not any(name.endswith("/LICENSE") for name in archive.getnames()):
            raise SystemExit(f"{sdist.name} has no LICENSE")


def metadata_of(wheel: Path) -> Message:
    """The METADATA file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        place = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(place))


def _require_metadata(name: str, metadata: Message) -> None:
    """What an index shows of a package: its README and its license by PEP 639, no address that leads nowhere."""
    classifiers = metadata.get_all("Classifier") or []
    problems = {
        "has no README": metadata["Description-Content-Type"] != "text/markdown" or not metadata.get_payload(),
        "has no license expression": metadata["License-Expression"] != "Apache-2.0",
        "has a license classifier, which PEP 639 replaced": any(one.startswith("License ::") for one in classifiers),
        "has no keywords": not metadata["Keywords"],
        "claims more than alpha": "Development Status :: 3 - Alpha" not in classifiers,
        "names an address": bool(metadata.get_all("Project-URL") or metadata["Home-page"]),
    }
    found = [problem for problem, is_there in problems.items() if is_there]
    if found:
        raise SystemExit(f"{name} {', '.join(found)}")


def find(version: str) -> str | None:
    """A Python of this version that runs, or None."""
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}*/bin/python"))
    for candidate in (f"python{version}", *map(str, reversed(pyenv)), sys.executable):
        asked = [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def try_in(python: str, wheels: list[Path]) -> None:
    """Install the wheels into a fresh environment, and use them from a folder that has nothing else."""
    with tempfile.TemporaryDirectory(prefix="optim-dist-") as name:
        folder = Path(name)
        _call([python, "-m", "venv", str(folder / "env")])
        own = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        core, *others = sorted(wheels, key=lambda wheel: not wheel.name.startswith("optim_core"))
        _call([str(own / "python"), "-m", "pip", "install", "--quiet", f"{core}[cpu]", *map(str, others)])
        _call([str(own / "python"), "-m", "pip", "check"])
        work = folder / "work"
        work.mkdir()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"OPTIM_CACHE_DIR": str(folder / "cache")}
        listed = subprocess.check_output([str(own / "optim"), "--plugins", "list"], text=True, env=environment)
        print(listed, flush=True)
        rows = {line.split("\t")[0] for line in listed.splitlines()}
        absent = sorted(set(plugins_of(*FOLDERS)) - rows)
        if absent:
            raise SystemExit(f"not listed: {', '.join(absent)}")
        subprocess.run([str(own / "python"), "-c", SMALL_RUN], check=True, cwd=work, env=environment)
        _call([python, "-m", "venv", str(folder / "worker")])
        worker = str(folder / "worker" / own.name / "python")
        there = [str(wheel) for wheel in others if wheel.name.startswith(("optim_plugins-", "optim_plugin_fleet-"))]
        _call([worker, "-m", "pip", "install", "--quiet", f"{core}[cpu]", *there])
        not_there = set(plugins_of(*FOLDERS)) - set(plugins_of("plugins", "plugins-fleet"))
        environment["OPTIM_DISABLE_PLUGINS"] = ",".join(not_there)
        far = [str(own / "python"), "-c", RUN_ON_WORKER, worker, str(folder / "far-cache")]
        subprocess.run(far, check=True, cwd=work, env=environment)


ALONE = {"": (), "third party": ("acme",)} | {folder: plugins_of(folder) for folder in FOLDERS if folder != "core"}
"""Beside core: a folder of this checkout, and the plugins that must be listed as they are elsewhere."""
MODEL = """
import onnx
from onnx import TensorProto, helper

ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), "model.onnx")
"""


def try_alone(python: str, wheels: list[Path], folder: str) -> None:
    """Install core and one more distribution into a fresh environment, and see what works and what is said.

    Raises:
        SystemExit: a plugin is not listed or has failed, or a missing plugin is not named with what installs it.
    """
    print(f"core and {folder or 'nothing else'}", flush=True)
    wheel_of = {wheel.name.split("-")[0]: wheel for wheel in wheels}
    with tempfile.TemporaryDirectory(prefix="optim-alone-") as name:
        work = Path(name)
        _call([python, "-m", "venv", str(work / "env")])
        own = work / "env" / ("Scripts" if os.name == "nt" else "bin")
        packages = [f"{wheel_of['optim_core']}[cpu]"]
        if folder == "third party":
            packages.append(str(shutil.copytree(ROOT / "tests" / "thirdparty" / "acme", work / "acme")))
        elif folder:
            project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            packages.append(str(wheel_of[project["name"].replace("-", "_")]))
        _call([str(own / "python"), "-m", "pip", "install", "--quiet", *packages])
        _call([str(own / "python"), "-m", "pip", "check"], quiet=True)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"OPTIM_CACHE_DIR": str(work / "cache"), "OPTIM_DATA_DIR": str(work / "data")}

        def optim(*words: str) -> subprocess.CompletedProcess[str]:
            command = [str(own / "optim"), *words]
            return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)

        listed = {row.split("\t")[0]: row for row in optim("--plugins", "list").stdout.splitlines()[1:]}
        if set(listed) != set(ALONE[folder]) or any("failed" in row for row in listed.values()):
            raise SystemExit(f"listed: {listed}")
        subprocess.run([str(own / "python"), "-c", MODEL], cwd=work, env=environment, check=True)
        run = optim("run", "model.onnx", "-o", "out", "--search-seconds", "1")
        far = optim("run", "hf://org/name/model.onnx", "-o", "far")
        laid = optim("run", "model.onnx", "-o", "laid", "--search-seconds", "1", "--deliver", "onnxruntime")
        doctor = optim("plugins", "doctor")
        meant = optim("help", "errors/model-missing")
        if meant.returncode or "there is no" not in meant.stdout:
            raise SystemExit(meant.stdout + meant.stderr)
        if folder == "plugins":
            if run.returncode or laid.returncode or doctor.returncode or "no plugin" in run.stderr:
                raise SystemExit("".join(tried.stdout + tried.stderr for tried in (run, laid, doctor)))
        elif not all(
            tried.returncode == 2 and "pip install ./plugins" in tried.stderr for tried in (run, far, laid, doctor)
        ):
            raise SystemExit("".join(tried.stdout + tried.stderr for tried in (run, far, laid, doctor)))
        if folder == "testing" and optim("plugins", "new", "mine").returncode:
            raise SystemExit("optim plugins new does not work with optim-testing alone")


def _call(command: list[str], *, quiet: bool = False) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)


def main() -> None:
    """Build, and try in each Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="by default those that there are of %(default)s")
    parser.add_argument("--no-matrix", action="store_true", help="do not try each distribution alone on core")
    words = parser.parse_args()
    wheels = build(words.out)
    print("built", *(wheel.name for wheel in wheels), sep="\n  ", flush=True)
    tried = []
    for version in words.pythons.split(","):
        python = find(version)
        if python is None:
            print(f"Python {version} is not here: not tried", flush=True)
            continue
        print(f"Python {version}: {python}", flush=True)
        if not tried and not words.no_matrix:
            for folder in ALONE:
                try_alone(python, wheels, folder)
        try_in(python, wheels)
        tried.append(version)
    if not tried:
        raise SystemExit("no Python was there to try the wheels in")
    print(f"the wheels work in Python {', '.join(tried)}")


if __name__ == "__main__":
    main()
