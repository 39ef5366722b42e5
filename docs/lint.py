"""Check the prose of the pages and of the command line: sentences, words, links, and command lines.

usage: python docs/lint.py [--all]

Prints each finding with its file and line, and exits with 1 if there is one. Vale would need a program that no package
index has, so these are a few rules of our own. ``--all`` also checks the pages in UNCLEAN.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from optim._engine.cli.error_catalogue import text_of

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))
import make_errors  # noqa: E402
import make_pages  # noqa: E402

UNCLEAN: frozenset[str] = frozenset()
"""Pages whose prose is not checked yet. Links and command lines of them are."""

MOST_WORDS = 35
"""Words of a sentence."""

_LEAST_WORDS = 4
"""Words of a string in the code that is taken for a text: shorter ones are names and keys."""

OPENINGS = ("What", "Where", "Of", "Who", "Whoever", "That")
"""Words that begin a sentence whose subject comes late. Questions may begin so."""

BANNED = {
    r"(?:the|your|these|its|own|synthesized|of) feeds": "input samples",
    r"made[- ]up": "synthesized",
    r"fresh rounds": "the final timing",
    r"quick looks?": "a first timing",
    r"goes? before": "overrides",
    r"makes? way": "name who needs it",
    r"held against": "compared with",
    r"contend(s|ed|er|ers)?": "finalists",
    r"whoever": "name the person or program",
    r"for want of": "without",
    r"mend(s|ed)?": "fix",
    r"told by": "name who says it",
    r"is told": "name who says it to whom",
    r"as long as there is none": "unless",
}
"""Words that nobody outside of this project uses so, with a better one."""

_FOR_DEVELOPERS = {"architecture.md"}
"""Pages that say themselves that users need none of them."""

MOST_PAGES, MOST_PAGE_WORDS = 30, 35_000
"""Of all written pages for users together: what one person can keep in order, and another can find something in."""

_NOT_PAGES = {"CHANGELOG.md", "benchmarks/README.md"}
"""A history, and a list of scripts for those who measure."""

_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[\w.-]+)?\)")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[)\"']*\s+(?=[A-Z0-9`*\[(]|(?:optim|onnx|onnxruntime|torch|neural-compressor)\b)"
)
_ITEM = re.compile(r"\s*(?:[-*] |\d+\. )")


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and where.

    Attributes:
        place: a file below the root, or the command whose help it is.
        line: from 1; 0 for a help text.
        text: what is wrong, and what to write.
    """

    place: str
    line: int
    text: str

    def __str__(self) -> str:
        """As compilers print it."""
        return f"{self.place}:{self.line}: {self.text}" if self.line else f"{self.place}: {self.text}"


def findings(*, unclean: Iterable[str] = UNCLEAN) -> list[Finding]:
    """Everything that is wrong in README.md, docs/ and the help texts."""
    made = make_pages.pages()
    paths = [
        *ROOT.glob("*.md"),
        *DOCS.glob("*.md"),
        *(path.with_name("README.md") for path in ROOT.glob("*/pyproject.toml")),
    ]
    places = {path.relative_to(ROOT).as_posix(): path for path in sorted(paths)}
    own = {f"docs/{path}" for path in made} | _NOT_PAGES
    written = {place: path.read_text("utf-8") for place, path in places.items() if place not in own}
    generated = {f"docs/{path}": text for path, text in made.items()}
    checked = {place: text for place, text in (written | generated).items() if place not in unclean}
    found = [one for place, text in checked.items() for one in prose(place, text)]
    found += [one for place, text in written.items() for one in commands_of(place, text)]
    found += too_much(user_pages())
    found += broken_links(written | generated)
    return found + list(of_help_texts()) + list(of_strings())


def user_pages() -> dict[str, int]:
    """Words of each page for users: those of docs/ that are written by hand; code counts."""
    made = set(make_pages.pages())
    pages = [path for path in sorted(DOCS.glob("*.md")) if path.name not in made | _FOR_DEVELOPERS]
    return {path.name: len(path.read_text("utf-8").split()) for path in pages}


def too_much(words: Mapping[str, int]) -> Iterator[Finding]:
    """A finding if there are too many pages or too many words in them."""
    if len(words) > MOST_PAGES:
        yield Finding("docs", 0, f"there are {len(words)} pages for users, more than {MOST_PAGES}: join or delete some")
    if (total := sum(words.values())) > MOST_PAGE_WORDS:
        yield Finding("docs", 0, f"the pages for users have {total:,} words, more than {MOST_PAGE_WORDS:,}")


