"""Connections to a daemon."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ptod import _api, _broker, _daemon, _target, errors
from ptod._async import _io
from ptod._async.renewer import Renewer
from ptod._async.session import Session
from ptod._names import Seconds, duration, random_id, seconds
from ptod._signatures import Signatures
from ptod.v1 import kernel_pb2, node_pb2, run_pb2, session_pb2

_POLL_SECONDS = 0.005


class Client:
    """A connection to one daemon. `connect` and `local` make it; `with` closes it."""

    def __init__(
        self, target: _target.Target, timeout: float, broker: bool, daemon: Optional[_daemon.Daemon]
    ) -> None:
        credentials, options = _target.make_channel_parts(target)
        token = _target.find_token(target, credentials is not None)
        #: Where the daemon listens.
        self.address: str = target.address
        #: The private daemon of `local`; None for one that runs anyway.
        self.daemon: Optional[_daemon.Daemon] = daemon
        options = [*_api.CHANNEL_OPTIONS, *options]
        self._channels = [
            _io.make_channel(target.address, credentials, [*options, *own])
            for own in ((), (), _api.BULK_OPTIONS)
        ]
        self._guard: _api.Guard = _api.Guard(target.address, timeout, token)
        #: Every method of the API: `api.NodeService.GetNode(request)`. ptod.v1 has the messages.
        self.api: Any = _api.make_api(self._channels, _io.WRAPPERS, self._guard)
        #: What the daemon said of itself when this client connected.
        self.info: node_pb2.Node = node_pb2.Node()
        self._use_broker = broker
        self._signatures: Optional[Signatures] = None
        self._renewer: Renewer = Renewer()
        self._closed = False
        _io.at_exit(self)

    async def _connect(self, timeout: float) -> None:
        try:
            self.info = await self.api.NodeService.GetNode(
                node_pb2.GetNodeRequest(), timeout=timeout, wait_for_ready=self.daemon is not None
            )
        except BaseException:
            await _io.finish(self.close())
            raise

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the sessions and the connections, and ends a private daemon."""
        if self._closed:
            return
        self._closed = True
        problem: Optional[Exception] = None
        try:
            for session in self._renewer.sessions():
                try:
                    await session.close()
                except errors.Error:
                    pass  # the daemon is gone; or busy, and the lease will end
                except Exception as error:
                    problem = error
        finally:
            await self._disconnect()
        if problem is not None:
            raise problem

    async def _disconnect(self) -> None:
        self._renewer.close()
        try:
            if not self._guard.is_forked:
                self._guard.is_closed = True
                for channel in self._channels:
                    await _io.close_channel(channel)
        finally:
            if self.daemon is not None:
                await _io.in_thread(self.daemon.stop)

    def __repr__(self) -> str:
        return f"<Client of {self.address}>"

    def session(
        self,
        session_id: str = "",
        *,
        ttl: Optional[Seconds] = None,
        labels: Optional[Mapping[str, str]] = None,
        weight: int = 0,
        lease: str = "",
        on_lost: Any = None,
    ) -> _io.Opening[Session]:
        """Creates a session, which renews itself. `with` deletes it with everything that it owns.

        `on_lost` is called with the error when the session has ended without this client: in a
        thread of its own; with asyncio in a task, and it may be a coroutine function."""
        request = session_pb2.CreateSessionRequest(
            session_id=session_id or random_id("s"), ttl=duration(ttl), labels=labels, weight=weight
        )
        return _io.Opening(self._open_session, request, lease, on_lost)

    async def _open_session(
        self, request: session_pb2.CreateSessionRequest, lease: str, on_lost: Any
    ) -> Session:
        request.lease = lease or _daemon.environment("PTOD_LEASE")
        request.client = _daemon.client_name()
        request.attach_key = _daemon.random_key()
        info = await self.api.SessionService.CreateSession(request)
        link = None
        if self._use_broker and self.info.broker_socket and self.address.startswith("unix:"):
            link = _broker.BrokerLink(
                self.info.broker_socket, request.session_id, request.attach_key
            )
        session = Session(self, info, link, on_lost)
        self._renewer.add(session)
        return session

    async def node(self) -> node_pb2.Node:
        """What the daemon says of itself now: version, limits, number of chips.

        >>> node.node().chip_count
        2
        """
        return await self.api.NodeService.GetNode(node_pb2.GetNodeRequest())

    async def chips(self) -> List[node_pb2.Chip]:
        """The chips in order of index."""
        request = node_pb2.ListChipsRequest(page_size=1000)
        return list((await self.api.NodeService.ListChips(request)).chips)

    async def kernels(self) -> List[kernel_pb2.Kernel]:
        """The built-in kernels with their signatures, in order of name.

        >>> [scalar.name for kernel in node.kernels() if kernel.name == "kernels/axpy"
        ...  for scalar in kernel.scalars]
        ['alpha']
        """
        kernels: List[kernel_pb2.Kernel] = []
        request = kernel_pb2.ListKernelsRequest(page_size=1000)
        while True:
            page = await self.api.KernelService.ListKernels(request)
            kernels.extend(page.kernels)
            if not page.next_page_token:
                return kernels
            request.page_token = page.next_page_token

    async def sessions(self) -> List[session_pb2.Session]:
        """The sessions that the caller may look at, in order of name."""
        found: List[session_pb2.Session] = []
        request = session_pb2.ListSessionsRequest(page_size=1000)
        while True:
            page = await self.api.SessionService.ListSessions(request)
            found.extend(page.sessions)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def runs(
        self, parent: str = "sessions/-", active_only: bool = False
    ) -> List[run_pb2.Run]:
        """The runs of all sessions that the caller may look at, or of one."""
        found: List[run_pb2.Run] = []
        request = run_pb2.ListRunsRequest(parent=parent, page_size=1000, active_only=active_only)
        while True:
            page = await self.api.RunService.ListRuns(request)
            found.extend(page.runs)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def _kernel_signatures(self) -> Signatures:
        if self._signatures is None:
            self._signatures = Signatures(await self.kernels())
        return self._signatures


