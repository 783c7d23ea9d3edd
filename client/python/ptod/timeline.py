"""Timelines: when the tasks of a run ran, and where."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import Any, Dict, List

from ptod import _svg
from ptod.v1 import event_pb2, run_pb2

_OUTCOMES = {0: "DONE", 1: "DONE", 2: "FAILED", 3: "SKIPPED", 4: "PASSED_OVER"}


@dataclasses.dataclass(frozen=True)
class TaskTime:
    """When a task ran."""

    index: int
    #: Its name; empty if it has none.
    name: str
    #: Its kernel's id; empty if the daemon does not know it any more.
    kernel: str
    chip: int
    #: Core of its last block: AIC first, then AIV.
    core: int
    #: From the run's acceptance to the start of its first block.
    start_ns: int
    duration_ns: int
    #: DONE, FAILED, SKIPPED or PASSED_OVER.
    outcome: str

    @property
    def label(self) -> str:
        """What a picture calls it."""
        return self.name or self.kernel or f"task {self.index}"


class Timeline:
    """The tasks of a run in order of their start. In a notebook it shows itself."""

    def __init__(self, run: run_pb2.Run) -> None:
        #: The run.
        self.run = run
        #: Events of the session, of this run or others, that the daemon did not hold any more.
        self.missing_events = 0
        self._names: Dict[int, str] = {}
        self._kernels: Dict[int, str] = {}
        self._tasks: List[Any] = []

    def add_structure(self, page: run_pb2.GraphStructure) -> None:
        """Adds names and kernels of tasks."""
        for at, kernel in enumerate(page.kernel):
            self._kernels[page.first_task + at] = page.kernels[kernel]
            if page.name:
                self._names[page.first_task + at] = page.name[at]

    def add_events(self, events: event_pb2.TaskEvents) -> None:
        """Adds tasks that have ended."""
        outcomes = list(events.outcome) or [1] * len(events.task)
        self._tasks.extend(
            zip(
                events.task, events.chip, events.core, events.start_ns, events.duration_ns, outcomes
            )
        )

    @property
    def tasks(self) -> List[TaskTime]:
        """What is known of the tasks."""
        times = [
            TaskTime(
                index,
                self._names.get(index, ""),
                self._kernels.get(index, ""),
                chip,
                core,
                start,
                length,
                _OUTCOMES.get(outcome, ""),
            )
            for index, chip, core, start, length, outcome in self._tasks
        ]
        return sorted(times, key=lambda task: (task.start_ns, task.index))

    def chrome(self) -> Dict[str, Any]:
        """The timeline in the Trace Event Format, for https://ui.perfetto.dev."""
        tasks = self.tasks
        events: List[Dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": chip, "args": {"name": f"chip {chip}"}}
            for chip in sorted({task.chip for task in tasks})
        ]
        events += [
            {
                "ph": "X",
                "name": task.label,
                "cat": task.kernel,
                "pid": task.chip,
                "tid": task.core,
                "ts": task.start_ns / 1000,
                "dur": task.duration_ns / 1000,
                "args": {"task": task.index, "outcome": task.outcome},
            }
            for task in tasks
        ]
        other = {"run": self.run.name, "missing_events": self.missing_events}
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}

    def save(self, path: str) -> None:
        """Writes a file: .json for Perfetto, .svg or .html for a picture."""
        if path.endswith(".svg"):
            text = _svg.draw(self)
        elif path.endswith(".html"):
            head = f"<!DOCTYPE html><meta charset=utf-8><title>{html.escape(self.run.name)}</title>"
            text = head + self._repr_html_()
        else:
            text = json.dumps(self.chrome())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def __repr__(self) -> str:
        return f"<Timeline of {self.run.name}, {len(self._tasks)} tasks{self._missing()}>"

    def _missing(self) -> str:
        return f"; {self.missing_events} events are missing" if self.missing_events else ""

    def _repr_html_(self) -> str:
        run = self.run
        state = run_pb2.Run.State.Name(run.state)
        tasks = f"{run.tasks_done}/{run.tasks_total} tasks"
        title = f"{run.name}: {state}, {tasks} in {_svg.time_text(run.run_ns)}{self._missing()}"
        error = f"<div>{html.escape(run.error.message)}</div>" if run.error.code else ""
        return f"<div><code>{html.escape(title)}</code></div>{error}{_svg.draw(self)}"
