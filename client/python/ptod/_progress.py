"""A line about a run that takes long, on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional

from ptod.v1 import run_pb2


class Progress:
    """Shows how far a run is. On nothing but a terminal, unless it is asked to."""

    def __init__(self, name: str, wanted: Optional[bool]) -> None:
        self._name = name.rpartition("/")[2]
        self._started = time.monotonic()
        self._shown = False
        #: Whether anything can be shown.
        self.is_on = sys.stderr is not None and sys.stderr.isatty() if wanted is None else wanted

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K" if sys.stderr.isatty() else "\n")
            sys.stderr.flush()

    def show(self, run: run_pb2.Run) -> None:
        """Shows the state of a run that has not ended."""
        if not self.is_on or run.state in (4, 5, 6):
            return
        state = run_pb2.Run.State.Name(run.state)
        passed = time.monotonic() - self._started
        sys.stderr.write(
            f"\r{self._name}: {state}, {run.tasks_done}/{run.tasks_total} tasks, {passed:.0f} s"
        )
        sys.stderr.flush()
        self._shown = True
