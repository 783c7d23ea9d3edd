"""Sessions: leases that own buffers, graphs and runs."""

from __future__ import annotations

import collections
import itertools
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Mapping, Optional, Sequence, Set

import numpy as np

from ptod import errors
from ptod._async import _io
from ptod._async.buffers import Buffer, Tensor, array_of
from ptod._async.domain import Domain, create_domain
from ptod._async.events import EventStream
from ptod._async.graphs import RegisteredGraph, register, submit
from ptod._async.kernels import upload
from ptod._async.launch_stream import LaunchStream
from ptod._async.lease import lease_chips
from ptod._async.open_run import OpenRun, open_run
from ptod._async.run import Run
from ptod._broker import BrokerLink
from ptod._names import Seconds, random_id, seconds
from ptod._signatures import Signatures
from ptod.dtypes import DType
from ptod.graph import Graph
from ptod.v1 import buffer_pb2, kernel_pb2, run_pb2, session_pb2
from ptod.view import Shape, shape_of

if TYPE_CHECKING:
    from ptod._async.client import Client


class Session:
    """A lease on the daemon, which renews itself. `with` deletes it with everything that it owns.

    `Client.session` creates it. If the lease is lost, `lost` says why, `on_lost` is called, and
    calls raise `SessionLost`.
    """

    def __init__(
        self, client: Client, info: session_pb2.Session, link: Optional[BrokerLink], on_lost: Any
    ) -> None:
        #: The client that it belongs to.
        self.client: Client = client
        #: `sessions/{session_id}`.
        self.name: str = info.name
        #: The session as it was created.
        self.info: session_pb2.Session = info
        #: Time to live without a renewal, in seconds.
        self.ttl: float = info.ttl.seconds + info.ttl.nanos / 1e9
        #: Why it has ended without this client. None if it has not.
        self.lost: Optional[errors.SessionLost] = None
        self._api: Any = client.api
        self._link: Optional[BrokerLink] = link
        self._on_lost = on_lost
        self._closed: bool = False
        # Buffers that nobody refers to any more. They are deleted before others are created, and
        # with each renewal.
        self._garbage: Deque[str] = collections.deque()
        self._mapped: "weakref.WeakSet[Buffer]" = weakref.WeakSet()
        self._buffer_numbers = itertools.count(1)
        # Another process may know this session, too.
        self._run_prefix = random_id("r")[:8]
        self._run_numbers = itertools.count(1)
        self._signatures: Optional[Signatures] = None

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Session {self.name} of {self.client.address}>"

    async def close(self) -> None:
        """Deletes the session: its runs are cancelled and its memory is freed. Arrays keep their
        contents."""
        if self._closed or self.client._guard.is_forked:
            return
        self._closed = True
        self.client._renewer.remove(self)
        lost = []
        for buffer in list(self._mapped):
            try:
                buffer.detach()
            except MemoryError as error:
                lost.append(f"arrays of {buffer.name} lose their contents: {error}")
        if self._link is not None:
            self._link.close()
        if self.lost is None:
            request = session_pb2.DeleteSessionRequest(name=self.name, allow_missing=True)
            await self._api.SessionService.DeleteSession(request)
        for text in lost:
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    async def get(self) -> session_pb2.Session:
        """The session now, with what it holds."""
        return await self._api.SessionService.GetSession(
            session_pb2.GetSessionRequest(name=self.name)
        )

    async def _renew(self) -> None:
        request = session_pb2.RenewSessionRequest(name=self.name)
        info = await self._api.SessionService.RenewSession(request, timeout=self.ttl / 3)
        if info.state == session_pb2.Session.ENDED or info.boot_id != self.info.boot_id:
            raise errors.local(
                f"{self.name} has ended",
                "SESSION_ENDED",
                "NOT_FOUND",
                errors.SessionLost,
                scope="SESSION",
            )
        try:
            await self._collect()
        except errors.SessionLost:
            raise
        except errors.Error:
            pass  # with the next renewal, then

    def _lose(self, error: errors.SessionLost) -> None:
        if self._closed or self.lost is not None:
            return
        self.lost = error
        # The other sessions must not wait for what is called, nor for what it raises.
        _io.spawn(self._tell_loss, error)

    async def _tell_loss(self, error: errors.SessionLost) -> None:
        if self._on_lost is None:
            warnings.warn(f"{self.name} is lost: {error}", RuntimeWarning, stacklevel=1)
        else:
            await _io.result_of(self._on_lost(error))

    def next_run_id(self) -> str:
        """An id for a run. Chosen here, so that a call can be repeated if its answer was lost."""
        return f"{self._run_prefix}-{next(self._run_numbers)}"

    # ---- memory

    async def tensor(
        self, data: Any, dtype: Any = None, *, chip: int = 0, name: str = ""
    ) -> Tensor:
        """A tensor with the numbers of an array, a list, or a tensor of another library (DLPack).

        >>> s.tensor([[1, 2], [3, 4]], np.float32)
        <Tensor b1 F32 [2, 2], chip=0>
        """
        array, own = await array_of(data, dtype)
        tensor = await self.empty(array.shape, own, chip=chip, name=name)
        if array.size:
            await tensor.write(array)
        return tensor

    async def empty(
        self, shape: Shape, dtype: Any = np.float32, *, chip: int = 0, name: str = ""
    ) -> Tensor:
        """A tensor of zeros. `name` is the id of its buffer; by default one is made up."""
        kind, sizes = DType.of(dtype), shape_of(shape)
        # A buffer has at least one byte.
        size = max(1, int(np.prod(sizes, dtype=np.int64))) * kind.itemsize
        await self._collect()
        spec = buffer_pb2.BufferSpec(
            buffer_id=name or f"b{next(self._buffer_numbers)}", chip=f"chips/{chip}", bytes=size
        )
        request = buffer_pb2.CreateBuffersRequest(parent=self.name, buffers=[spec])
        try:
            created = (await self._api.BufferService.CreateBuffers(request)).buffers[0]
        except (errors.Timeout, *_io.CANCELLED):
            if not name:  # it may exist now; one that was named may have existed before
                self._garbage.append(f"{self.name}/buffers/{spec.buffer_id}")
            raise
        buffer = Buffer(self, created.name, size, chip, True)
        return Tensor(spec.buffer_id, kind, sizes, chip=chip, owner=buffer)

    zeros = empty

    async def _collect(self) -> None:
        """Deletes the buffers that nobody refers to."""
        names = []
        while self._garbage:
            names.append(self._garbage.popleft())
        if names:
            request = buffer_pb2.DeleteBuffersRequest(names=names, allow_missing=True)
            try:
                await self._api.BufferService.DeleteBuffers(request)
            except BaseException:
                self._garbage.extend(names)
                raise

    def domain(
        self,
        chips: Sequence[int],
        buffers: Optional[Mapping[str, Any]] = None,
        *,
        signals: int = 0,
        name: str = "",
        window_bytes: int = 0,
        zero_before_run: Sequence[str] = (),
    ) -> _io.Opening[Domain]:
        """Creates a domain: chips that communicate, in order of rank, with a window on each.

        `buffers` gives the window's parts, each as `(count, type)`; `signals` is how many each rank
        has. `zero_before_run` names parts in which uploaded kernels keep signals of their own.
        """
        arguments = (list(chips), buffers or {}, signals, name, window_bytes, list(zero_before_run))
        return _io.Opening(create_domain, self, *arguments)

    # ---- runs

    async def submit(self, graph: Graph, *, run_id: str = "", **options: Any) -> Run:
        """Submits a graph, and returns its run at once. Options: `timeout`, `queue_timeout`,
        `task_timeout`, `wait_timeout`, `priority` (low, normal, high), `events` (run, failed, all),
        `labels`."""
        return await submit(self, graph, run_id, options, None)

    async def run(
        self, graph: Graph, *, run_id: str = "", wait: Optional[Seconds] = None, **options: Any
    ) -> Run:
        """Submits a graph and waits for its end, in one call: see `submit` and `Run.wait`."""
        return await submit(
            self, graph, run_id, options, (None if wait is None else seconds(wait),)
        )

    async def register(self, graph: Graph, name: str = "") -> RegisteredGraph:
        """Compiles a graph once, to be launched many times, also with other buffers and scalars."""
        return await register(self, graph, name or random_id("g"))

    def launch_stream(self) -> _io.Opening[LaunchStream]:
        """Opens a stream of launches and their completions."""
        return _io.Opening(LaunchStream._open_stream, self)

    def open_run(
        self, *, run_id: str = "", explicit_dependencies_only: bool = False, **options: Any
    ) -> _io.Opening[OpenRun]:
        """Begins a run to which tasks are added while it runs."""
        return _io.Opening(open_run, self, run_id, explicit_dependencies_only, options)

    async def runs(self, active_only: bool = False) -> List[run_pb2.Run]:
        """The session's runs, newest first."""
        return await self.client.runs(self.name, active_only)

    def get_run(self, name: str) -> Run:
        """A handle of a run by its id or full name."""
        return Run(self, run_pb2.Run(name=name if "/" in name else f"{self.name}/runs/{name}"))

    def events(
        self, *, after: int = 0, runs: Sequence[str] = (), linger: Optional[Seconds] = None
    ) -> EventStream:
        """The events of the session, from the one after the number `after` on; all of them, or
        those of some runs. Resumes by itself when the connection breaks."""
        return EventStream(self, after, list(runs), linger)

    async def lease_chips(self, count: int, timeout: Seconds = 60) -> List[int]:
        """Leases chips for this session alone, until it ends; returns their indices."""
        return await lease_chips(self, count, seconds(timeout))

    # ---- kernels

    async def register_kernel(
        self,
        path: "str | os.PathLike[str]",
        signature: str = "",
        *,
        name: str = "",
        entry: str = "",
    ) -> kernel_pb2.Kernel:
        """Uploads a kernel: a shared object. Tasks of this session then use it like a built-in one.

        A kernel of the PTO ABI needs a signature, such as `in f32[] x, out f32[] y, scalar f32
        factor`.
        """
        kernel = await upload(self, os.fspath(path), signature, name, entry)
        signatures = (await self._kernel_signatures()).copy()
        signatures.add(kernel)
        self._signatures = signatures
        return kernel

    async def _kernel_signatures(self) -> Signatures:
        if self._signatures is None:
            self._signatures = await self.client._kernel_signatures()
        return self._signatures
