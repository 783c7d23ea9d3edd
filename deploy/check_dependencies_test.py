#!/usr/bin/env python3
"""Tests check_dependencies.py with small trees: each mistake is found, and only that."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_dependencies  # noqa: E402

GOOD = {
    "deploy/dependencies.txt": "# a comment\na:\nb: a\nc/d: a/one.h b\n",
    "a/one.h": "#pragma once\n#include <vector>\n",
    "b/two.h": '#include "a/one.h"\n#include "pto/v1/run.pb.h"\n',
    "b/internal/part.cc": '#include "b/two.h"\n#include "a/one.h"\n',
    "c/d/three.cc": '#include "a/one.h"\n#include "b/two.h"\n',
    "a/one_test.cc": '#include "b/two.h"\n',
    "a/testing/fake.h": '#include "c/d/three.h"\n',
}


class CheckDependenciesTest(unittest.TestCase):
    def check(self, **changes):
        files = dict(GOOD)
        for path, text in changes.get("files", {}).items():
            files[path] = text
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return check_dependencies.check(root)

    def test_good_tree(self):
        self.assertEqual(self.check(), [])

    def test_undeclared_include(self):
        errors = self.check(files={"a/four.cc": '#include "a/one.h"\n\n#include "b/two.h"\n'})
        self.assertEqual(
            errors, ["a/four.cc:3: a may not include b/two.h: see deploy/dependencies.txt"]
        )

    def test_header_that_is_not_named(self):
        errors = self.check(files={"a/five.h": "", "c/d/six.cc": '#include "a/five.h"\n'})
        self.assertEqual(
            errors, ["c/d/six.cc:1: c/d may not include a/five.h: see deploy/dependencies.txt"]
        )

    def test_cycle(self):
        errors = self.check(
            files={
                "deploy/dependencies.txt": "a: c/d\nb: a\nc/d: a/one.h b\n",
                "a/seven.cc": '#include "c/d/eight.h"\n',
                "c/d/eight.h": "",
            }
        )
        self.assertEqual(len(errors), 2)
        self.assertIn("modules in a circle: a -> c/d -> a", errors[0])
        self.assertIn("modules in a circle: a -> c/d -> b -> a", errors[1])

    def test_unlisted_module(self):
        errors = self.check(files={"e/nine.h": ""})
        self.assertEqual(errors, ["e/nine.h: deploy/dependencies.txt does not list the module e"])

    def test_unused_declaration(self):
        errors = self.check(files={"deploy/dependencies.txt": "a:\nb: a\nc/d: a/one.h b\nf: a\n"})
        self.assertEqual(errors, ["deploy/dependencies.txt:4: f does not use a"])

    def test_bad_lines(self):
        errors = self.check(files={"deploy/dependencies.txt": "a:\nb: a\nc/d: a/one.h b\nb: a\ng\n"})
        self.assertEqual(
            errors,
            [
                "deploy/dependencies.txt:4: b is listed twice",
                "deploy/dependencies.txt:5: there is no ':' in 'g'",
            ],
        )


if __name__ == "__main__":
    unittest.main()
