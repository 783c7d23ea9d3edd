#!/usr/bin/env python3
"""Copies headers, and those of the given files that they include, under the names that includes use.

Usage: install_headers.py --out DIRECTORY --root NAME ... FILE ...
"""

import argparse
import os
import re
import shutil

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# Generated headers are below these; what follows is their name.
GENERATED = re.compile(r"^bazel-out/[^/]+/bin/(?:.*/_virtual_imports/[^/]+/)?")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, fromfile_prefix_chars="@", formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--root", action="append", required=True)
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    known = {GENERATED.sub("", path): path for path in given.files}
    open_names, done = list(given.root), set()
    while open_names:
        name = open_names.pop()
        if name in done:
            continue
        if name not in known:
            # A header of Abseil or protobuf, which name theirs in quotes too.
            if name in given.root:
                raise SystemExit(f"install_headers.py: the library has no {name}")
            continue
        done.add(name)
        target = os.path.join(given.out, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(known[name], target)
        with open(known[name], encoding="utf-8") as file:
            open_names += INCLUDE.findall(file.read())


if __name__ == "__main__":
    main()
