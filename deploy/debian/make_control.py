#!/usr/bin/env python3
"""Prints the control file of a binary package, from that of the source package.

Usage: make_control.py CONTROL PACKAGE VERSION SIZE SHLIBS
"""

import sys

# In the order of the file; what a package does not say itself is taken from the source.
FIELDS = [
    "Package", "Version", "Architecture", "Multi-Arch", "Maintainer", "Installed-Size",
    "Depends", "Recommends", "Suggests", "Section", "Priority", "Description",
]  # fmt: skip
INHERITED = ("Maintainer", "Section", "Priority")


def read(path):
    """The fields of each paragraph; lines that continue one stay part of it."""
    with open(path, encoding="utf-8") as file:
        for paragraph in file.read().strip().split("\n\n"):
            fields = {}
            for line in paragraph.splitlines():
                if line.startswith(" "):
                    fields[name] += "\n" + line
                else:
                    name, _, fields[name] = line.partition(": ")
            yield fields


def main():
    path, package, version, size, shlibs = sys.argv[1:]
    source, *packages = read(path)
    (fields,) = [each for each in packages if each["Package"] == package]
    fields.update(
        {name: source[name] for name in INHERITED if name not in fields},
        **{"Version": version, "Installed-Size": size},
    )
    for name in FIELDS:
        if name in fields:
            text = fields[name].replace("${shlibs:Depends}", shlibs)
            print(f"{name}: {text.replace('${binary:Version}', version)}")


if __name__ == "__main__":
    main()
