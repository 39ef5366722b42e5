"""Target web without a model: Node and its packages, the folder that is served, the words of a plan."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from optim import OptimError, SessionConfig
from optim_prepost.compose.compose import METADATA
from optim_prepost.web import packages
from optim_prepost.web.deliver import PAGE, plan_of
from optim_prepost.web.serve import ServedFolder
from optim_prepost.web.settings import web_options
from optim_prepost.web.tables import judge, tables


def test_without_node_the_target_is_unavailable_with_the_reason(monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    assert "there is no Node" in packages.unavailable()
    with pytest.raises(OptimError) as missing:
        packages.node()
    assert missing.value.reference == "node-missing"


def test_without_npm_nothing_is_installed_and_that_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIM_NPM_DIR", str(tmp_path / "npm"))
    monkeypatch.setattr(packages.shutil, "which", lambda name: "/bin/node" if name == "node" else None)
    assert "npm" in packages.unavailable()
    with pytest.raises(OptimError) as missing:
        packages.require(packages.ONNXRUNTIME_WEB)
    assert missing.value.reference == "npm-missing"
    assert [path.name for path in (tmp_path / "npm").iterdir()] == [".onnxruntime-web.lock"]


def test_a_folder_for_packages_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPTIM_NPM_DIR", str(tmp_path / "file" / "npm"))
    with pytest.raises(OptimError, match="the package onnxruntime-web of npm could not be kept") as refused:
        packages.require(packages.ONNXRUNTIME_WEB)
    assert refused.value.reference == "not-writable"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm on this machine")
def test_without_a_network_npm_is_quoted_in_a_few_lines_and_nothing_is_left(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIM_NPM_DIR", str(tmp_path / "npm"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(OptimError) as failed:
        packages.require(packages.ONNXRUNTIME_WEB)
    assert failed.value.reference == "npm-failed"
    assert "ECONNREFUSED" in failed.value.cause
    assert len(failed.value.cause.splitlines()) <= 4
    assert [path.name for path in (tmp_path / "npm").iterdir()] == [".onnxruntime-web.lock"]


def test_a_folder_is_served_isolated_and_on_this_machine_only(tmp_path):
    with pytest.raises(OptimError) as refused:
        ServedFolder(tmp_path)
    assert refused.value.reference == "not-a-web-folder"
    (tmp_path / "index.html").write_text("<p>page", encoding="utf-8")
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    (tmp_path / "a.mjs").write_text("1", encoding="utf-8")
    with ServedFolder(tmp_path) as served:
        with urllib.request.urlopen(served.url + "a.mjs", timeout=200) as answer:
            assert answer.headers["Content-Type"] == "text/javascript"
            assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        with pytest.raises(urllib.error.HTTPError) as absent:
            urllib.request.urlopen(served.url + "../secret", timeout=200)
        absent.value.close()
        port = int(served.url.rsplit(":", 1)[1].strip("/"))
        with pytest.raises(OptimError) as taken:
            ServedFolder(tmp_path, port)
        assert taken.value.reference == "port-in-use"


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/index.html", None, 200),
        ("/index.html", "localhost:PORT", 200),
        ("/link", None, 404),
        ("/folder/secret", None, 404),
        ("/.%00./", None, 404),
        ("/%2e%2e/secret", None, 404),
        ("/index.html", "evil.example", 421),
        ("/index.html", "127.0.0.1:1", 421),
    ],
)
def test_what_is_served_lies_in_the_folder_and_is_asked_of_this_server(tmp_path, capfd, path, host, status):
    (tmp_path / "secret").write_text("s", encoding="utf-8")
    web = tmp_path / "web"
    web.mkdir()
    for name in ("index.html", "plan.json"):
        (web / name).write_text("{}", encoding="utf-8")
    (web / "link").symlink_to(tmp_path / "secret")
    (web / "folder").symlink_to(tmp_path)
    with ServedFolder(web) as served:
        port = served.url.rsplit(":", 1)[1].strip("/")
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=200)
        connection.request("GET", path, headers={"Host": host.replace("PORT", port)} if host else {})
        assert connection.getresponse().status == status
        connection.close()
    assert capfd.readouterr().err == ""


def test_session_settings_have_the_names_of_onnxruntime_web():
    level = SessionConfig({"graph_optimization_level": "ORT_ENABLE_BASIC", "intra_op_num_threads": 2}, {}, ("A", "B"))
    assert web_options(level) == {
        "graphOptimizationLevel": "basic",
        "extra": {"optimization": {"disable_specified_optimizers": "A;B"}},
    }
    with pytest.raises(OptimError, match="does not have a session setting"):
        web_options(SessionConfig({"execution_mode": "ORT_PARALLEL"}))


def test_operators_are_judged_at_their_opset():
    assert tables()["version"] == packages.ONNXRUNTIME_WEB[1]
    assert judge("webgpu", ["Conv", "MatMul", "Constant"], 18).missing == ()
    assert judge("webgpu", ["Conv", "NoSuchOperator"], 18).missing == ("NoSuchOperator",)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node on this machine")
def test_the_page_tells_the_time_of_a_call_and_what_is_usual():
    script = f"""
      import {{ timesText }} from {json.dumps((PAGE / "times.mjs").as_uri())};
      const told = [[[12.34], 'wasm', 1], [[90, 10, 12, 11], 'wasm', 4], [[9, 8, 7], 'webgpu', 2]];
      console.log(JSON.stringify(told.map((one) => timesText(...one))));
    """
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        "this call 12.3 ms, the first: call again for a warm time; onnxruntime-web on WASM, 1 thread",
        "this call 11.0 ms; 4 calls, median 11.0 ms without the first; onnxruntime-web on WASM, 4 threads",
        "this call 7.0 ms; 3 calls, median 7.5 ms without the first; onnxruntime-web on WebGPU",
    ]


def test_the_page_tells_that_a_file_can_be_dropped():
    assert "drop it here, or choose a file" in (PAGE / "page.mjs").read_text(encoding="utf-8")


def test_nothing_of_the_page_asks_for_something_outside_its_folder():
    for path in sorted(Path(PAGE).iterdir()):
        assert "http" not in path.read_text(encoding="utf-8").replace("http-equiv", ""), path.name


PLAN = {"inputs": [], "task": {"tokenizer": {"vocab_or_file": "/etc/passwd"}}, "samples": "/etc"}


NO_PLANS = ["", "[]", "7", "{}", '{"plan": 7}', "[" * 100_000, '{"plan": {"inputs": [], "task": 7}}']


@pytest.mark.parametrize("words", ["/etc/passwd", {"a": 10**12}, {"a": -1}, {"a": "0"}, ["a"], None])
def test_a_plan_of_anybody_names_no_file_that_is_read(words):
    task = {"tokenizer": {"vocab_or_file": words}, "labels": ["a"]}
    plan = plan_of({METADATA: json.dumps({"plan": {**PLAN, "task": task}})})
    assert plan.samples == ""
    assert plan.task == {"labels": ["a"]}
    known = {"tokenizer": {"vocab_or_file": {"a": 0, "b": 1}}}
    assert plan_of({METADATA: json.dumps({"plan": {**PLAN, "task": known}})}).task == known


@pytest.mark.parametrize("text", NO_PLANS, ids=range(len(NO_PLANS)))
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(OptimError) as refused:
        plan_of({METADATA: text})
    assert refused.value.reference == "bad-plan"