def prose(place: str, text: str) -> Iterator[Finding]:
    """The findings in the sentences of a page of Markdown."""
    for line, sentence in sentences(text):
        yield from of_sentence(place, line, sentence)


def of_sentence(place: str, line: int, sentence: str) -> Iterator[Finding]:
    """The findings in one sentence; code does not count."""
    plain = _CODE.sub("code", sentence)
    first = re.match(r"[^\w\[#]*([A-Za-z]+)", plain)  # neither the title of a page nor a heading is a sentence
    if first and first[1] in OPENINGS and not plain.rstrip().endswith("?"):
        yield Finding(place, line, f"a sentence begins with '{first[1]}': put the subject first: {sentence[:60]}")
    words = len(re.findall(r"\S*\w\S*", plain))
    if words > MOST_WORDS:
        yield Finding(place, line, f"a sentence has {words} words, more than {MOST_WORDS}: {sentence[:60]}")
    for pattern, better in BANNED.items():
        if found := re.search(rf"\b{pattern}\b", plain, re.IGNORECASE):
            yield Finding(place, line, f"'{found[0]}': write {better}: {sentence[:60]}")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a page with their lines: of paragraphs, items of lists, headings and cells of tables."""
    for line, block in _blocks(text):
        parts = [cell.strip() for cell in re.split(r"(?<!\\)\|", block)] if block.startswith("|") else [block]
        for part in parts:
            cleaned = re.sub(r"\]\([^)]*\)", "]", part)
            yield from ((line, one) for one in _SENTENCE_END.split(cleaned) if re.search(r"\w", one))


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Pieces of text that belong together, each with the line where it begins; code is left out."""
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        stops = fence or fenced or not line.strip() or line.startswith(("#", "|", "    ")) or bool(_ITEM.match(line))
        if stops and block:
            yield start, " ".join(block)
            block = []
        if fence:
            fenced = not fenced
        elif not fenced and line.startswith(("#", "|")):
            yield number, line
        elif not fenced and line.strip() and not line.startswith("    "):
            start = start if block else number
            block.append(_ITEM.sub("", line, count=1).strip())


def broken_links(pages: Mapping[str, str]) -> Iterator[Finding]:
    """Links from one page to a file or a heading that is not there."""
    for place, text in pages.items():
        for number, line in enumerate(text.splitlines(), 1):
            for target, anchor in _LINK.findall(line):
                aim = posixpath.normpath(posixpath.join(posixpath.dirname(place), target)) if target else place
                if aim not in pages and not (ROOT / aim).exists():
                    yield Finding(place, number, f"there is no {target}")
                elif anchor and aim in pages and anchor[1:] not in anchors(pages[aim]):
                    yield Finding(place, number, f"{aim} has no heading {anchor}")


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands_of(place: str, text: str) -> Iterator[Finding]:
    """Command lines of optim in a page that the parser of optim refuses."""
    for number, line, whole in _command_lines(text):
        for words in _optim_calls(line):
            if reason := refused(words, whole=whole):
                yield Finding(place, number, f"{reason}: optim {' '.join(words)}")


