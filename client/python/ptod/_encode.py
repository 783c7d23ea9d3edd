"""Graphs with names, as the API takes them."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Optional, Tuple

from ptod._names import duration
from ptod._signatures import Signatures
from ptod.graph import DEFAULT_LAUNCH, Compare, DomainName, Graph, Launch, NotifyOp, Scalar, Task
from ptod.v1 import graph_pb2
from ptod.view import View

# Larger graphs go in columns: they would not fit into one message.
MAX_NAMED_TASKS = 20_000


def encode(graph: Graph, signatures: Signatures) -> graph_pb2.GraphSpec:
    """The graph for SubmitRun and RegisterGraph. Kept until the graph changes."""
    kept: Optional[Tuple[Signatures, graph_pb2.GraphSpec]] = graph._encoded
    if kept is None or kept[0] is not signatures:
        kept = (signatures, _Encoder(signatures).encode(graph))
        graph._encoded = kept
    return kept[1]


def launch_spec(launch: Launch) -> graph_pb2.LaunchSpec:
    """How a task is spread over cores, on the wire."""
    return graph_pb2.LaunchSpec(
        core=launch.core,
        block_num=launch.blocks,
        require_sync_start=launch.sync_start,
        vector_kernels=launch.vector_kernels,
        timeout=duration(launch.timeout) if launch.timeout else None,
    )


class _Encoder:
    def __init__(self, signatures: Signatures) -> None:
        self._signatures = signatures
        self._spec = graph_pb2.GraphSpec()
        self._names: Dict[Any, str] = {}
        self._taken: Dict[str, int] = {}

    def encode(self, graph: Graph) -> graph_pb2.GraphSpec:
        spec = self._spec
        spec.explicit_dependencies_only = graph.explicit_dependencies_only
        for scalar in graph.scalars.values():
            spec.scalars.add(name=scalar.name).value.CopyFrom(_number(scalar.value))
        names = [task.name for task in graph.tasks]
        for task in graph.tasks:
            self._add(task, names)
        return spec

    def _add(self, task: Task, names: Any) -> None:
        spec = self._spec.tasks.add(name=task.name, kernel=task.kernel)
        if task.members:
            for chip, views in task.members:
                spec.members.add(chip=f"chips/{chip}", args=[self._tensor(view) for view in views])
        else:
            if task.chip is not None:
                kernel = self._signatures.find(task.kernel)
                # Control tasks may use all chips.
                if kernel is None or not kernel.control:
                    spec.chip = f"chips/{task.chip}"
            spec.args.extend([self._tensor(view) for view in task.args])
        for value in self._signatures.scalars_of(task):
            spec.scalars.add().CopyFrom(_number(value))
        if task.launch is not DEFAULT_LAUNCH:
            spec.launch.CopyFrom(launch_spec(task.launch))
        if task.after:
            spec.after.extend([names[index] or str(index) for index in task.after])
        if task.when is not None:
            spec.predicate.tensor = self._tensor(task.when.view)
            spec.predicate.compare = task.when.comparison
            spec.predicate.value = task.when.value
        if task.no_dependency:
            spec.no_dependency_args.extend(task.no_dependency)

    def _tensor(self, view: View) -> str:
        """The name of the tensor for a view; equal views share one."""
        key = (view.slot, view.dtype, view.shape, view.strides, view.offset)
        name = self._names.get(key)
        if name is None:
            # The slot's name reads well in errors, so the first view of it gets that.
            count = self._taken.get(view.slot, 0)
            self._taken[view.slot] = count + 1
            name = f"{view.slot}#{count}" if count else view.slot
            self._names[key] = name
            tensor = self._spec.tensors.add(
                name=name,
                buffer=view.slot,
                dtype=int(view.dtype),
                shape=view.shape,
                offset=view.offset,
            )
            if not view.is_contiguous:
                tensor.strides.extend(view.strides)
        return name


def _number(value: Any) -> graph_pb2.Scalar:
    if isinstance(value, Scalar):
        return graph_pb2.Scalar(ref=value.name)
    if isinstance(value, Compare):
        return graph_pb2.Scalar(compare=value.number)
    if isinstance(value, NotifyOp):
        return graph_pb2.Scalar(op=value.number)
    if isinstance(value, DomainName):
        scalar: Any = graph_pb2.Scalar
        return scalar(domain=value.name)
    if isinstance(value, numbers.Integral):
        return graph_pb2.Scalar(i64=int(value))
    return graph_pb2.Scalar(f64=float(value))
