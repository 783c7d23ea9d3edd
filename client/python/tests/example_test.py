"""The example that everybody reads first, word for word."""

import os
import subprocess
import sys
import unittest

import ptod
import testing

EXAMPLE = """\
import numpy as np, ptod
with ptod.local(chips=2) as node, node.session() as s:      # a private daemon; ptod.connect() uses a running one
    x = s.tensor(np.arange(1024, dtype=np.float32), chip=0)
    y = s.empty(1024, np.float32, chip=0)
    g = ptod.Graph(); g.task("scale", x, y, factor=2.0, blocks=8)
    s.submit(g).wait(); print(y.numpy())
"""


class ExampleTest(unittest.TestCase):
    def test_it_works_as_written(self):
        environment = dict(
            os.environ, PTOD_BINARY=testing.BINARY, PYTHONPATH=os.pathsep.join(sys.path)
        )
        result = subprocess.run(
            [sys.executable, "-c", EXAMPLE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.stderr, "")
        self.assertEqual(
            result.stdout, "[0.000e+00 2.000e+00 4.000e+00 ... 2.042e+03 2.044e+03 2.046e+03]\n"
        )

    def test_the_package_quotes_it(self):
        for line in EXAMPLE.splitlines():
            self.assertIn(line.partition("  #")[0].rstrip(), ptod.__doc__)


if __name__ == "__main__":
    testing.main()
