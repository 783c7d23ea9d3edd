"""A timeline as a picture."""

from __future__ import annotations

import html
import zlib
from typing import TYPE_CHECKING, Dict, List, Tuple

if TYPE_CHECKING:
    from ptod.timeline import TaskTime, Timeline

_WIDTH, _LEFT, _ROW, _GAP, _TOP = 960, 110, 16, 10, 24
_MOST_TASKS = 5_000
_MOST_ROWS = 200
_TICKS = 6


def time_text(ns: float) -> str:
    """A time for people."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def _color(task: TaskTime) -> str:
    if task.outcome == "FAILED":
        return "#d62728"
    hue = zlib.crc32((task.kernel or task.label).encode()) % 360
    return f"hsl({hue},55%,60%)"


def draw(timeline: Timeline) -> str:
    """An SVG with a row for each core that has run a task."""
    ran = [task for task in timeline.tasks if task.outcome in ("DONE", "FAILED")]
    shown = sorted(ran, key=lambda task: -task.duration_ns)[:_MOST_TASKS]
    cores = sorted({(task.chip, task.core) for task in shown})[:_MOST_ROWS]
    rows, y, chip = {}, _TOP, -1
    for core in cores:
        y += _GAP if core[0] != chip and chip >= 0 else 0
        chip, rows[core] = core[0], y
        y += _ROW
    end = max((task.start_ns + task.duration_ns for task in shown), default=1) or 1
    scale = (_WIDTH - _LEFT - 10) / end
    parts = _frame(rows, y, end, scale)
    for task in shown:
        row = rows.get((task.chip, task.core))
        if row is not None:
            parts.append(_bar(task, row, scale))
    left_out = len(ran) - len(shown)
    if left_out:
        parts.append(
            f'<text x="{_LEFT}" y="{y + 14}">{left_out} shorter tasks are not shown</text>'
        )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 20}" width="100%"'
    style = ' font-family="sans-serif" font-size="11" fill="currentColor" role="img">'
    return head + style + "".join(parts) + "</svg>"


def _frame(rows: Dict[Tuple[int, int], int], bottom: int, end: int, scale: float) -> List[str]:
    parts = []
    for tick in range(_TICKS):
        at = end * tick / (_TICKS - 1)
        x = _LEFT + at * scale
        anchor = "end" if tick == _TICKS - 1 else "middle"
        parts.append(f'<text x="{x:.1f}" y="14" text-anchor="{anchor}">{time_text(at)}</text>')
        parts.append(f'<path d="M{x:.1f} {_TOP - 4}V{bottom}" stroke="#888" stroke-opacity=".3"/>')
    for (chip, core), y in rows.items():
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">chip {chip} core {core}</text>'
        )
    return parts


def _bar(task: TaskTime, y: int, scale: float) -> str:
    x, width = _LEFT + task.start_ns * scale, max(task.duration_ns * scale, 0.5)
    label = html.escape(task.label)
    times = f"+{time_text(task.start_ns)}, {time_text(task.duration_ns)}"
    title = f"task {task.index} {label}: {task.outcome}, {times}"
    text = ""
    if width > 7 * len(task.label):
        text = f'<text x="{x + 3:.1f}" y="{y + 12}" fill="#000">{label}</text>'
    place = f'x="{x:.2f}" y="{y + 1}" width="{width:.2f}" height="{_ROW - 2}"'
    rect = f'<rect {place} fill="{_color(task)}"/>'
    return f"<g><title>{title}</title>{rect}{text}</g>"
