"""What the tests share: one private daemon for each test class."""

import os
import sys
import unittest

import ptod

# Bazel runs tests in their runfiles, where the daemon is.
BINARY = os.environ.get("PTOD_BINARY") or os.path.abspath("daemon/ptod")


def local(**options):
    """A private daemon with two small chips, unless the options say otherwise."""
    options.setdefault("chips", 2)
    options.setdefault("clusters", 4)
    options.setdefault("memory", "1G")
    return ptod.local(ptod=BINARY, start_timeout=60, **options)


def endless(word):
    """A graph that waits for a signal, the tensor `word`, that nobody sends."""
    graph = ptod.Graph()
    graph.wait(word.reshape(()), ">=", 1)
    return graph


class DaemonTest(unittest.TestCase):
    """Tests with a daemon: `self.node` is for the class, `self.s` a session for each test."""

    options = {}

    @classmethod
    def setUpClass(cls):
        cls.node = local(**cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.node.close()
        status = cls.node.daemon.status
        assert status == 0, f"ptod has ended with {status}:\n{cls.node.daemon.log()}"

    def setUp(self):
        self.s = self.node.session()
        self.addCleanup(self.s.close)

    def endless(self):
        """A graph that does not end."""
        return endless(self.s.empty(1, "i32"))

    def assertReason(self, reason, function, *args, **kwargs):
        """The function raises an error of this reason, which is returned."""
        with self.assertRaises(ptod.Error) as caught:
            function(*args, **kwargs)
        self.assertEqual(caught.exception.reason, reason, str(caught.exception))
        return caught.exception


def main():
    """Runs the tests of the calling module; the arguments of Bazel select some."""
    only = os.environ.get("TESTBRIDGE_TEST_ONLY")
    unittest.main(argv=sys.argv[:1] + ([only] if only else []), verbosity=2)
