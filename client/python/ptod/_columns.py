"""Graphs in columns: for large graphs, and for the segments of open runs."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from ptod import errors
from ptod._encode import launch_spec
from ptod._signatures import Signatures
from ptod.graph import Compare, DomainName, Graph, Launch, NotifyOp, Scalar, Task
from ptod.v1 import graph_pb2, kernel_pb2, run_pb2
from ptod.view import View

_FLOAT = kernel_pb2.Kernel.ScalarParameter.FLOAT
# Tasks of one chunk.
CHUNK_TASKS = 4096


class _List:
    """A list of different things, of which the first `sent` are known to the daemon."""

    def __init__(self) -> None:
        self.index: Dict[Any, int] = {}
        self.items: List[Any] = []
        self.sent = 0

    def intern(self, item: Any) -> int:
        found = self.index.setdefault(item, len(self.items))
        if found == len(self.items):
            self.items.append(item)
        return found

    def take(self) -> Sequence[Any]:
        """What was added since the last call."""
        new = self.items[self.sent :]
        self.sent = len(self.items)
        return new


def _bits(value: Any, is_float: bool) -> int:
    if is_float:
        return int.from_bytes(struct.pack("<d", value), "little")
    return int(value) & 0xFFFFFFFFFFFFFFFF


def _parts(
    header: graph_pb2.PackedHeader,
    chunks: Sequence[Tuple[graph_pb2.TensorBlock, graph_pb2.TaskBlock]],
    commit: graph_pb2.PackedCommit,
) -> Iterator[graph_pb2.PackedGraphPart]:
    yield graph_pb2.PackedGraphPart(header=header)
    for tensors, tasks in chunks:
        if tensors.buffer:
            yield graph_pb2.PackedGraphPart(tensors=tensors)
        yield graph_pb2.PackedGraphPart(tasks=tasks)
    yield graph_pb2.PackedGraphPart(commit=commit)


class Columns:
    """Turns tasks into chunks. What the chunks refer to by index grows from chunk to chunk."""

    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._kernels = _List()
        self._chips = _List()
        self._buffers = _List()
        self._layouts = _List()
        self._launches = _List()
        self._tensors = _List()
        self._domains = _List()
        self._launches.intern(Launch())
        self._tasks_before = 0

    def packed(
        self, graph: Graph, header: graph_pb2.PackedHeader
    ) -> Iterator[graph_pb2.PackedGraphPart]:
        """The whole graph as the messages of SubmitPackedRun and RegisterPackedGraph. Raises now
        what is wrong with it: gRPC would hide what a generator raises."""
        if graph.scalars:
            raise errors.invalid(
                f"a graph of {len(graph)} tasks goes in columns, which have no named scalars",
                "graph.scalars",
                "SCALAR_INVALID",
            )
        chunks = []
        for first in range(0, len(graph.tasks), CHUNK_TASKS):
            tasks = self._tasks(graph.tasks[first : first + CHUNK_TASKS])
            chunks.append((self._take_tensors(), tasks))
        self._fill_lists(header)
        header.explicit_dependencies_only = graph.explicit_dependencies_only
        commit = graph_pb2.PackedCommit(task_count=len(graph))
        return _parts(header, chunks, commit)

    def segment(self, tasks: Sequence[Task]) -> run_pb2.StreamRunBlock:
        """Tasks as a segment of an open run."""
        block = run_pb2.StreamRunBlock()
        block.tasks.CopyFrom(self._tasks(tasks))
        block.tensors.CopyFrom(self._take_tensors())
        self._fill_lists(block)
        return block

    def _fill_lists(self, message: Any) -> None:
        if not self._chips.items:
            self._chips.intern(0)  # the list must not be empty
        message.kernels.extend(self._kernels.take())
        message.chips.extend([f"chips/{chip}" for chip in self._chips.take()])
        message.buffers.extend(self._buffers.take())
        for dtype, shape, strides in self._layouts.take():
            message.layouts.add(dtype=dtype, shape=shape, strides=strides)
        message.launches.extend([launch_spec(launch) for launch in self._launches.take()])
        domains = self._domains.take()
        if domains:
            message.domains.extend(domains)

    def _take_tensors(self) -> graph_pb2.TensorBlock:
        block = graph_pb2.TensorBlock()
        before = 0
        for buffer, layout, offset in self._tensors.take():
            block.buffer.append(buffer)
            block.layout.append(layout)
            block.offset_delta.append(offset - before)
            before = offset
        return block

    def _tensor(self, view: View) -> int:
        strides = () if view.is_contiguous else view.strides
        layout = self._layouts.intern((int(view.dtype), view.shape, strides))
        return self._tensors.intern((self._buffers.intern(view.slot), layout, view.offset))

    def _tasks(self, tasks: Sequence[Task]) -> graph_pb2.TaskBlock:
        block = graph_pb2.TaskBlock(first_task=self._tasks_before)
        before = 0
        for row, task in enumerate(tasks):
            block.kernel.append(self._kernels.intern(task.kernel))
            block.chip.append(0 if task.chip is None else self._chips.intern(task.chip))
            block.launch.append(self._launches.intern(task.launch))
            block.dep_count.append(len(task.after))
            block.dep_back.extend([task.index - index for index in task.after])
            for view in task.args:
                index = self._tensor(view)
                block.arg_delta.append(index - before)
                before = index
            block.scalar.extend(self._scalars(task))
            if task.members or task.when is not None or task.no_dependency:
                self._add_extra(block.extras.add(row=row), task)
        self._tasks_before += len(tasks)
        return block

    def _scalars(self, task: Task) -> List[int]:
        values = self._signatures.scalars_of(task)
        kernel = self._signatures.find(task.kernel)
        bits = []
        for at, value in enumerate(values):
            if isinstance(value, Scalar):
                raise errors.invalid(
                    "graphs in columns have no named scalars",
                    f"graph.tasks[{task.index}].scalars[{at}]",
                )
            if isinstance(value, (Compare, NotifyOp)):
                value = value.number
            if isinstance(value, DomainName):
                value = self._domains.intern(value.name)
            known = kernel is not None and at < len(kernel.scalars)
            is_float = kernel.scalars[at].type == _FLOAT if known else isinstance(value, float)
            if not is_float and isinstance(value, float):
                raise errors.invalid(
                    f"'{kernel.scalars[at].name}' must be a whole number, not {value}",
                    f"graph.tasks[{task.index}].scalars[{at}]",
                    "SCALAR_INVALID",
                )
            bits.append(_bits(value, is_float))
        return bits

    def _add_extra(self, extra: graph_pb2.TaskExtra, task: Task) -> None:
        for chip, views in task.members:
            extra.members.add(
                chip=self._chips.intern(chip), args=[self._tensor(view) for view in views]
            )
        if task.when is not None:
            extra.predicate.tensor = self._tensor(task.when.view)
            extra.predicate.compare = task.when.comparison
            extra.predicate.value = task.when.value
        for argument in task.no_dependency:
            extra.no_dependency_mask |= 1 << argument
