"""The notebook runs from top to bottom, and shows what it promises."""

import html.parser
import unittest

import testing

class Elements(html.parser.HTMLParser):
    """Counts elements, and checks that they are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.count, self.titles = [], {}, []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


class NotebookTest(unittest.TestCase):
    def test_it_runs(self):
        self.assertTrue(all(cell["outputs"] == [] for cell in testing.notebook_cells()))
        shown = testing.run_notebook()
        self.assertEqual(shown[2], "32.0")
        self.check_timeline(shown[3])
        self.assertEqual(shown[4], "30.0")
        self.assertIn("CHIP_UNKNOWN", shown[5])
        self.assertIn("hint:", shown[5])

    def check_timeline(self, text):
        elements = Elements()
        elements.feed(text)
        self.assertEqual(elements.open, [])
        self.assertEqual(elements.count["svg"], 1)
        self.assertEqual(elements.count["rect"], 6)
        for name in ("double", "to the other chip", "add 0", "add 3"):
            self.assertTrue(any(name in title for title in elements.titles), name)
        self.assertNotIn("<script", text)
        self.assertNotIn("http://", text.replace("http://www.w3.org/2000/svg", ""))


if __name__ == "__main__":
    testing.main()
