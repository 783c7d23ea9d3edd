"""A real browser shows the timeline of a run: where its bars are, and that they can be read."""

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
import ptod
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
class BrowserTest(testing.DaemonTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def look(self, timeline):
        path = os.path.join(self.directory, "timeline.html")
        timeline.save(path)
        with open(path, "a", encoding="utf-8") as file:
            file.write(SCRIPT)
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

    def test_the_bars_of_a_timeline(self):
        x, far = self.s.tensor(np.ones(1 << 14), np.float32), self.s.empty(1 << 14, chip=1)
        g = ptod.Graph()
        for i in range(3):
            g.task("spin", microseconds=2000, chip=0, name=f"first <{i}>", after=g.tasks[-1:])
        g.copy(far, x, after=g.tasks[-1:], name="across")
        g.task("add", far, far, far, name="last")
        timeline = self.s.run(g).trace()
        seen = self.look(timeline)
        left, top, right, bottom = seen["svg"]
        self.assertGreater(right - left, 0.9 * WIDTH)
        titles = [bar[0] for bar in seen["bars"]]
        for name in ("first <0>", "first <2>", "across", "last"):
            self.assertEqual(sum(f" {name}: DONE" in title for title in titles), 1, titles)
        for title, *box in seen["bars"]:
            self.assertTrue(
                left <= box[0] < box[2] <= right and top <= box[1] < box[3] <= bottom, title
            )
        spins = sorted(bar[1:] for bar in seen["bars"] if "first" in bar[0])
        for before, after in zip(spins, spins[1:]):
            self.assertLessEqual(before[2], after[0] + 1, "tasks of one core follow each other")
        # A bar is beside the name of its core.
        rows = {text: box for text, *box in seen["rows"] if text.startswith("chip")}
        for task in timeline.tasks:
            _, x_left, y_top, _, y_bottom = next(
                bar for bar in seen["bars"] if f" {task.name}:" in bar[0]
            )
            row = rows[f"chip {task.chip} core {task.core}"]
            self.assertTrue(row[1] < (y_top + y_bottom) / 2 < row[3], task)
            self.assertLess(row[2], x_left)


if __name__ == "__main__":
    testing.main()
