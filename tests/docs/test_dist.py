"""What ``make dist`` publishes is every package here, with every plugin; and what it refuses to publish."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dist", ROOT / "packaging" / "dist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_is_built_and_every_plugin_must_be_listed(script: ModuleType) -> None:
    assert sorted(script.FOLDERS) == sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml"))
    ours = {tomllib.loads(path.read_text("utf-8"))["project"]["name"] for path in ROOT.glob("*/pyproject.toml")}
    installed = {entry.name for entry in entry_points(group="optim.plugins") if entry.dist.name in ours}
    assert script.plugins_of(*script.FOLDERS) == sorted(installed)
    assert "ort" in script.plugins_of("plugins")
    assert script.plugins_of("core") == []


def test_the_small_programs_that_try_the_wheels_can_be_read(script: ModuleType) -> None:
    for program in (script.SMALL_RUN, script.RUN_ON_WORKER):
        compile(program, "dist.py", "exec")


def test_a_python_is_found_by_its_version_and_one_that_is_not_there_is_none(script: ModuleType) -> None:
    found = script.find(f"{sys.version_info[0]}.{sys.version_info[1]}")
    told = subprocess.check_output([found, "-c", "import sys; print(sys.version_info[:2])"], text=True)
    assert told.strip() == str(sys.version_info[:2])
    assert script.find("3.0") is None


METADATA = """Metadata-Version: 2.4
Name: a
Version: 1
License-Expression: Apache-2.0
Keywords: onnx
Classifier: Development Status :: 3 - Alpha
Description-Content-Type: text/markdown

# a
"""


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["a/py.typed", "a-1.dist-info/licenses/LICENSE"], ""),
        (["a/py.typed"], "has no LICENSE"),
        (["LICENSE"], "has no py.typed"),
        (["a/py.typed", "LICENSE", "a/__pycache__/b.pyc"], "has compiled files"),
    ],
)
def test_a_wheel_without_types_or_license_or_with_compiled_files_is_refused(
    script: ModuleType, tmp_path: Path, names: list[str], why: str
) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        archive.writestr("a-1.dist-info/METADATA", METADATA)
    with tarfile.open(tmp_path / "a-1.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a-1/LICENSE"), io.BytesIO())
    if not why:
        script._require_files(wheel)
        return
    with pytest.raises(SystemExit, match=why):
        script._require_files(wheel)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("# a\n", "", "has no README"),
        ("License-Expression: Apache-2.0\n", "", "has no license expression"),
        ("3 - Alpha", "4 - Beta", "claims more than alpha"),
        ("Keywords: onnx\n", "", "has no keywords"),
        ("Keywords:", "Classifier: License :: OSI Approved\nKeywords:", "has a license classifier"),
        ("Keywords:", "Project-URL: Home, https://example.org\nKeywords:", "names an address"),
    ],
)
def test_metadata_that_an_index_would_show_wrongly_is_refused(
    script: ModuleType, before: str, after: str, why: str
) -> None:
    script._require_metadata("a", message_from_string(METADATA))
    with pytest.raises(SystemExit, match=why):
        script._require_metadata("a", message_from_string(METADATA.replace(before, after)))
