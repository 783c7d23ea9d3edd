"""Runs: executions of graphs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generator, Optional

from ptod import errors, timeline
from ptod._api import MOST_WAITS
from ptod._async import _io
from ptod._async.events import EventStream
from ptod._names import Seconds, duration, seconds
from ptod._progress import Progress
from ptod.v1 import run_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session

_ENDED = (run_pb2.Run.SUCCEEDED, run_pb2.Run.FAILED, run_pb2.Run.CANCELLED)
# A wait is asked for in parts, so that a broken connection is noticed.
_PART_SECONDS = 30.0
_GRACE_SECONDS = 5.0
# How often those ask that find no room on the connection.
_POLL_SECONDS, _MOST_POLL_SECONDS = 0.1, 2.0
_PROGRESS_SECONDS = 1.0
_STRUCTURE_TASKS = 10_000


def has_ended(run: run_pb2.Run) -> bool:
    """Whether the state is final."""
    return run.state in _ENDED


def failure(info: run_pb2.Run) -> errors.RunFailed:
    """The exception for a run that did not succeed."""
    error = errors.from_status(info.error, errors.RunFailed)
    assert isinstance(error, errors.RunFailed)
    error.run = info.name
    error.state = run_pb2.Run.State.Name(info.state)
    error.more = [errors.from_status(more) for more in info.more_errors]
    return error


class Run:
    """One execution of a graph. In a notebook it shows its timeline.

    With asyncio, `await run` waits for the end; cancelling that cancels the run.

    >>> g = ptod.Graph()
    >>> _ = g.task("spin", microseconds=100, chip=0)
    >>> run = s.submit(g)
    >>> run.wait().tasks_done, run.state
    (1, 'SUCCEEDED')
    """

    def __init__(self, session: Session, info: run_pb2.Run) -> None:
        #: The session that it belongs to.
        self.session = session
        #: The newest known state; `get` asks for the current one.
        self.info = info

    @property
    def name(self) -> str:
        """`sessions/{session_id}/runs/{run_id}`."""
        return self.info.name

    @property
    def state(self) -> str:
        """The newest known state, such as `RUNNING`."""
        return run_pb2.Run.State.Name(self.info.state)

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        return has_ended(self.info)

    def __repr__(self) -> str:
        return f"<Run {self.name} {self.state} {self.info.tasks_done}/{self.info.tasks_total}>"

    # asyncio only
    def __await__(self) -> Generator[Any, None, run_pb2.Run]:
        return self.wait().__await__()

    # end

    async def wait(
        self, timeout: Optional[Seconds] = None, *, progress: Optional[bool] = None
    ) -> run_pb2.Run:
        """Waits for the end, and returns the run as it is then.

        Raises `RunFailed` if it did not succeed, and `Timeout` if it has not ended in time; then it
        goes on. `progress` shows a line on standard error; by default on a terminal if it takes
        long.
        """
        if not self.ended:
            try:
                await self._wait(
                    None if timeout is None else seconds(timeout), Progress(self.name, progress)
                )
            except _io.CANCELLED:
                await _io.finish(self._cancel_quietly())
                raise
        if self.info.state != run_pb2.Run.SUCCEEDED:
            raise failure(self.info)
        return self.info

    async def _wait(self, timeout: Optional[float], progress: Progress) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_SECONDS
        most = _PROGRESS_SECONDS if progress.is_on else _PART_SECONDS
        with progress:
            while not self.ended:
                left = most if until is None else min(most, until - time.monotonic())
                if left <= 0:
                    raise errors.timeout(
                        f"{self.name} has not ended within {timeout:g} s; it goes on"
                    )
                await self._wait_part(left, pause)
                pause = min(2 * pause, _MOST_POLL_SECONDS)
                progress.show(self.info)

    async def _wait_part(self, limit: float, pause: float) -> None:
        guard, service = self.session.client._guard, self.session._api.RunService
        grace = min(guard.timeout, _GRACE_SECONDS)
        if len(guard.waits) < MOST_WAITS:
            request = run_pb2.WaitRunRequest(name=self.name, timeout=duration(max(limit, 0.001)))
            guard.waits.append(None)
            try:
                self.info = await service.WaitRun(request, timeout=limit + grace)
                return
            except errors.Timeout:
                pass  # it may have queued behind other streams; if the daemon hangs, so does GetRun
            finally:
                guard.waits.pop()
        else:
            await _io.sleep(min(limit, pause))
        self.info = await service.GetRun(run_pb2.GetRunRequest(name=self.name), timeout=grace)

    async def _cancel_quietly(self) -> None:
        try:
            await self.cancel("the client does not wait for it any more")
        except errors.Error:
            pass  # the run is not there, or the daemon: who waited is told why it stopped

    async def get(self) -> run_pb2.Run:
        """The run as it is now."""
        self.info = await self.session._api.RunService.GetRun(run_pb2.GetRunRequest(name=self.name))
        return self.info

    async def cancel(self, reason: str = "") -> run_pb2.Run:
        """Cancels it; returns at once, with CANCELLING or a final state."""
        request = run_pb2.CancelRunRequest(name=self.name, reason=reason)
        self.info = await self.session._api.RunService.CancelRun(request)
        return self.info

    def events(self, *, after: int = 0, linger: Optional[Seconds] = None) -> EventStream:
        """Its events, up to its end.

        >>> run = s.submit(g)
        >>> [event.WhichOneof("event") for event in run.events()][-1]
        'run'
        """
        return EventStream(self.session, after, [self.name], linger, self.info)

    async def explain(self, max_tasks: int = 0) -> run_pb2.ExplainRunResponse:
        """Why it has not ended: a verdict, and what its tasks wait for; `summary` is a sentence."""
        request = run_pb2.ExplainRunRequest(name=self.name, max_tasks=max_tasks)
        return await self.session._api.RunService.ExplainRun(request)

    async def trace(self) -> timeline.Timeline:
        """When its tasks ran, and where; after its end. `save` writes it for Perfetto or as a
        picture.

        >>> trace = s.run(g).trace()
        >>> [(task.kernel, task.chip) for task in trace.tasks]
        [('noop', 0)]
        """
        await self._wait(None, Progress(self.name, False))
        made = timeline.Timeline(self.info)
        request = run_pb2.GetRunGraphRequest(name=self.name, max_tasks=_STRUCTURE_TASKS)
        try:
            while request.first_task < self.info.tasks_total:
                page = await self.session._api.RunService.GetRunGraph(request)
                made.add_structure(page.structure)
                first = page.structure.first_task + len(page.structure.kernel)
                if first <= request.first_task:
                    break
                request.first_task = first
        except errors.Error as error:
            if error.reason != "GRAPH_UNKNOWN":  # it is too old: the tasks have no names
                raise
        async for event in self.events():
            if event.HasField("tasks"):
                made.add_events(event.tasks)
            elif event.HasField("dropped"):
                made.missing_events += event.dropped.count
        return made

    # threads only
    # def _repr_html_(self) -> str:
    #     if not self.ended:
    #         self.get()
    #     return self.trace()._repr_html_() if self.ended else f"<code>{self!r}</code>"
    # end
