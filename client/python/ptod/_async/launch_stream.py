"""Many launches on one stream."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional

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

    Iterating ends when every launch is complete.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stream = session._api.RunService.LaunchStream.open()
        self._tags = itertools.count(1)
        self._open: Dict[int, RegisteredGraph] = {}

    @classmethod
    async def _open_stream(cls, session: Session) -> "LaunchStream":
        return cls(session)

    async def __aenter__(self) -> "LaunchStream":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()

    async def launch(
        self, graph: RegisteredGraph, bind: Optional[Mapping[str, Any]] = None, **named: Any
    ) -> int:
        """Launches a graph: see `RegisteredGraph.request`. Returns the tag of its completion."""
        tag = next(self._tags)
        request = run_pb2.LaunchStreamRequest(tag=tag, launch=graph.request("", bind, **named))
        self._open[tag] = graph
        await self._stream.write(request)
        return tag

    async def completion(self) -> Completion:
        """Waits for the next completion."""
        if not self._open:
            raise errors.Error(
                "no launch is open on this stream", reason="STREAM_ENDED", code="OUT_OF_RANGE"
            )
        answer = await self._stream.read()
        if answer is None:
            raise errors.Error(
                "the daemon has ended the stream", reason="STREAM_ENDED", code="OUT_OF_RANGE"
            )
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
        return await self.completion()

    async def close(self) -> None:
        """Ends the stream. Launched runs go on."""
        self._open.clear()
        self._stream.cancel()
