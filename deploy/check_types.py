#!/usr/bin/env python3
"""Checks that no namespace has two types of one name.

Two headers that define the same name in the same namespace cannot be included together, and a
program that links both breaks the one-definition rule without a warning.
"""

import collections
import pathlib
import re
import sys

NAMESPACE = re.compile(r"^(?:namespace ([\w:]+) \{|\}  // namespace ([\w:]+))$")
TYPE = re.compile(
    r"^(?:class|struct|enum class|enum|union) (?:\w+\([^)]*\) )?(\w+)(?: final)?(?: :[^;]*)?(?: \{.*)?$"
)


def types_of(lines):
    """Yields the full name of each type that the lines define at namespace scope."""
    scopes = []
    for line in lines:
        if namespace := NAMESPACE.match(line):
            if namespace[1]:
                scopes.append(namespace[1])
            elif scopes:
                scopes.pop()
        elif found := TYPE.match(line):
            yield "::".join(scopes + [found[1]])


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    places = collections.defaultdict(set)
    folders = [f for f in root.iterdir() if not f.name.startswith(("bazel-", "."))]
    for header in sorted(h for folder in folders for h in folder.glob("**/*.h")):
        path = header.relative_to(root)
        if "node_modules" in path.parts:
            continue
        for name in types_of(header.read_text().splitlines()):
            places[name].add(str(path))
    failed = False
    for name, headers in sorted(places.items()):
        if len(headers) > 1:
            failed = True
            print(f"{name} is defined in {' and in '.join(sorted(headers))}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
