"""A client of ptod, the daemon that runs task graphs on NPU chips.

    import numpy as np, ptod
    with ptod.local(chips=2) as node, node.session() as s:
        x = s.tensor(np.arange(1024, dtype=np.float32), chip=0)
        y = s.empty(1024, np.float32, chip=0)
        g = ptod.Graph(); g.task("scale", x, y, factor=2.0, blocks=8)
        s.submit(g).wait(); print(y.numpy())

`ptod.aio` has the same names for asyncio. `ptod.v1` has the messages of the API.
"""

import importlib
from typing import Any

from ptod._sync.buffers import Buffer, Tensor
from ptod._sync.client import Client, connect, local
from ptod._sync.domain import Domain
from ptod._sync.events import EventStream
from ptod._sync.graphs import RegisteredGraph
from ptod._sync.launch_stream import Completion, LaunchStream
from ptod._sync.open_run import OpenRun
from ptod._sync.run import Run
from ptod._sync.session import Session
from ptod.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    from_bfloat16,
    int8,
    int16,
    int32,
    int64,
    to_bfloat16,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ptod.errors import Error, ForkError, RunFailed, SessionLost, Timeout
from ptod.graph import Graph, Scalar, Task
from ptod.timeline import TaskTime, Timeline
from ptod.view import View

__version__ = "1.2.0"


def __getattr__(name: str) -> Any:
    # Not imported before it is wanted: asyncio takes a while.
    if name == "aio":
        return importlib.import_module("ptod.aio")
    raise AttributeError(f"module 'ptod' has no attribute '{name}'")


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
    "bfloat16",
    "bool_",
    "connect",
    "float16",
    "float32",
    "float64",
    "from_bfloat16",
    "int16",
    "int32",
    "int64",
    "int8",
    "local",
    "to_bfloat16",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]
