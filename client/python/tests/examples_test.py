"""The examples work, and take at most half the lines of those in C++."""

import os
import subprocess
import sys
import unittest

import testing

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
CPP = "client/examples"

# What each corresponds to.
FILES = {
    "vector_add": ["vector_add.cc"],
    "ffn": ["ffn.cc"],
    "random_dag": ["random_dag_main.cc", "random_dag.cc"],
    "collectives": ["scenarios/collectives.cc"],
    "async_copies": ["scenarios/async.cc"],
    "ffn_tp": ["scenarios/ffn_tp.cc"],
    "dispatch": ["scenarios/dispatch.cc"],
    "message_stream": ["scenarios/message_stream.cc"],
}


def lines(path):
    with open(path, encoding="utf-8") as file:
        return len(file.readlines())


class ExamplesTest(unittest.TestCase):
    def test_all_are_tested(self):
        self.assertEqual(
            {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")}, set(FILES)
        )

    def test_they_succeed(self):
        with testing.local(chips=3) as node:
            environment = dict(
                os.environ, PTOD_ADDRESS=node.address, PYTHONPATH=os.pathsep.join(sys.path)
            )
            for name in FILES:
                with self.subTest(name):
                    command = [sys.executable, "-W", "error", os.path.join(EXAMPLES, f"{name}.py")]
                    result = subprocess.run(
                        command, env=environment, capture_output=True, text=True, timeout=120
                    )
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertIn("ok", result.stdout)

    def test_they_are_short(self):
        for name, originals in FILES.items():
            ours = lines(os.path.join(EXAMPLES, f"{name}.py"))
            theirs = sum(lines(os.path.join(CPP, original)) for original in originals)
            self.assertLessEqual(2 * ours, theirs, name)


if __name__ == "__main__":
    testing.main()
