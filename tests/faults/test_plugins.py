"""Plugins that do not import, offer nonsense, crash, hang and leave: each costs only itself."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from case import Case, hold, rows
from plugin_packages import GOOD
from test_malformed_models import ESCAPES, small
from world import Done, World

LIST = ("plugins", "list")
PASSES = ("passes", "list")
RUN = (*Case("").command, "--no-cache")
HEAD = """
import os, sys, time
from optim import APPLICABLE, Backend, Metric, Pass, PassOptions, PassResult, Target, hookimpl
OPTIM_HOOK_API = 1
"""
PASS = (
    HEAD
    + """
class Odd(Pass):
    name = "odd.pass"
    summary = "Odd."

    def applicable(self, model, target):
        {applicable}

    def apply(self, model, options, context):
        {apply}

@hookimpl
def optim_fuse(target):
    return [Odd]
"""
)


def plugin(source: str, *, entry: str = "", name: str = "odd") -> Callable[[World], None]:
    """A distribution with one plugin, on the path of this process and of what it starts."""

    def make(world: World) -> None:
        world.model.write_bytes(small().SerializeToString())
        site = world.root / "site"
        info = site / "optim_odd-1.0.dist-info"
        info.mkdir(parents=True)
        module = f"odd_{world.marker}"
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: optim-odd\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[optim.plugins]\n{name} = {module}{entry}\n")
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        world.settings["PYTHONPATH"] = str(site)

    return make


def hook(name: str, body: str, arguments: str = "") -> str:
    return f"{HEAD}\n@hookimpl\ndef {name}({arguments}):\n    {body}\n"


def odd_pass(
    apply: str = "return PassResult(model, False, ('nothing',))", applicable: str = "return APPLICABLE"
) -> str:
    return PASS.format(apply=apply, applicable=applicable)


MODULES = {
    "it raises": "raise RuntimeError('no')",
    "it raises an escape": f"raise RuntimeError({ESCAPES!r})",
    "it exits": "import sys; sys.exit(0)",
    "it interrupts nobody": "raise SystemExit('bye')",
    "it has no version of the API": "x = 1",
    "its version of the API is text": "OPTIM_HOOK_API = 'one'",
    "its version of the API is of the future": "OPTIM_HOOK_API = 999",
    "it is no Python": "((((",
    "it recurses": "def f(): f()\nf()",
    "it imports nothing that is there": "import nothing_that_is_there",
    "it writes on stdout": "print('{}')\nimport os\nos.write(1, b'noise')\nOPTIM_HOOK_API = 1",
    "it implements a hook that is none": hook("optim_melt", "return []", "target"),
    "its hook has arguments that are none": hook("optim_fuse", "return []", "a, b, c"),
    "its hook raises": hook("optim_fuse", "raise ValueError('no')", "target"),
    "its hook exits": hook("optim_fuse", "sys.exit(3)", "target"),
    "its hook returns a number": hook("optim_fuse", "return 7", "target"),
    "its hook returns text": hook("optim_fuse", "return ['text']", "target"),
    "its hook returns classes that are no passes": hook("optim_fuse", "return [int, None, object()]", "target"),
    "its targets are text": hook("optim_targets", "return ['a', None, 7]"),
    "its targets exit": hook("optim_targets", "sys.exit(3)"),
    "its backends are text": hook("optim_backends", "return ['a', None]"),
    "its metrics are text": hook("optim_metrics", "return ['a', None]"),
    "its commands are text": hook("optim_commands", "return ['a', None, 7, 'nothing:at_all']"),
    "its commands exit": hook("optim_commands", "sys.exit(3)"),
    "its pass has no name": odd_pass().replace('name = "odd.pass"', "name = ''"),
    "its pass has a name of another plugin": odd_pass().replace("odd.pass", "ort.clean"),
    "its pass has an escape for a name": odd_pass().replace('"odd.pass"', repr(f"odd.{ESCAPES}")),
    "its pass has an escape for a summary": odd_pass().replace('"Odd."', repr(ESCAPES)),
}

APPLY = {
    "it raises": "raise ValueError('no')",
    "it raises an escape": f"raise ValueError({ESCAPES!r})",
    "it exits": "sys.exit(0)",
    "it returns nothing": "return None",
    "it returns text": "return 'text'",
    "it returns another model": "return PassResult('text', True)",
    "it returns a model elsewhere": "object.__setattr__(model, 'path', '/etc/passwd'); return PassResult(model, True)",
    "it returns odd counts": "return PassResult(model, True, counts={'x': object()})",
    "it returns odd notes": "return PassResult(model, False, (object(),))",
    "it recurses": "return self.apply(model, options, context)",
    "it writes on stdout": "print('{}'); os.write(1, b'noise'); return PassResult(model, False, ('nothing',))",
    "it deletes the model": "os.unlink(model.path); return PassResult(model, True)",
    "it changes the model in place": "open(model.path, 'ab').write(b'x'); return PassResult(model, True)",
}

DIES = {
    "it aborts": "os.abort()",
    "it exits at once": "os._exit(0)",
    "it kills its group": "os.killpg(0, 9)",
    "it leaves a child": "import subprocess; subprocess.Popen(['sleep', '600']); os.abort()",
    "it closes everything": "os.closerange(0, 200)",
}

NAMED = (*RUN, "--with", "odd.pass")
TABLE = [
    *(
        Case(f"list: {name}", plugin(source), LIST, (0,), real=name in SHARED)
        for SHARED in [("it writes on stdout",)]
        for name, source in MODULES.items()
    ),
    *(
        Case(f"passes: {name}", plugin(source), PASSES, (0,), real=name in SHARED)
        for SHARED in [("it writes on stdout",)]
        for name, source in MODULES.items()
    ),
    *(
        Case(f"run: {name}", plugin(MODULES[name]), RUN, (0,))
        for name in ("it raises", "it exits", "its hook raises", "its hook returns a number", "its targets exit")
    ),
    *(
        Case(
            f"pass: {name}",
            plugin(odd_pass(body)),
            NAMED,
            (4,),
            ("failed", "pass-did-not-hold", "pass-does-not-apply", "budget-missed"),
            real=name.startswith(("it deletes", "it changes", "it writes")),
        )
        for name, body in APPLY.items()
    ),
    *(
        Case(
            f"pass: applicable: {name}",
            plugin(odd_pass(applicable=body)),
            NAMED,
            (4,),
            ("failed", "pass-does-not-apply"),
        )
        for name, body in list(APPLY.items())[:5]
    ),
    *(
        Case(f"pass: {name}", plugin(odd_pass(body)), NAMED, (4,), ("failed",), real=True)
        for name, body in DIES.items()
    ),
    Case(
        "pass: it hangs", plugin(odd_pass("time.sleep(600)")), (*NAMED, "--timeout", "4"), (4,), ("failed",), real=True
    ),
    Case("a plugin whose name is an escape", plugin(GOOD, name="odd\x1b[2J"), LIST, (0,)),
    Case("an entry point that is none", plugin(GOOD, entry=":nothing.at.all"), LIST, (0,)),
    Case("an allow list that is none", plugin(GOOD), LIST, (0,), settings={"OPTIM_ALLOW_PLUGINS": ",,,\x1b"}),
]


@pytest.fixture
def seen(world, monkeypatch):
    """What is installed beside a case is on the path of this process too."""
    monkeypatch.syspath_prepend(str(world.root / "site"))
    monkeypatch.delenv("OPTIM_DISABLE_PLUGINS", raising=False)
    return world


@rows(TABLE)
def test_a_plugin(case, seen):
    hold(case, seen)


def test_a_good_plugin_is_listed(seen):
    """Negative control: what is wrong with the others is not the way they are installed."""
    plugin(GOOD.replace("{plugin}", "odd").replace("{module}", "odd"))(seen)
    done: Done = seen.run(["passes", "list"])
    assert "odd.shrink" in done.out, done
