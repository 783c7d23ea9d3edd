"""Runs to which tasks are added while they run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Optional, Set

from ptod import errors
from ptod._async import _io
from ptod._async.run import _PART_SECONDS, _PROGRESS_SECONDS, Run
from ptod._columns import CHUNK_TASKS, Columns
from ptod._names import Seconds, seconds
from ptod._options import run_options
from ptod._progress import Progress
from ptod._signatures import Signatures
from ptod.graph import Graph
from ptod.v1 import graph_pb2, run_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session


class OpenRun(Run):
    """A run that is also a graph in the making: `graph` takes tasks, `flush` sends them.

    >>> x = s.tensor(np.ones(4), np.float32)
    >>> with s.open_run() as run:
    ...     for _ in range(10):
    ...         _ = run.graph.task("add", x, x, x)
    ...     run.flush()
    >>> x.numpy()[0], run.info.tasks_done
    (1024.0, 10)

    Leaving `with` sends the rest, and waits for the end; an exception in it cancels the run. When
    too many tasks have not ended, `flush` waits. A task must not wait for a signal of a later
    segment. The run keeps the buffers of its tasks until it ends.
    """

    def __init__(
        self, session: Session, info: run_pb2.Run, signatures: Signatures, explicit: bool
    ) -> None:
        super().__init__(session, info)
        #: Takes tasks with the methods of `Graph`; named scalars and slots do not work here.
        self.graph = Graph(explicit)
        self._columns = Columns(signatures)
        self._writer = session._api.RunService.StreamRun.open()
        self._one_sends = _io.Lock()
        self._owners: Set[Any] = set()
        # Committed: the end of the stream does not end the run any more.
        self._committed = self._answered = False

    async def __aenter__(self) -> "OpenRun":
        return self

    async def __aexit__(self, kind: Any, *error: Any) -> None:
        if self._answered:
            return
        if kind is None:
            await self.finish()
        else:
            await self._break()

    async def flush(self) -> None:
        """Sends the tasks that were added since. Waits while the daemon takes no more. What is
        wrong with a task is raised before it is sent; it and its neighbours stay in `graph`."""
        async with self._one_sends:
            is_open = await self._send()
        if not is_open:
            await self.finish()  # says why the run has ended
            raise errors.stream_ended(f"{self.name} has ended")

    async def _send(self) -> bool:
        """Sends what is in the graph. False if the run has ended."""
        graph = self.graph
        # What is added meanwhile is for the next time.
        tasks, graph.tasks = graph.tasks, []
        graph._first += len(tasks)
        sent = 0
        try:
            while sent < len(tasks):
                part = tasks[sent : sent + CHUNK_TASKS]
                segment = self._columns.segment(part)
                for task in part:
                    self._owners.update(view._owner for view in task.views())
                sent += len(part)
                if not await self._writer.write(run_pb2.StreamRunRequest(block=segment)):
                    return False
            return True
        finally:
            graph.tasks[:0] = tasks[sent:]
            graph._first -= len(tasks) - sent

    async def _commit(self) -> None:
        """Sends the rest, and that it is the rest. A mistake in it cancels the run."""
        async with self._one_sends:
            if self._committed:
                return
            try:
                await self._send()
                self._committed = True
                commit = graph_pb2.PackedCommit(task_count=len(self.graph))
                await self._writer.write(run_pb2.StreamRunRequest(commit=commit))
            except Exception:
                await self._break()
                raise

    async def _break(self) -> None:
        self._answered = True
        self._writer.cancel()
        if self._committed:
            await self._cancel_quietly()
        self._owners.clear()

    async def finish(self) -> run_pb2.Run:
        """Sends the rest, waits for the run's end, and returns it; raises `RunFailed` as `wait`
        does."""
        return await self.wait()

    async def wait(
        self, timeout: Optional[Seconds] = None, *, progress: Optional[bool] = None
    ) -> run_pb2.Run:
        """As `finish`, because an open run does not end before; see `Run.wait`. The time begins
        when the rest is sent."""
        try:
            if not self._answered:
                await self._commit()
            shown = Progress(self.name, progress)
            with shown:
                await self._wait_for_answer(None if timeout is None else seconds(timeout), shown)
        except _io.CANCELLED:
            await _io.finish(self._break())
            raise
        return await super().wait()

    async def _wait_for_answer(self, timeout: Optional[float], progress: Progress) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        while not self._answered:
            left = _PROGRESS_SECONDS if progress.is_on else _PART_SECONDS
            if until is not None:
                left = min(left, until - time.monotonic())
                if left <= 0:
                    raise errors.timeout(
                        f"{self.name} has not ended within {timeout:g} s; it goes on"
                    )
            try:
                answer = await self._writer.answer(left)
            except errors.Error:
                self._answered = True
                self._owners.clear()
                raise
            if answer is not None:
                self._answered, self.info = True, answer
                self._owners.clear()
            elif progress.is_on:
                progress.show(await self.get())


async def open_run(
    session: Session, run_id: str, explicit: bool, options: Dict[str, Any]
) -> OpenRun:
    """StreamRun."""
    run_id = run_id or session.next_run_id()
    signatures = await session._kernel_signatures()
    info = run_pb2.Run(name=f"{session.name}/runs/{run_id}")
    run = OpenRun(session, info, signatures, explicit)
    header = run_pb2.StreamRunHeader(
        parent=session.name,
        run_id=run_id,
        options=run_options(**options),
        explicit_dependencies_only=explicit,
    )
    await run._writer.write(run_pb2.StreamRunRequest(header=header))
    return run
