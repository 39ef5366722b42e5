"""Text of docstrings and help as Markdown, for the scripts that make pages."""

from __future__ import annotations

import re

_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n     +.+)*)$", re.MULTILINE)
"""An attribute in the docstring of a class."""


def attributes_of(docstring: str) -> dict[str, str]:
    """Reads the section ``Attributes`` of the docstring of a class."""
    return {name: inline(about) for name, about in _ATTRIBUTE.findall(docstring.partition("Attributes:")[2])}


def paragraphs(docstring: str) -> str:
    """Puts each paragraph on a line; lists, tables and code stay as they are."""
    found = []
    for part in docstring.split("\n\n"):
        lines = part.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            found.append("\n".join(lines))
            continue
        is_list = any(line.lstrip().startswith(("- ", "| ")) for line in lines)
        found.append(re.sub(r"::$", ":", inline(part, keep_lines=is_list)))
    return "\n\n".join(found)


def inline(text: str, *, keep_lines: bool = False) -> str:
    """Turns the markup of a docstring into that of Markdown."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text).replace("``", "`")
    return text if keep_lines else " ".join(text.split())


def code(text: str) -> str:
    """Marks a text as code."""
    return f"`{text}`"  # in code, the site takes | as it is


def cell(text: str) -> str:
    """Escapes a text for a cell of a table."""
    return escaped(text).replace("|", "\\|")


def escaped(text: str) -> str:
    """Escapes all markup of Markdown but marks of code."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = [re.sub(r"([*]|(?<=\])\()", r"\\\1", one).replace("<", "&lt;").replace(">", "&gt;") for one in parts[::2]]
    return "".join(one + marked for one, marked in zip(plain, [*parts[1::2], ""], strict=True))
