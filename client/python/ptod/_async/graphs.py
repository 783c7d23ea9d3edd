"""Starting graphs: once, or registered and launched many times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

from ptod import errors
from ptod._api import MOST_WAITS
from ptod._async import _io
from ptod._async.run import Run
from ptod._columns import Columns
from ptod._encode import MAX_NAMED_TASKS, encode
from ptod._names import Seconds, duration, seconds
from ptod._options import MOST_WAIT_SECONDS, run_options
from ptod.graph import Graph
from ptod.v1 import graph_pb2, run_pb2
from ptod.view import View

if TYPE_CHECKING:
    from ptod._async.session import Session

# None: do not wait. Otherwise the seconds; None in it means without end.
Wait = Optional[Tuple[Optional[float]]]

_TASKS_PER_SECOND = 100_000
_LAUNCH_OPTIONS = (
    "timeout",
    "queue_timeout",
    "task_timeout",
    "wait_timeout",
    "priority",
    "events",
    "labels",
)


async def submit(
    session: Session, graph: Graph, run_id: str, options: Dict[str, Any], wait: Wait
) -> Run:
    """SubmitRun or SubmitPackedRun; with `wait` until the run has ended."""
    signatures = await session._kernel_signatures()
    run_id = run_id or session.next_run_id()
    if len(graph.tasks) > MAX_NAMED_TASKS:
        header = graph_pb2.PackedHeader(
            parent=session.name, id=run_id, options=run_options(**options)
        )
        call, request = session._api.RunService.SubmitPackedRun, Columns(signatures).packed(
            graph, header
        )
        deadline = session.client._guard.timeout + len(graph) / _TASKS_PER_SECOND
        try:
            run = Run(session, await call(request, timeout=deadline))
        except _io.CANCELLED:
            if wait is not None:
                await _io.finish(session.get_run(run_id)._cancel_quietly())
            raise
        if wait is not None:
            await run.wait(wait[0])
        return run
    message = run_pb2.SubmitRunRequest(
        parent=session.name, run_id=run_id, graph=encode(graph, signatures)
    )
    if options:
        message.options.CopyFrom(run_options(**options))
    return await _start(session, session._api.RunService.SubmitRun, message, wait)


async def _start(session: Session, call: Any, message: Any, wait: Wait) -> Run:
    guard = session.client._guard
    if wait is None:
        return Run(session, await call(message))
    limit = wait[0]
    until = None if limit is None else time.monotonic() + limit
    part = 0.0
    if len(guard.waits) < MOST_WAITS:
        part = MOST_WAIT_SECONDS if limit is None else min(limit, MOST_WAIT_SECONDS)
        if limit is None:
            message.wait.seconds = int(part)
        else:
            message.wait.CopyFrom(duration(part))
    guard.waits.append(None)
    try:
        run = Run(session, await call(message, timeout=part + guard.timeout))
    except _io.CANCELLED:
        run = session.get_run(message.run_id)
        await _io.finish(run._cancel_quietly())
        raise
    finally:
        guard.waits.pop()
    if run.info.state == run_pb2.Run.SUCCEEDED:
        return run
    if run.ended or until is None:
        await run.wait()
        return run
    left = until - time.monotonic()
    if left <= 0 or part == limit:
        raise errors.timeout(f"{run.name} has not ended within {limit:g} s; it goes on")
    await run.wait(left)
    return run


async def register(session: Session, graph: Graph, name: str) -> "RegisteredGraph":
    """RegisterGraph or RegisterPackedGraph."""
    signatures = await session._kernel_signatures()
    if len(graph.tasks) > MAX_NAMED_TASKS:
        header = graph_pb2.PackedHeader(parent=session.name, id=name)
        call, request = session._api.RunService.RegisterPackedGraph, Columns(signatures).packed(
            graph, header
        )
        deadline = session.client._guard.timeout + len(graph) / _TASKS_PER_SECOND
        return RegisteredGraph(session, await call(request, timeout=deadline), graph)
    message = run_pb2.RegisterGraphRequest(
        parent=session.name, graph_id=name, graph=encode(graph, signatures)
    )
    return RegisteredGraph(session, await session._api.RunService.RegisterGraph(message), graph)


def _views_of(graph: Graph, count: int) -> Dict[str, List[View]]:
    """The views of each slot in the first tasks of a graph; of one that was declared, only that."""
    found: Dict[str, Dict[Any, View]] = {}
    for task in graph.tasks[:count]:
        for view in task.views():
            found.setdefault(view.slot, {}).setdefault((view.layout, view.offset), view)
    return {
        name: [graph.slots[name]] if name in graph.slots else list(views.values())
        for name, views in found.items()
    }


class RegisteredGraph:
    """A graph that was compiled once. Keeps the buffers alive that it uses.

    >>> g = ptod.Graph()
    >>> x = g.slot("x", 4, np.float32)
    >>> _ = g.task("scale", x, x, factor=g.scalar("by", 2.0))
    >>> double = s.register(g)
    >>> a, b = s.tensor([1.0, 2, 3, 4], "f32"), s.tensor([5.0, 6, 7, 8], "f32")
    >>> _ = double.run(x=a); _ = double.run(x=b, by=0.5)
    >>> a.numpy(), b.numpy()
    (array([2., 4., 6., 8.], dtype=float32), array([2.5, 3. , 3.5, 4. ], dtype=float32))
    """

    def __init__(self, session: Session, info: run_pb2.Graph, source: Graph) -> None:
        #: The session that it belongs to.
        self.session = session
        #: The graph as the daemon compiled it: slots, number of tasks and dependencies.
        self.info = info
        self._source = source
        # Made when something is bound.
        self._views: Optional[Dict[str, List[View]]] = None
        self._task_count = len(source.tasks)
        self._scalars = set(info.scalars)
        self._integers = {
            name for name, scalar in source.scalars.items() if isinstance(scalar.value, int)
        }

    @property
    def name(self) -> str:
        """`sessions/{session_id}/graphs/{graph_id}`."""
        return self.info.name

    def __repr__(self) -> str:
        return f"<RegisteredGraph {self.name} of {self.info.task_count} tasks>"

    def request(
        self,
        run_id: str = "",
        bind: Optional[Mapping[str, Union[View, float, int]]] = None,
        **named: Any,
    ) -> run_pb2.LaunchGraphRequest:
        """The message of a launch. Slots are bound to tensors and scalars to numbers, by their
        names; options are those of `Session.submit`."""
        request = run_pb2.LaunchGraphRequest(
            graph=self.info.name, run_id=run_id or self.session.next_run_id()
        )
        if not named and bind is None:
            return request
        options = {name: named.pop(name) for name in _LAUNCH_OPTIONS if name in named}
        for name, value in {**(bind or {}), **named}.items():
            if isinstance(value, View):
                self._check_slot(name, value)
                offset = value.offset * value.dtype.itemsize
                request.buffers.add(slot=name, buffer=value.slot, offset_bytes=offset)
            elif name in self._scalars:
                scalar = request.scalars.add(name=name)
                # The daemon refuses fractions where it needs whole numbers.
                if name in self._integers and value == value // 1:
                    scalar.value.i64 = int(value)
                else:
                    scalar.value.f64 = float(value)
            else:
                raise errors.invalid(
                    f"{self.info.name} has no scalar '{name}', and {type(value).__name__} is no "
                    "tensor",
                    reason="SCALAR_UNKNOWN",
                )
        if options:
            request.options.CopyFrom(run_options(**options))
        return request

    def _check_slot(self, name: str, view: View) -> None:
        """The daemon sees only where a slot begins, and takes the rest from the graph."""
        if self._views is None:
            self._views = _views_of(self._source, self._task_count)
        views = self._views.get(name, [])  # the daemon says which slots there are
        if len(views) == 1 and views[0].offset == 0:
            good, wanted = view.layout == views[0].layout, repr(views[0])
        else:
            # Parts of something whole.
            end = max((part.offset + part.span for part in views), default=0)
            good = view.is_contiguous and view.size >= end
            good = good and all(view.dtype == part.dtype for part in views)
            wanted = f"{end} contiguous elements"
        if views and not good:
            raise errors.invalid(
                f"the slot '{name}' of {self.info.name} is {wanted}, which {view!r} with strides "
                f"{list(view.strides)} is not",
                "buffers",
            )

    async def launch(
        self, run_id: str = "", bind: Optional[Mapping[str, Any]] = None, **named: Any
    ) -> Run:
        """Launches it, and returns the run at once: see `request`."""
        request = self.request(run_id, bind, **named)
        return Run(self.session, await self.session._api.RunService.LaunchGraph(request))

    async def run(
        self,
        run_id: str = "",
        bind: Optional[Mapping[str, Any]] = None,
        *,
        wait: Optional[Seconds] = None,
        **named: Any,
    ) -> Run:
        """Launches it and waits for the end, in one call: see `request` and `Run.wait`."""
        request = self.request(run_id, bind, **named)
        limit = None if wait is None else seconds(wait)
        return await _start(
            self.session, self.session._api.RunService.LaunchGraph, request, (limit,)
        )

    async def delete(self) -> None:
        """Deletes it; its runs go on."""
        request = run_pb2.DeleteGraphRequest(name=self.info.name, allow_missing=True)
        await self.session._api.RunService.DeleteGraph(request)
