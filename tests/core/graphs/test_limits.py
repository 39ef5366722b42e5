"""What a backend can open at all: opset, IR version, operator domains."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from feed_models import FLOAT, build, describe_model, helper, value, write

from optim._engine.graphs.limits import check_limits
from optim.backend import BackendLimits
from optim.errors import OptimError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


LIMITS = BackendLimits(ir_version=10, opset={"": 21, "ai.onnx.ml": 4})


def relu(path, **options):
    node = helper.make_node("Relu", ["x"], ["y"], name="act", domain=options.pop("domain", ""))
    return write(build([node], [value("x", FLOAT, [1])], [value("y", FLOAT, [1])], **options), path)


def test_formats_within_the_limits_pass_and_unused_domains_do_not_matter(path):
    check_limits(relu(path, opset=21, ir_version=10, domains=("com.unused",)), LIMITS, "thing")


@pytest.mark.parametrize(
    ("options", "reference", "newest"),
    [
        ({"opset": 22}, "opset-too-new", "21"),
        ({"ir_version": 11}, "ir-too-new", "10"),
        ({"domain": "my.ops", "domains": ("my.ops",)}, "unknown-domain", "ai.onnx, ai.onnx.ml"),
    ],
)
def test_formats_beyond_the_limits_name_the_newest_accepted(path, options, reference, newest):
    with pytest.raises(OptimError) as caught:
        check_limits(relu(path, **options), LIMITS, "thing")
    assert caught.value.reference == reference
    assert newest in caught.value.cause
    assert "thing" in caught.value.what


def test_a_node_without_a_name_is_called_by_what_it_makes(path):
    node = helper.make_node("Frob", ["x"], ["y"], domain="my.ops")
    model = write(build([node], [value("x", FLOAT, [1])], [value("y", FLOAT, [1])], domains=("my.ops",)), path)
    with pytest.raises(OptimError, match=r"the node that makes 'y' is my\.ops:Frob"):
        check_limits(model, LIMITS, "thing")


def test_a_domain_that_the_model_defines_itself_is_known(path):
    function = helper.make_function(
        "my", "Relu", ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    check_limits(relu(path, domain="my", domains=("my",), functions=[function]), LIMITS, "thing")


def test_the_fix_is_a_command_that_writes_the_users_model_as_it_is_accepted(path):
    with pytest.raises(OptimError) as caught:
        check_limits(relu(path, opset=22, ir_version=11), LIMITS, "thing")
    command = shlex.split(caught.value.fix.partition("or convert it: ")[2])
    subprocess.run([sys.executable, *command[1:]], cwd=path.parent, check=True)
    check_limits(describe_model(path.parent / "older-model.onnx"), LIMITS, "thing")
