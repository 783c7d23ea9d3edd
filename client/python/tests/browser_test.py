"""A real browser shows the timeline of the notebook's run: where its bars are, and that they can be
read."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import testing

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTH = 1000
# Writes down where the browser has put everything.
SCRIPT = """<script>
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const of = selector => [...document.querySelectorAll(selector)];
  document.title = JSON.stringify({
    svg: box(document.querySelector("svg")),
    bars: of("g").map(g => [g.querySelector("title").textContent, ...box(g.querySelector("rect"))]),
    rows: of("svg > text").map(text => [text.textContent, ...box(text)]),
  });
</script>"""


@unittest.skipUnless(BROWSER, "there is no chromium")
class BrowserTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def look(self, shown):
        path = os.path.join(self.directory, "timeline.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"<!DOCTYPE html><meta charset=utf-8><body>{shown}{SCRIPT}")
        command = [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]
        command += [f"--user-data-dir={self.directory}/profile", f"--window-size={WIDTH},800"]
        result = subprocess.run(
            [*command, "--dump-dom", f"file://{path}"],
            env=dict(os.environ, HOME=self.directory),
            capture_output=True,
            text=True,
            timeout=100,
        )
        title = re.search(r"<title>(\{.*?\})</title>", result.stdout, re.DOTALL)
        self.assertTrue(title, result.stderr[-2000:])
        return json.loads(html.unescape(title.group(1)))

    def test_the_bars_of_the_timeline_in_the_notebook(self):
        shown = testing.run_notebook()
        seen = self.look(next(text for text in shown if "<svg" in text))
        left, top, right, bottom = seen["svg"]
        self.assertGreater(right - left, 0.9 * WIDTH)
        names = ["double", "to the other chip", *(f"add {i}" for i in range(4))]
        bars = []
        for name in names:
            found = [bar for bar in seen["bars"] if f" {name}: DONE" in bar[0]]
            self.assertEqual(len(found), 1, name)
            bars += found
        self.assertEqual(len(bars), len(seen["bars"]))
        for title, *box in bars:
            self.assertTrue(
                left <= box[0] < box[2] <= right and top <= box[1] < box[3] <= bottom, title
            )
        # Each task waits for the one before it.
        for before, after in zip(bars, bars[1:]):
            self.assertLessEqual(before[1], after[1] + 1, (before[0], after[0]))
        # A bar is beside the name of its core.
        rows = {text: box for text, *box in seen["rows"] if text.startswith("chip")}
        for name, (title, x_left, y_top, _, y_bottom) in zip(names, bars):
            beside = [
                text for text, row in rows.items() if row[1] < (y_top + y_bottom) / 2 < row[3]
            ]
            self.assertEqual(len(beside), 1, title)
            self.assertLess(rows[beside[0]][2], x_left)
            if name != "to the other chip":
                self.assertIn("chip 0" if name == "double" else "chip 1", beside[0], title)


if __name__ == "__main__":
    testing.main()
