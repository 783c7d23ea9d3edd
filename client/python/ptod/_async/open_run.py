"""Runs to which tasks are added while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional

from ptod import errors
from ptod._async.run import Run
from ptod._columns import CHUNK_TASKS, Columns
from ptod._names import Seconds
from ptod._options import run_options
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
    segment.
    """

    def __init__(
        self, session: Session, info: run_pb2.Run, signatures: Signatures, explicit: bool
    ) -> None:
        super().__init__(session, info)
        #: Takes tasks with the methods of `Graph`; named scalars and slots do not work here.
        self.graph = Graph(explicit)
        self._columns = Columns(signatures)
        self._writer = session._api.RunService.StreamRun.open()
        self._finished = False

    async def __aenter__(self) -> "OpenRun":
        return self

    async def __aexit__(self, kind: Any, *error: Any) -> None:
        if self._finished:
            return
        if kind is None:
            await self.finish()
        else:
            self._finished = True
            self._writer.cancel()

    async def flush(self) -> None:
        """Sends the tasks that were added since. Waits while the daemon takes no more."""
        graph = self.graph
        for first in range(0, len(graph.tasks), CHUNK_TASKS):
            segment = self._columns.segment(graph.tasks[first : first + CHUNK_TASKS])
            if not await self._writer.write(run_pb2.StreamRunRequest(block=segment)):
                await self.finish()  # says why the run has ended
                raise errors.Error(
                    f"{self.name} has ended", reason="STREAM_ENDED", code="OUT_OF_RANGE"
                )
        graph._first += len(graph.tasks)
        graph.tasks.clear()

    async def finish(self) -> run_pb2.Run:
        """Sends the rest, waits for the run's end, and returns it; raises `RunFailed` as `wait`
        does."""
        if not self._finished:
            self._finished = True
            try:
                await self.flush()
                commit = graph_pb2.PackedCommit(task_count=len(self.graph))
                await self._writer.write(run_pb2.StreamRunRequest(commit=commit))
            finally:
                self.info = await self._writer.finish()
        return await super().wait()

    async def wait(
        self, timeout: Optional[Seconds] = None, *, progress: Optional[bool] = None
    ) -> run_pb2.Run:
        """As `finish`: an open run does not end before."""
        return await self.finish()


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
