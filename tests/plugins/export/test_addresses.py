"""Models by address: a server on this machine, a filled cache of huggingface_hub, and no network."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from optim._engine.api.request import default_output
from optim._engine.sources.export_file import files_of
from optim._engine.sources.naming import fetched, is_address
from optim.errors import OptimError
from optim_plugins.diagnose.inspect.command import inspect
from optim_plugins.export.remote.hub_address import HubAddress, hub_address

pytest.importorskip("huggingface_hub")
hub_constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "a" * 40


def save_model(path: Path, *, fill: float = 1.0, location: str = "model.onnx_data") -> Path:
    """A product whose weight lies beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy"]
    weight = numpy_helper.from_array(np.full((64, 64), fill, np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


class Server(ThreadingHTTPServer):
    """Files by path, with their digest as a tag; what was asked is noted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.asked, self.cut, self.heads = folder, [], False, True
        self.served: dict[str, Path] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        path = self.server.served.get(self.path) or self.server.folder / self.path.lstrip("/")
        if not path.is_file() or not (body or self.server.heads):
            self.send_response(404 if body else 405)
            self.send_header("X-Error-Code", "EntryNotFound")  # as the hub tells a file from a repository
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content[: len(content) // 2] if self.server.cut else content)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of their own, no proxy, and no word of the user's on being offline."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub_constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "served") as found:
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        yield found
        found.shutdown()


def said_nothing(text: str) -> None:
    raise AssertionError(f"nothing is to be brought: {text}")


def refused(spec: str) -> OptimError:
    with pytest.raises(OptimError) as found:
        fetched(spec, lambda text: None)
    return found.value


def weight_of(path: Path) -> float:
    return float(numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0, 0])


def test_a_url_is_downloaded_with_its_weights_and_asked_about_afterwards(server: Server) -> None:
    save_model(server.folder / "deep" / "model.onnx")
    url, said = f"{server.url}/deep/model.onnx", []
    path = fetched(url, said.append)
    assert (path.name, weight_of(path), said) == ("model.onnx", 1.0, [f"downloading {url}"])
    assert fetched(url, said_nothing) == path
    assert server.asked[-1] == "HEAD /deep/model.onnx"
    save_model(server.folder / "deep" / "model.onnx", fill=2.0, location="other.data")
    newer = fetched(url, said.append)
    assert weight_of(newer) == 2.0 and not path.exists()


def test_without_the_server_the_copy_is_taken(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(server.folder / "model.onnx")
    url = f"{server.url}/model.onnx"
    path = fetched(url, lambda text: None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = len(server.asked)
    assert fetched(url, said_nothing) == path
    assert len(server.asked) == asked, "offline nothing is asked"
    monkeypatch.delenv("HF_HUB_OFFLINE")
    server.shutdown()
    server.server_close()
    said: list[str] = []
    assert fetched(url, said.append) == path
    assert said == [f"{url} cannot be reached: optim uses the copy that it downloaded before"]
    other = refused(f"{server.url}/other.onnx")
    assert other.reference == "address-offline" and "does not answer" in other.cause


def test_offline_a_url_that_is_not_here_is_one_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(server.folder / "model.onnx")
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    error = refused(f"{server.url}/model.onnx")
    assert (error.reference, server.asked) == ("address-offline", [])
    assert "HF_HUB_OFFLINE forbids the network" in error.cause


def test_half_a_download_is_none(server: Server, tmp_path: Path) -> None:
    save_model(server.folder / "model.onnx")
    server.cut = True
    assert refused(f"{server.url}/model.onnx").reference == "address-offline"
    assert not list((tmp_path / "cache" / "downloads").rglob("*.onnx"))


@pytest.mark.parametrize("name", ["missing.onnx", "model.zip", "folder/"])
def test_a_url_of_nothing_is_said(server: Server, name: str) -> None:
    error = refused(f"{server.url}/{name}")
    assert error.reference == ("address-not-found" if name == "missing.onnx" else "bad-address")


@pytest.mark.parametrize(
    "name", ["..%2F..%2F..%2Fmodel.onnx", "..%5C..%5Cmodel.onnx", "%2Fabsent%2Fmodel.onnx", "C%3Amodel.onnx"]
)
def test_a_url_names_no_place_on_this_machine(server: Server, tmp_path: Path, name: str) -> None:
    made = save_model(tmp_path / "made" / "model.onnx")
    server.served[f"/{name}"] = made
    server.served["/model.onnx_data"] = made.with_name("model.onnx_data")
    path = fetched(f"{server.url}/{name}", lambda text: None)
    assert path.name == "model.onnx" and path.resolve().is_relative_to(tmp_path / "cache" / "downloads")


@pytest.mark.parametrize(
    "url", ["http://[x/m.onnx", "http://x:port/m.onnx", "http://x/\u00e9.onnx", "http://x/%00.onnx"]
)
def test_what_is_no_url_is_said(url: str) -> None:
    assert refused(url).reference == "bad-address"


def test_a_server_that_answers_downloads_alone_is_asked_for_one_each_time(server: Server) -> None:
    save_model(server.folder / "model.onnx")
    server.heads = False
    for fill in (1.0, 2.0):
        save_model(server.folder / "model.onnx", fill=fill, location=f"{fill}.data")
        assert weight_of(fetched(f"{server.url}/model.onnx", lambda text: None)) == fill


def test_a_graph_from_elsewhere_asks_for_no_file_of_this_machine(server: Server, tmp_path: Path) -> None:
    path = save_model(server.folder / "model.onnx")
    graph = onnx.load(path, load_external_data=False)
    graph.graph.initializer[0].external_data[0].value = "../../secret"
    path.write_bytes(graph.SerializeToString())
    error = refused(f"{server.url}/model.onnx")
    assert error.reference == "external-data-outside"
    assert not any("secret" in asked for asked in server.asked)


def fill_hub(tmp_path: Path, repo: str = "org/name") -> Path:
    """The cache of huggingface_hub as it leaves it: links to blobs."""
    root = tmp_path / "hub" / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / COMMIT
    made = save_model(tmp_path / "made" / "model.onnx")
    for file in (made, made.with_name("model.onnx_data")):
        blob = root / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(file.read_bytes())
        (snapshot / "onnx").mkdir(parents=True, exist_ok=True)
        (snapshot / "onnx" / file.name).symlink_to(blob)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    return snapshot


def test_a_filled_cache_of_the_hub_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_hub(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = fetched("hf://org/name/onnx/model.onnx", lambda text: None)
    assert path.name == "model.onnx" and weight_of(path) == 1.0
    assert not path.is_symlink() and fetched(f"hf://org/name@{COMMIT}/onnx/model.onnx", lambda text: None) == path
    error = refused("hf://org/name/onnx/other.onnx")
    assert error.reference == "address-offline" and "HF_HUB_OFFLINE forbids the network" in error.cause
    assert refused("hf://org/else/model.onnx").reference == "address-offline"


def test_a_graph_of_the_hub_brings_what_belongs_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = fill_hub(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("config.json", "tokenizer.json", "1_Pooling/config.json", "README.md", "onnx/tokenizer.json"):
        (snapshot / name).parent.mkdir(exist_ok=True)
        (snapshot / name).write_text(name)
    path = fetched("hf://org/name/onnx/model.onnx", lambda text: None)
    assert files_of(path, None) == path.parent
    found = {str(file.relative_to(path.parent)): file for file in path.parent.rglob("*") if file.is_file()}
    assert set(found) == {"model.onnx", "model.onnx_data", "config.json", "tokenizer.json", "1_Pooling/config.json"}
    assert not any(file.is_symlink() for file in found.values())
    assert found["tokenizer.json"].read_text() == "onnx/tokenizer.json", "what lies beside the graph is nearer"


def test_a_model_folder_of_the_hub_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = fill_hub(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = refused("hf://org/name")
    assert error.reference == "address-not-found" and "onnx/model.onnx" in error.fix
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"")
    assert fetched("hf://org/name", lambda text: None) == snapshot
    assert default_output(snapshot).name == "name-optim"


def test_the_hub_is_asked_through_huggingface_hub(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(server.folder / "org/name/resolve/main/model.onnx")
    for file in ("model.onnx", "model.onnx_data"):
        to = server.folder / f"org/name/resolve/{COMMIT}" / file
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes((server.folder / "org/name/resolve/main" / file).read_bytes())
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(hub_constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(hub_constants, "ENDPOINT", server.url)
    path = fetched("hf://org/name/model.onnx", lambda text: None)
    assert weight_of(path) == 1.0
    assert (tmp_path / "hub" / "models--org--name" / "snapshots" / COMMIT / "model.onnx_data").exists()
    assert refused("hf://org/name/none.onnx").reference == "address-not-found"


def test_a_connection_to_the_hub_that_breaks_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import HTTPError

    def breaking(*_: Any, **__: Any) -> None:
        raise HTTPError("peer closed connection")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", breaking)
    error = refused("hf://org/name/model.onnx")
    assert error.reference == "address-offline" and "peer closed connection" in error.cause


def test_a_command_takes_an_address(server: Server) -> None:
    save_model(server.folder / "model.onnx")
    done = CliRunner().invoke(inspect, [f"{server.url}/model.onnx"], standalone_mode=False)
    assert done.exception is None and "MatMul" in done.output


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ("hf://org/name", HubAddress("org/name", None, "")),
        ("hf://org/name@v1/onnx/m.onnx", HubAddress("org/name", "v1", "onnx/m.onnx")),
        ("hf://org/name/m.onnx", HubAddress("org/name", None, "m.onnx")),
    ],
)
def test_an_address_of_the_hub_has_parts(spec: str, address: HubAddress) -> None:
    assert is_address(spec) and hub_address(spec) == address


@pytest.mark.parametrize("spec", ["hf://", "hf://org", "hf://org/name/../x.onnx", "hf://-org/a--b/x.onnx"])
def test_what_is_no_address_of_the_hub_is_refused(spec: str) -> None:
    assert refused(spec).reference == "bad-address"


@pytest.mark.parametrize("spec", ["model.onnx", "https:/host/model.onnx", "org/name"])
def test_a_path_is_no_address(spec: str) -> None:
    assert not is_address(spec)
