"""Wheels: reproducible, complete, and usable where nothing else is."""

import base64
import csv
import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import ptod
import testing
from example_test import EXAMPLE

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def wheel(tag):
    return glob.glob(os.path.join(HERE, f"ptod-*-{tag}.whl"))[0]


class WheelTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def unpack(self, tag):
        """Installs a wheel as pip does, which may not be there."""
        with zipfile.ZipFile(wheel(tag)) as archive:
            archive.extractall(self.directory)
            for info in archive.infolist():
                if info.external_attr >> 16 & 0o111:
                    os.chmod(os.path.join(self.directory, info.filename), 0o755)

    def test_versions_agree(self):
        with open("daemon/version.h", encoding="utf-8") as file:
            version = re.search(r'kVersion = "([^"]+)"', file.read()).group(1)
        self.assertEqual(ptod.__version__, version)
        self.assertIn(f"ptod-{version}-", wheel("py3-none-any"))

    def test_records_are_true(self):
        for tag in ("py3-none-any", "py3-none-linux_x86_64"):
            with zipfile.ZipFile(wheel(tag)) as archive:
                names = archive.namelist()
                record = archive.read(
                    [name for name in names if name.endswith("/RECORD")][0]
                ).decode()
                rows = list(csv.reader(io.StringIO(record)))
                self.assertEqual([row[0] for row in rows], names)
                for name, digest, size in rows[:-1]:
                    data = archive.read(name)
                    want = (
                        base64.urlsafe_b64encode(hashlib.sha256(data).digest())
                        .rstrip(b"=")
                        .decode()
                    )
                    self.assertEqual((digest, int(size)), (f"sha256={want}", len(data)))
                for name in ("ptod/py.typed", "ptod/_sync/session.py", "ptod/v1/run_pb2.pyi"):
                    self.assertIn(name, names)
                self.assertEqual("ptod/_bin/ptod" in names, "linux" in tag)

    def test_the_same_files_make_the_same_wheel(self):
        with open(wheel("py3-none-any"), "rb") as file:
            want = file.read()
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(os.path.join(HERE, "ptod"), os.path.join(copy, "ptod"))
        files = [os.path.join(path, name) for path, _, names in os.walk(copy) for name in names]
        files = [file for file in files if not file.endswith(".pyc")]
        made = os.path.join(self.directory, "made.whl")
        command = [
            sys.executable,
            os.path.join(HERE, "make_wheel.py"),
            f"--version={ptod.__version__}",
        ]
        command += [
            "--tag=py3-none-any",
            f"--readme={os.path.join(HERE, 'README.md')}",
            f"--out={made}",
        ]
        subprocess.run([*command, *reversed(files)], check=True)
        with open(made, "rb") as file:
            self.assertEqual(
                hashlib.sha256(file.read()).hexdigest(), hashlib.sha256(want).hexdigest()
            )

    def test_the_example_needs_only_the_wheel(self):
        self.unpack("py3-none-linux_x86_64")
        environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": self.directory,
            "HOME": self.directory,
        }
        result = subprocess.run(
            ["/usr/bin/python3", "-c", EXAMPLE],
            env=environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        self.assertEqual(result.stdout[:22], "[0.000e+00 2.000e+00 4", result.stderr)
        script = glob.glob(os.path.join(self.directory, "ptod-*.data", "scripts", "ptoctl"))[0]
        command = ["/usr/bin/python3", script, "--version"]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertIn(ptod.__version__, result.stdout, result.stderr)

    def test_the_pure_wheel_says_what_is_missing(self):
        self.unpack("py3-none-any")
        environment = {"PATH": "/nonexistent", "PYTHONPATH": self.directory}
        result = subprocess.run(
            ["/usr/bin/python3", "-c", "import ptod; ptod.local()"],
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertIn("there is no program `ptod`", result.stderr)


if __name__ == "__main__":
    testing.main()
