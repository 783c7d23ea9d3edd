"""What kernels take, so that scalars can be given by name."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterable, List, Optional

from ptod import errors
from ptod.graph import ALGORITHMS, REDUCE_OPS, Compare, DomainName, NotifyOp, Scalar, Task
from ptod.v1 import domain_pb2, kernel_pb2

_FLOAT = kernel_pb2.Kernel.ScalarParameter.FLOAT
_COMPARISONS = {"==": 1, "!=": 2, ">": 3, ">=": 4, "<": 5, "<=": 6}
# Numbers that have names, by the scalar.
_NAMED = {"op": REDUCE_OPS, "algorithm": ALGORITHMS, "compare": _COMPARISONS}


class Signatures:
    """The kernels that a session can use. Uploaded ones hide built-in ones of the same id."""

    def __init__(self, kernels: Iterable[kernel_pb2.Kernel]) -> None:
        self._kernels: Dict[str, kernel_pb2.Kernel] = {}
        for kernel in kernels:
            self.add(kernel)

    def add(self, kernel: kernel_pb2.Kernel) -> None:
        """Adds a kernel, or replaces one."""
        self._kernels[kernel.name.rpartition("/")[2]] = kernel

    def copy(self) -> "Signatures":
        """The same kernels, to which others can be added."""
        return Signatures(self._kernels.values())

    def find(self, name: str) -> Optional[kernel_pb2.Kernel]:
        """The kernel of this id or full name; None if it is not known."""
        return self._kernels.get(name) or self._kernels.get(name.rpartition("/")[2])

    def scalars_of(self, task: Task) -> List[Any]:
        """The task's scalars in the kernel's order: floats, ints, or `Scalar` and the like."""
        kernel = self.find(task.kernel)
        if kernel is None:
            # The daemon says that it does not exist; so no order is needed.
            return list(task.scalars) + list(task.named_scalars.values())
        given = dict(task.named_scalars)
        values = list(task.scalars)
        for parameter in kernel.scalars[len(values) :]:
            if parameter.name not in given:
                raise self._missing(task, kernel, parameter.name)
            values.append(given.pop(parameter.name))
        if given:
            raise self._unknown(task, kernel, next(iter(given)))
        return [
            _convert(value, kernel.scalars[at], task) if at < len(kernel.scalars) else value
            for at, value in enumerate(values)
        ]

    @staticmethod
    def _missing(task: Task, kernel: kernel_pb2.Kernel, name: str) -> errors.Error:
        names = ", ".join(parameter.name for parameter in kernel.scalars)
        return errors.invalid(
            f"task {task.index} ({kernel.name}) lacks the scalar '{name}'; it takes {names}",
            f"graph.tasks[{task.index}].scalars",
            "SCALAR_COUNT",
        )

    @staticmethod
    def _unknown(task: Task, kernel: kernel_pb2.Kernel, name: str) -> errors.Error:
        names = [parameter.name for parameter in kernel.scalars]
        near = difflib.get_close_matches(name, names, 1)
        advice = f"; did you mean '{near[0]}'?" if near else ""
        return errors.invalid(
            f"task {task.index}: {kernel.name} has no scalar '{name}'{advice}",
            f"graph.tasks[{task.index}].scalars",
            "SCALAR_UNKNOWN",
        )


def _convert(value: Any, parameter: kernel_pb2.Kernel.ScalarParameter, task: Task) -> Any:
    if isinstance(value, (Scalar, Compare, NotifyOp)):
        return value
    if isinstance(getattr(value, "info", None), domain_pb2.Domain):
        return DomainName(value.info.name.rpartition("/")[2])
    if isinstance(value, str):
        names = _NAMED.get(parameter.name, {})
        if value not in names:
            known = f"one of {', '.join(names)}" if names else "a number"
            raise errors.invalid(
                f"task {task.index}: '{parameter.name}' is '{value}', not {known}",
                f"graph.tasks[{task.index}].scalars",
                "SCALAR_INVALID",
            )
        return names[value]
    if parameter.type == _FLOAT:
        return float(value)
    # The daemon refuses fractions, and says where.
    return int(value) if float(value).is_integer() else float(value)
