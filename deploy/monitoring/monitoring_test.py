"""The dashboard and the alerts use metrics that exist, with labels that they have."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

FOLDER = pathlib.Path("deploy/monitoring")
METRICS = pathlib.Path("daemon/metrics/README.md")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
# A name, and the labels that are asked for.
USE = re.compile(r"\b((?:ptod|process)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
BY = re.compile(r"\bby \(([^)]*)\)")
# Prometheus adds these.
ALWAYS = {"instance", "job"}


def known_metrics():
    """name: its labels"""
    known = {}
    for name, kind, labels in ROW.findall(METRICS.read_text()):
        names = set(re.findall(r"`(\w+)`", labels)) | ALWAYS
        if kind == "histogram":
            known[name + "_bucket"] = names | {"le"}
            known[name + "_sum"] = known[name + "_count"] = names
        else:
            known[name] = names
    return known


def expressions():
    """Where an expression stands, and the expression."""
    dashboard = json.loads((FOLDER / "ptod-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    # Debian's Python has no YAML; an expression ends where the next key begins.
    rules = (FOLDER / "ptod-alerts.yml").read_text()
    for alert, text in re.findall(
        r"alert: (\w+)\n\s+expr:(.*?)\n\s+(?:for|labels):", rules, re.DOTALL
    ):
        yield alert, text


class MonitoringTest(unittest.TestCase):
    def test_metrics_and_labels_exist(self):
        known = known_metrics()
        self.assertGreater(len(known), 50)
        checked = 0
        for where, expression in expressions():
            for name, labels in USE.findall(expression):
                with self.subTest(where=where, metric=name):
                    self.assertIn(name, known)
                    asked = set(LABEL.findall(labels))
                    for names in BY.findall(expression):
                        asked |= set(names.replace(" ", "").split(","))
                    self.assertLessEqual(asked, known[name])
                    checked += 1
        self.assertGreater(checked, 30)

    def test_panels_do_not_overlap(self):
        taken = {}
        dashboard = json.loads((FOLDER / "ptod-dashboard.json").read_text())
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertIsNone(taken.get((x, y)), (panel["title"], taken.get((x, y))))
                    taken[x, y] = panel["title"]

    def test_every_alert_says_what_to_do(self):
        rules = (FOLDER / "ptod-alerts.yml").read_text()
        alerts = rules.split("- alert: ")[1:]
        self.assertGreater(len(alerts), 8)
        for alert in alerts:
            for key in ("severity: ", "summary: ", "description: "):
                self.assertIn(key, alert, alert.split("\n")[0])

    def test_promtool(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed; deploy/package_test.sh runs it")
        for command in ("check", "test"):
            file = "ptod-alerts.yml" if command == "check" else "ptod-alerts-test.yml"
            result = subprocess.run(
                ["promtool", command, "rules", file],
                cwd=FOLDER,
                check=False,
                capture_output=True,
                text=True,
            )
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