def _command_lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines of code and code in sentences; whether a line of code must be a whole command."""
    joined, start, fenced = "", 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            start = start if joined else number
            joined += line.strip().removeprefix("$ ")
            if joined.endswith("\\"):
                joined = joined[:-1] + " "
                continue
            yield start, joined, True
            joined = ""
        else:
            yield from ((number, code[1:-1], False) for code in _CODE.findall(line))


def _optim_calls(line: str) -> Iterator[list[str]]:
    """The words behind ``optim``, for each call in a line of shell."""
    if not re.match(r"(?:[A-Z_]+=\S+ )*optim [a-z-]|(?:for|while) .*\boptim [a-z]", line):
        return
    parser = shlex.shlex(line, posix=True, punctuation_chars="|&;>")
    parser.whitespace_split = True
    parser.commenters = "#"
    try:
        words = list(parser)
    except ValueError:
        return
    call: list[str] | None = None
    for word in [*words, ";"]:
        if set(word) <= set("|&;>"):
            if call:
                yield call
            call = None
        elif call is not None and word != "...":
            call.append(word)
        elif word == "optim":
            call = []


def refused(words: list[str], *, whole: bool) -> str:
    """Why the parser of optim refuses these words; empty if it takes them.

    Args:
        words: behind ``optim``.
        whole: False: a mention in a sentence, in which arguments and values of options may be missing.
    """
    from optim._engine.cli.main import optim

    context = click.Context(optim, info_name="optim")
    command: click.Command = optim
    left = list(words)
    while isinstance(command, click.Group):
        options = [name for one in command.params for name in one.opts]
        while left and left[0] in options:
            left = left[1 if left[0] in ("--debug", "--json", "--verbose", "-V", "--version") else 2 :]
        if not left or left[0] in ("--help", "-h") or not re.fullmatch(r"[a-z][a-z-]*", left[0]):
            return ""
        found = make_pages.command_of(command, left[0])
        if found is None:
            return f"there is no command {left[0]}"
        command, context = found, click.Context(found, parent=context, info_name=left.pop(0))
    if "--help" in left:
        return ""
    try:
        given, extra, _ = command.make_parser(context).parse_args(args=left)
    except click.UsageError as error:
        return "" if not whole and "requires" in error.format_message() else error.format_message()
    if extra:
        return f"{extra[0]} is too much"
    for parameter in command.params:
        value = given.get(parameter.name)
        if whole and parameter.required and not (isinstance(value, str | tuple | list) and value):
            return f"{parameter.human_readable_name} is missing"
        for one in (value if isinstance(value, list | tuple) else [value]) if value is not None else []:
            if isinstance(parameter.type, click.Choice) and isinstance(one, str) and one not in parameter.type.choices:
                return f"{parameter.human_readable_name} cannot be {one}"
    return ""


def of_help_texts() -> Iterator[Finding]:
    """The findings in what ``--help`` prints and in the examples of commands."""
    from optim._engine.cli.main import optim

    for path, command in make_pages.commands(optim):
        place = f"optim {' '.join(path)} --help"
        texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
        for text in texts:
            for paragraph in text.split("\n\n"):
                for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
                    yield from of_sentence(place, 0, sentence)
        for example in getattr(command, "examples", ()):
            for words in _optim_calls(example):
                if reason := refused(words, whole=True):
                    yield Finding(place, 0, f"{reason}: {example}")


def of_strings() -> Iterator[Finding]:
    """The findings in texts of the code that people read: banned words, and command lines that optim refuses."""
    for folder in make_errors.PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            for line, text in _texts_of(ast.parse(path.read_text("utf-8"))):
                for pattern, better in BANNED.items():
                    if found := re.search(rf"\b{pattern}\b", text, re.IGNORECASE):
                        yield Finding(place, line, f"'{found[0]}': write {better}: {text[:60]}")
                if reason := refused_option(text):
                    yield Finding(place, line, f"{reason}: {text[:60]}")


def refused_option(text: str) -> str:
    """The first option in the command lines of a text that its command does not have; empty if there is none."""
    from optim._engine.cli.main import optim

    for call in re.findall(r"\boptim ([a-z][^\"\n;`…#]*)", text):
        words = call.split()
        context, command = click.Context(optim, info_name="optim"), optim
        while words and isinstance(command, click.Group) and (found := make_pages.command_of(command, words[0])):
            command, context = found, click.Context(found, parent=context, info_name=words.pop(0))
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(words))
        if not isinstance(command, click.Group) and (strange := [one for one in options if one not in known]):
            return f"{context.command_path} has no {strange[0]}"
    return ""


def _texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of four words and more with their lines; docstrings and what a pass computes with are none."""
    nodes = list(ast.walk(tree))
    silent = {
        id(one)
        for node in nodes
        for one in (
            [part.value for part in getattr(node, "body", ()) if isinstance(part, ast.Expr)]
            if isinstance(getattr(node, "body", None), list)
            else []
        )
    } | {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) not in silent and isinstance(node, ast.Constant | ast.JoinedStr):
            text = text_of(node) if isinstance(node, ast.JoinedStr) or isinstance(node.value, str) else ""
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= _LEAST_WORDS and "\n" not in text.strip():
                yield node.lineno, text


if __name__ == "__main__":
    wrong = findings(unclean=() if "--all" in sys.argv else UNCLEAN)
    for one in wrong:
        print(one)
    counted = user_pages()
    print(f"{len(counted)} pages for users, {sum(counted.values()):,} words")
    print(f"{len(wrong)} findings" if wrong else "prose: no findings")
    sys.exit(bool(wrong))
