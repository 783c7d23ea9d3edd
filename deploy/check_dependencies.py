#!/usr/bin/env python3
"""Checks which modules include which, against deploy/dependencies.txt.

A module is a folder with C++ files. It may include itself and what its line in the file names.
Fails on an include that is not declared, on a module that is not listed, on a declaration that
nobody uses, and on modules that depend on each other in a circle. Tests, and folders named
`testing`, may include anything.

Usage: check_dependencies.py [ROOT]
"""

import pathlib
import re
import sys

FILE = "deploy/dependencies.txt"
# Everything below these may include anything: they test the whole, or only use it.
UNCHECKED = ("tests", "third_party", "client/examples")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


class Declared:
    """What the file says of one module."""

    def __init__(self, line, names):
        self.line = line
        self.names = set(names)  # modules and single headers
        self.used = set()


def read_declarations(path, errors):
    modules = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, colon, names = line.partition(":")
        if not colon:
            errors.append(f"{FILE}:{number}: there is no ':' in '{line}'")
        elif name in modules:
            errors.append(f"{FILE}:{number}: {name} is listed twice")
        else:
            modules[name] = Declared(number, names.split())
    return modules


def module_of(path, modules):
    """The module that a file belongs to: its folder, or the one that has that as a private part."""
    folder = str(path.parent)
    if folder not in modules and folder.endswith("/internal"):
        folder = str(path.parent.parent)
    return folder


def is_checked(path):
    return not (
        path.name.endswith(("_test.cc", "_test.c"))
        or "testing" in path.parts
        or "conformance" in path.parts
        or any(path.is_relative_to(part) for part in UNCHECKED)
    )


def sources(root):
    for pattern in ("*.h", "*.cc", "*.inc"):
        for path in sorted(root.rglob(pattern)):
            relative = path.relative_to(root)
            first = relative.parts[0]
            if not first.startswith((".", "bazel-")) and "node_modules" not in relative.parts:
                yield relative


def check_includes(root, modules, errors):
    files = set(sources(root))
    for path in sorted(files):
        if not is_checked(path):
            continue
        module = module_of(path, modules)
        if module not in modules:
            errors.append(f"{path}: {FILE} does not list the module {module}")
            continue
        text = (root / path).read_text()
        for match in INCLUDE.finditer(text):
            header = pathlib.PurePosixPath(match.group(1))
            if pathlib.Path(header) not in files:
                continue  # generated, or of a library
            other = module_of(header, modules)
            if other == module:
                continue
            declared = modules[module]
            name = str(header) if str(header) in declared.names else other
            if name in declared.names:
                declared.used.add(name)
            else:
                line = text.count("\n", 0, match.start()) + 1
                errors.append(f"{path}:{line}: {module} may not include {header}: see {FILE}")


def check_declarations(modules, errors):
    for module, declared in modules.items():
        for name in sorted(declared.names - declared.used):
            errors.append(f"{FILE}:{declared.line}: {module} does not use {name}")


def check_cycles(modules, errors):
    done = set()

    def visit(module, way):
        if module in way:
            circle = way[way.index(module) :] + [module]
            errors.append(f"{FILE}: modules in a circle: {' -> '.join(circle)}")
            return
        if module in done or module not in modules:
            return
        for name in sorted(modules[module].names):
            other = str(pathlib.PurePosixPath(name).parent) if name.endswith(".h") else name
            visit(other, way + [module])
        done.add(module)

    for module in sorted(modules):
        visit(module, [])


def check(root):
    errors = []
    modules = read_declarations(root / FILE, errors)
    check_includes(root, modules, errors)
    check_declarations(modules, errors)
    check_cycles(modules, errors)
    return errors


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    errors = check(root)
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
