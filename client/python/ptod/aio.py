"""The API with asyncio: the same names as in `ptod`, with `await`, `async with` and `async for`.

    async with ptod.aio.local(chips=2) as node, node.session() as s:
        x = await s.tensor(np.arange(1024, dtype=np.float32))
        g = ptod.Graph(); g.task("scale", x, x, factor=2.0)
        await (await s.submit(g))
        print(await x.numpy())
"""

from ptod._async.buffers import Buffer, Tensor
from ptod._async.client import Client, connect, local
from ptod._async.domain import Domain
from ptod._async.events import EventStream
from ptod._async.graphs import RegisteredGraph
from ptod._async.launch_stream import Completion, LaunchStream
from ptod._async.open_run import OpenRun
from ptod._async.run import Run
from ptod._async.session import Session
from ptod.dtypes import DType
from ptod.errors import Error, ForkError, RunFailed, SessionLost, Timeout
from ptod.graph import Graph, Scalar, Task
from ptod.timeline import TaskTime, Timeline
from ptod.view import View

__all__ = [
    "Buffer",
    "Client",
    "Completion",
    "DType",
    "Domain",
    "Error",
    "EventStream",
    "ForkError",
    "Graph",
    "LaunchStream",
    "OpenRun",
    "RegisteredGraph",
    "Run",
    "RunFailed",
    "Scalar",
    "Session",
    "SessionLost",
    "Task",
    "TaskTime",
    "Tensor",
    "Timeline",
    "Timeout",
    "View",
    "connect",
    "local",
]
