"""Many launches on one stream."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ptod import errors
from ptod._async.graphs import RegisteredGraph
from ptod.v1 import run_pb2

if TYPE_CHECKING:
    from ptod._async.session import Session


class Completion(NamedTuple):
    """The end of a launch on a stream."""

    #: As `launch` returned it.
    tag: int
    #: The run's full name; empty if the launch was refused.
    run: str
    #: The final state; `STATE_UNSPECIFIED` if the launch was refused.
    state: str
    #: Why it was refused or did not succeed. None if it succeeded.
    error: Optional[errors.Error]
    #: From acceptance to the first task's start, in ns.
    queue_ns: int
    #: From the first task's start to the end, in ns.
    run_ns: int

    def check(self) -> "Completion":
        """Raises the error, if there is one."""
        if self.error is not None:
            raise self.error
        return self


class LaunchStream:
    """Launches registered graphs; completions come in the order in which the runs end.

    >>> g = ptod.Graph(); _ = g.task("noop", chip=0)
    >>> graph = s.register(g)
    >>> with s.launch_stream() as stream:
    ...     tags = {stream.launch(graph) for _ in range(3)}
    ...     print(tags == {completion.check().tag for completion in stream})
    True

    Iterating ends when every launch is complete, or when the stream is closed. Leaving `with` sends
    every launch and waits for its end; an exception in it closes the stream.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stream = session._api.RunService.LaunchStream.open()
        self._tags = itertools.count(1)
        # With what a launch uses: that must live until the daemon has read it.
        self._open: Dict[int, Tuple[Any, ...]] = {}
        self._finished = self._closed = False

    @classmethod
    async def _open_stream(cls, session: Session) -> "LaunchStream":
        return cls(session)

    async def __aenter__(self) -> "LaunchStream":
        return self

    async def __aexit__(self, kind: Any, *error: Any) -> None:
        try:
            if kind is None:
                await self.finish()
        finally:
            await self.close()

    async def launch(
        self, graph: RegisteredGraph, bind: Optional[Mapping[str, Any]] = None, **named: Any
    ) -> int:
        """Launches a graph: see `RegisteredGraph.request`. Returns the tag of its completion."""
        tag = next(self._tags)
        request = run_pb2.LaunchStreamRequest(tag=tag, launch=graph.request("", bind, **named))
        if self._finished or self._closed:
            raise errors.stream_ended("this launch stream takes no more launches")
        self._open[tag] = (graph, bind, named)
        try:
            await self._stream.write(request)
        except errors.Error:
            self._open.pop(tag, None)
            raise
        return tag

    async def completion(self) -> Completion:
        """Waits for the next completion."""
        if not self._open:
            raise errors.stream_ended("no launch is open on this stream")
        answer = await self._stream.read()
        if answer is None:
            who = "this launch stream was closed" if self._closed else "the daemon has ended it"
            raise errors.stream_ended(f"no completion is left: {who}")
        self._open.pop(answer.tag, None)
        state = run_pb2.Run.State.Name(answer.state)
        error = None
        if answer.HasField("error"):
            error = errors.from_status(answer.error, errors.RunFailed if answer.run else None)
            if isinstance(error, errors.RunFailed):
                error.run, error.state, error.more = answer.run, state, []
        return Completion(answer.tag, answer.run, state, error, answer.queue_ns, answer.run_ns)

    def __aiter__(self) -> "LaunchStream":
        return self

    async def __anext__(self) -> Completion:
        if not self._open:
            raise StopAsyncIteration
        try:
            return await self.completion()
        except errors.Error:
            if self._is_over():
                raise StopAsyncIteration from None
            raise

    def _is_over(self) -> bool:
        # Somebody else may have taken the last completion.
        return self._closed or not self._open or self._session.client._guard.is_closed

    async def finish(self) -> None:
        """Says that no launch follows, and waits until all are complete."""
        if not self._finished and not self._closed:
            self._finished = True
            await self._stream.done_writing()
        async for _ in self:
            pass

    async def close(self) -> None:
        """Ends the stream at once. Runs go on that the daemon has launched; it may not have read
        all launches."""
        self._closed = True
        self._open.clear()
        self._stream.cancel()