def connect(
    address: str = "",
    *,
    context: str = "",
    tls_ca: str = "",
    tls_cert: str = "",
    tls_key: str = "",
    tls_server_name: str = "",
    token_file: str = "",
    timeout: Seconds = 30,
    connect_timeout: Seconds = 5,
    broker: bool = True,
) -> _io.Opening[Client]:
    """Connects to a daemon: to `unix:/path` or `host:port`.

    What is not given comes from the context (see `ptoctl context`; by default the one in use,
    unless PTOD_ADDRESS is set), then from PTOD_ADDRESS, PTOD_TLS_CA, PTOD_TLS_CERT, PTOD_TLS_KEY,
    PTOD_TLS_SERVER_NAME and PTOD_TOKEN_FILE. `timeout` is for each call. Without `broker`, or with
    PTOD_BROKER=off, buffers are copied and never mapped.
    """
    given = _target.Target(address, tls_ca, tls_cert, tls_key, tls_server_name, token_file)
    broker = broker and _daemon.environment("PTOD_BROKER") != "off"
    return _io.Opening(_connect, given, context, seconds(timeout), seconds(connect_timeout), broker)


async def _connect(
    given: _target.Target, context: str, timeout: float, connect_timeout: float, broker: bool
) -> Client:
    client = Client(_target.resolve(given, context), timeout, broker, None)
    await client._connect(connect_timeout)
    return client


def local(
    chips: int = 1,
    *,
    ptod: str = "",
    flags: Sequence[str] = (),
    clusters: int = 0,
    memory: str = "",
    timeout: Seconds = 30,
    start_timeout: Seconds = 30,
    broker: bool = True,
    env: Optional[Dict[str, str]] = None,
) -> _io.Opening[Client]:
    """Starts a private daemon with simulated chips, and connects to it.

    The daemon ends with the client, and with this process, however that ends. It is the program
    `ptod`: the argument, else PTOD_BINARY, else the one in the package, else the one in PATH.
    `flags` are further options of it.
    """
    options = [f"--sim-chips={chips}"]
    if clusters:
        options.append(f"--sim-clusters={clusters}")
    if memory:
        options.append(f"--sim-memory={memory}")
    start = _daemon.Start(ptod, [*options, *flags], env)
    return _io.Opening(_local, start, seconds(timeout), seconds(start_timeout), broker)


async def _local(
    start: _daemon.Start, timeout: float, start_timeout: float, broker: bool
) -> Client:
    daemon = _daemon.Daemon(start)
    try:
        until = time.monotonic() + start_timeout
        while not daemon.is_listening():
            daemon.check(time.monotonic() < until)
            await _io.sleep(_POLL_SECONDS)
        client = Client(_target.Target(daemon.address), timeout, broker, daemon)
    except BaseException:
        daemon.stop()
        raise
    await client._connect(start_timeout)
    return client
