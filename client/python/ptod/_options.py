"""How to run a graph, as keyword arguments of `submit`, `run` and `launch`."""

from __future__ import annotations

from typing import Mapping, Optional

from ptod import errors
from ptod._names import Seconds, duration
from ptod.v1 import graph_pb2

_PRIORITIES = {"low": 1, "normal": 2, "high": 3}
_EVENTS = {"run": 1, "failed": 2, "all": 3}

#: The daemon delays an answer by this much at most.
MOST_WAIT_SECONDS = 3600.0


def run_options(
    timeout: Optional[Seconds] = None,
    queue_timeout: Optional[Seconds] = None,
    task_timeout: Optional[Seconds] = None,
    wait_timeout: Optional[Seconds] = None,
    priority: str = "",
    events: str = "",
    labels: Optional[Mapping[str, str]] = None,
) -> graph_pb2.RunOptions:
    """The options on the wire.

    `timeout` is the most time from acceptance to end, `queue_timeout` to the first task's start;
    `task_timeout` is for each task and `wait_timeout` for each wait. `priority` is low, normal or
    high. `events` says which are written: those of the run, also of tasks that have failed, or all.
    """
    for name, value, known in (("priority", priority, _PRIORITIES), ("events", events, _EVENTS)):
        if value and value not in known:
            raise errors.invalid(f"'{value}' is none of {', '.join(known)}", f"options.{name}")
    return graph_pb2.RunOptions(
        timeout=duration(timeout),
        queue_timeout=duration(queue_timeout),
        task_timeout=duration(task_timeout),
        wait_timeout=duration(wait_timeout),
        priority=_PRIORITIES.get(priority, 0),
        event_level=_EVENTS.get(events, 0),
        labels=labels,
    )
