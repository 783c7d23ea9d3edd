#!/usr/bin/env python3
"""Makes a wheel: the same bytes from the same files.

Usage: make_wheel.py --version V --tag TAG --readme FILE --out FILE [--program FILE ...] FILE...

The files are those of the package, anywhere below a folder `ptod`; programs go to ptod/_bin.
"""

import argparse
import base64
import hashlib
import os
import zipfile

# The first time that a zip file can express.
_TIME = (1980, 1, 1, 0, 0, 0)

METADATA = """\
Metadata-Version: 2.1
Name: ptod
Version: {version}
Summary: A client of ptod, the daemon that runs task graphs on NPU chips
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Requires-Python: >=3.9
Requires-Dist: grpcio >=1.51
Requires-Dist: protobuf >=3.20.2
Requires-Dist: numpy >=1.22
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: make_wheel.py
Root-Is-Purelib: {pure}
Tag: {tag}
"""

# A command that becomes the program. It does not import the package, which would take longer.
SCRIPT = """\
#!python
import importlib.util
import os
import sys

package = os.path.dirname(importlib.util.find_spec("ptod").origin)
os.execv(os.path.join(package, "_bin", "{program}"), ["{program}", *sys.argv[1:]])
"""


class Wheel:
    def __init__(self, path):
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record = []

    def add(self, name, data, mode=0o644):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")
        self._write(name, data, mode)

    def close(self, record):
        self._record.append(f"{record},,")
        self._write(record, "".join(line + "\n" for line in self._record).encode(), 0o644)
        self._zip.close()

    def _write(self, name, data, mode):
        info = zipfile.ZipInfo(name, _TIME)
        info.external_attr = (0o100000 | mode) << 16
        info.create_system = 3  # Unix, wherever it is made
        self._zip.writestr(info, data, zipfile.ZIP_DEFLATED, 6)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def make(version, tag, readme, out, programs, files):
    wheel = Wheel(out)
    # Generated files are below bazel-out, others in the source: their names in the package count.
    named = {"ptod/" + path.rpartition("/ptod/")[2]: path for path in files}
    for name in sorted(named):
        wheel.add(name, read(named[name]))
    for path in sorted(programs, key=os.path.basename):
        program = os.path.basename(path)
        wheel.add(f"ptod/_bin/{program}", read(path), 0o755)
        wheel.add(
            f"ptod-{version}.data/scripts/{program}", SCRIPT.format(program=program).encode(), 0o755
        )
    info = f"ptod-{version}.dist-info"
    description = read(readme).decode()
    wheel.add(f"{info}/METADATA", METADATA.format(version=version, readme=description).encode())
    pure = "false" if programs else "true"
    wheel.add(f"{info}/WHEEL", WHEEL.format(pure=pure, tag=tag).encode())
    wheel.close(f"{info}/RECORD")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("version", "tag", "readme", "out"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    make(given.version, given.tag, given.readme, given.out, given.program, given.files)


if __name__ == "__main__":
    main()
