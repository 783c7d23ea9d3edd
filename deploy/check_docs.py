#!/usr/bin/env python3
"""Checks that what the documents for maintainers name exists.

In these documents, `Class::Function`, `Class` and `path/to/file.h` in backquotes have to be in the
tree. Prints what is missing, and fails.

Usage: check_docs.py [ROOT]
"""

import pathlib
import re
import sys

NAME = re.compile(r"`([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)`")
PATH = re.compile(r"`([\w./-]+\.(?:h|cc|py|sh|txt|md|proto))`")
LINK = re.compile(r"\]\(([^)#:]+)\)")


def documents(root):
    """Those that describe the code: not the ones for users."""
    yield root / "daemon/LIFE_OF_A_RUN.md"
    for top in ("runtime", "kernels", "comm", "daemon"):
        yield from sorted(root.glob(f"{top}/**/README.md"))


def read_sources(root):
    """The text of each file."""
    return [
        path.read_text()
        for top in ("runtime", "kernels", "comm", "daemon", "client")
        for pattern in ("*.h", "*.cc")
        for path in sorted((root / top).rglob(pattern))
        if not path.name.endswith("_test.cc")
    ]


def has_name(name, sources):
    parts = name.split("::")
    if len(parts) == 1:
        # A type or a function of that name is declared.
        declared = re.compile(rf"\b(?:class|struct|using) {name}\b|\b{name}\(")
        return any(declared.search(text) for text in sources)
    owner, function = parts[-2:]
    defined = re.compile(rf"\b{owner}::{function}\b")
    # Or in its class, whose members follow its head.
    inside = re.compile(rf"\b(?:class|struct) {owner}\b[^;]*\{{[\s\S]*\b{function}\(")
    return any(defined.search(text) or inside.search(text) for text in sources)


def check(root):
    errors = []
    sources = read_sources(root)
    for document in documents(root):
        text = document.read_text()
        shown = document.relative_to(root)
        for path in PATH.findall(text) + LINK.findall(text):
            if not (root / path).exists() and not (document.parent / path).exists():
                errors.append(f"{shown}: there is no file {path}")
        for name in NAME.findall(text):
            # Only what looks like a type or a function: a capital and a small letter.
            if "::" not in name and not re.match(r"[A-Z]\w*[a-z]", name):
                continue
            if not has_name(name, sources):
                errors.append(f"{shown}: there is no {name}")
    return errors


def main():
    errors = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
