"""Which layouts the user asks for: names with options, found among what plugins offer, refused before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from optim.engine.layouts import LayoutRequest, Registry, read_mark
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.layout import Layout
from optim.options import PassOptions, parse_options, written_options


@dataclass(frozen=True, slots=True)
class AskedLayout:
    """A layout that was asked for.

    Attributes:
        text: as the user wrote it.
        layout: an instance of what the plugin offers.
        options: of it.
        plugin: that offers it, with its distribution and version.
    """

    text: str
    layout: Layout
    options: PassOptions
    plugin: str

    @contextmanager
    def blaming(self, what: str, *passing: type[Exception]) -> Iterator[None]:
        """Whatever else than an OptimError the layout raises is a defect of its plugin.

        Args:
            what: it could not do, to follow its name.
            passing: what is none either.

        Raises:
            OptimError[layout-failed]: it raised such a thing.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, (OptimError, *passing)):
                raise
            raise OptimError(
                "layout-failed",
                f"layout {self.layout.name} {what}",
                describe_exception(error),
                "report this to the package below, which brings it",
                self.plugin,
                ExitStatus.NOT_HELD,
            ) from error


def ask(registry: Registry, request: LayoutRequest) -> tuple[AskedLayout, ...]:
    """Find what the user named.

    Args:
        registry: of the plugins.
        request: what the user wrote.

    Raises:
        OptimError[unknown-layout]: nobody offers it; lists the near ones.
        OptimError[bad-option]: options that cannot be read or do not fit. Also unknown-option.
        OptimError[layout-twice]: two of one name would take each other's place.
        OptimError[no-such-files]: ``files`` is no folder, or ``python`` is no file.
    """
    files, python = request.files, request.python
    if files is not None and not files.is_dir():
        raise _not_there(f"--files {files}", "there is no such folder", "name the folder that has config.json")
    if python is not None and not python.is_file():
        raise _not_there(
            f"--python {python}",
            "there is no such file",
            "give the path of a Python interpreter: --python .venv/bin/python",
        )
    found = tuple(_asked(registry, text) for text in request.texts)
    names = [one.layout.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise OptimError.usage(
                "layout-twice",
                f"layout {name} was asked for twice",
                "both would be in one folder",
                f"name one of them, and the other later: optim deliver RUN_FOLDER --layout {name}:... -o DIR",
            )
    return found


def require_files(layouts: Iterable[AskedLayout], files: Path | None) -> None:
    """Refuse what cannot be laid out, before anybody waits for it.

    Raises:
        OptimError[layout-refused]: says what is missing.
        OptimError[layout-failed]: the plugin of a layout broke.
    """
    for one in layouts:
        with one.blaming("could not say what it needs"):
            reason = one.layout.refuse(files, one.options)
        if reason:
            raise OptimError.usage(
                "layout-refused",
                f"the result cannot be delivered as {one.layout.name}",
                reason,
                "--files FOLDER names the folder that has it, e.g. the one that the model was exported from",
                one.plugin,
            )


def require_places(layouts: Iterable[AskedLayout], folder: Path) -> None:
    """Refuse what a run cannot lay out into its own folder.

    Raises:
        OptimError[folder-taken]: the user has something of that name there.
    """
    mark = read_mark(folder)
    ours = set(mark.holds.files if mark and mark.holds else ())
    for one in layouts:
        place = folder / one.layout.name
        if not one.layout.in_place and place.exists() and place.name not in ours:
            raise OptimError.usage(
                "folder-taken",
                f"nothing is written to {place}",
                "it is there, and not of an earlier run",
                "move it away, or name another folder after -o",
            )


def _asked(registry: Registry, text: str) -> AskedLayout:
    name, _, options = text.partition(":")
    values = written_options(name, options, example="--deliver \"triton:name='encoder',instances=2\"")
    offer = registry.offer("layout", name)
    kind: type[Layout] = offer.value
    return AskedLayout(text, kind(), parse_options(kind, values, "optim deliver --help"), offer.plugin.release)


def _not_there(what: str, cause: str, fix: str) -> OptimError:
    return OptimError.usage("no-such-files", f"{what} cannot be used", cause, fix)
