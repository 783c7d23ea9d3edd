"""Graphs: tasks in program order, with the views that they read and write."""

from __future__ import annotations

import numbers
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ptod import errors
from ptod._names import Seconds, seconds
from ptod.view import Shape, View

Number = Union[int, float]

_COMPARISONS = {"==": 1, "!=": 2, ">": 3, ">=": 4, "<": 5, "<=": 6}
_NOTIFY_OPS = {"set": 1, "add": 2}
_CORES = {"aic": 1, "aiv": 2, "mix": 3}

#: Operations of collectives, by the names that `op` accepts.
REDUCE_OPS = {"sum": 1, "prod": 2, "max": 3, "min": 4}
#: Algorithms of all_reduce, by the names that `algorithm` accepts.
ALGORITHMS = {"auto": 0, "one_shot": 1, "two_shot": 2, "ring": 3, "bidirectional_ring": 4}


class Scalar(NamedTuple):
    """A named scalar of a graph, which a launch can bind to another value."""

    name: str
    value: Number


class Compare(NamedTuple):
    """A comparison as a scalar of `wait`."""

    number: int


class NotifyOp(NamedTuple):
    """An operation as a scalar of `notify`."""

    number: int


class DomainName(NamedTuple):
    """A domain as a scalar of an uploaded kernel."""

    name: str


class Launch(NamedTuple):
    """How a task is spread over cores."""

    core: int = 0
    blocks: int = 0
    sync_start: bool = False
    vector_kernels: Tuple[str, ...] = ()
    timeout: float = 0.0


class Predicate(NamedTuple):
    """What must hold for a task to run."""

    view: View
    comparison: int
    value: int


DEFAULT_LAUNCH = Launch()


class Task:
    """A task of a graph. Pass it as `after` to tasks that must wait for it."""

    __slots__ = (
        "index", "kernel", "args", "chip", "members", "scalars", "named_scalars",
        "launch", "after", "name", "when", "no_dependency",
    )  # fmt: skip

    index: int
    kernel: str
    args: Tuple[View, ...]
    chip: Optional[int]
    members: Tuple[Tuple[int, Tuple[View, ...]], ...]
    scalars: Tuple[Any, ...]
    named_scalars: Dict[str, Any]
    launch: Launch
    after: Tuple[int, ...]
    name: str
    when: Optional[Predicate]
    no_dependency: Tuple[int, ...]

    def views(self) -> List[View]:
        """All views that it uses."""
        views = [*self.args, *(view for _, part in self.members for view in part)]
        return views if self.when is None else [*views, self.when.view]

    def __repr__(self) -> str:
        return f"<Task {self.index} {self.name or self.kernel}>"


After = Union[Task, Sequence[Task], None]


def _comparison(text: str) -> int:
    if text not in _COMPARISONS:
        raise errors.invalid(f"'{text}' is no comparison: one of {', '.join(_COMPARISONS)}")
    return _COMPARISONS[text]


def _chip_of(views: Sequence[Any]) -> Optional[int]:
    """The chip of the first view that knows it. What is no view is found later."""
    chips = (getattr(view, "chip", None) for view in views)
    return next((chip for chip in chips if chip is not None), None)


class Graph:
    """Tasks in program order.

    The daemon derives the order of tasks from what they read and write; `after` adds to it. A graph
    can be submitted any number of times, also to several sessions if it uses slots only.

    >>> x, y = s.tensor([1.0, 2.0, 3.0], np.float32), s.empty(3, np.float32)
    >>> g = ptod.Graph()
    >>> g.task("scale", x, y, factor=10.0)
    <Task 0 scale>
    >>> g.task("add", x, y, y, name="sum")
    <Task 1 sum>
    >>> _ = s.run(g)
    >>> y.numpy()
    array([11., 22., 33.], dtype=float32)
    """

    def __init__(self, explicit_dependencies_only: bool = False) -> None:
        #: Whether tasks wait only for those in their `after`.
        self.explicit_dependencies_only = explicit_dependencies_only
        self.tasks: List[Task] = []
        self.scalars: Dict[str, Scalar] = {}
        self.slots: Dict[str, View] = {}
        self._first = 0  # tasks before this one were sent by an open run
        # What a client made of it last: see _encode.
        self._encoded: Any = None

    def __len__(self) -> int:
        return self._first + len(self.tasks)

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} tasks>"

    def slot(self, name: str, shape: Shape, dtype: Any, chip: int = 0) -> View:
        """A view of a buffer that each launch binds by this name, to a tensor of this shape."""
        self.slots[name] = View(name, dtype, shape, chip=chip)
        return self.slots[name]

    def scalar(self, name: str, value: Number) -> Scalar:
        """A named scalar, which a launch can bind to another value."""
        if name in self.scalars:
            raise errors.invalid(f"the graph has two scalars '{name}'", "graph.scalars")
        whole = isinstance(value, numbers.Integral)
        self.scalars[name] = Scalar(name, int(value) if whole else float(value))
        return self.scalars[name]

    def task(
        self,
        kernel: str,
        *args: View,
        chip: Optional[int] = None,
        blocks: int = 0,
        core: str = "",
        sync_start: bool = False,
        vector_kernels: Sequence[str] = (),
        timeout: Optional[Seconds] = None,
        after: After = None,
        name: str = "",
        when: Optional[Tuple[View, str, int]] = None,
        no_dependency: Sequence[int] = (),
        scalars: Sequence[Any] = (),
        **named_scalars: Any,
    ) -> Task:
        """Adds a task: a kernel and its tensor arguments, in the kernel's order.

        Scalars are given by their names, such as `factor=2.0`, or in order as `scalars`. The chip
        is that of the arguments. `when=(flag, ">", 0)` runs the task only if that holds.
        """
        if chip is None:
            chip = _chip_of(args)
        return self._add(
            kernel, args, chip, (), scalars, named_scalars, blocks, core, sync_start,
            vector_kernels, timeout, after, name, when, no_dependency,
        )  # fmt: skip

    def group(
        self,
        kernel: str,
        members: Sequence[Union[Sequence[View], Tuple[int, Sequence[View]]]],
        *,
        blocks: int = 0,
        core: str = "",
        timeout: Optional[Seconds] = None,
        after: After = None,
        name: str = "",
        when: Optional[Tuple[View, str, int]] = None,
        no_dependency: Sequence[int] = (),
        scalars: Sequence[Any] = (),
        **named_scalars: Any,
    ) -> Task:
        """Adds one task on several chips, such as a collective. Each member is a list of arguments,
        or `(chip, arguments)`; its position is its rank."""
        parts = []
        chip: Optional[int]
        views: Any
        for member in members:
            if len(member) == 2 and isinstance(member[0], int):
                chip, views = member[0], member[1]
            else:
                views = member
                chip = _chip_of(views)
            if chip is None:
                field = f"graph.tasks[{len(self)}].members[{len(parts)}].chip"
                raise errors.invalid("the chip of a member is not known; use (chip, views)", field)
            parts.append((int(chip), tuple(views)))
        return self._add(
            kernel, (), None, tuple(parts), scalars, named_scalars, blocks, core, False,
            (), timeout, after, name, when, no_dependency,
        )  # fmt: skip

    def join(self, *tasks: Task, name: str = "") -> Task:
        """Adds a task that does nothing, after all of these."""
        return self.task("join", after=tasks, name=name)

    def copy(
        self,
        to: View,
        source: View,
        after: After = None,
        no_dependency: Sequence[int] = (),
        name: str = "",
    ) -> Task:
        """Adds a copy between any chips, which needs no core."""
        return self.task(
            "copy_async", to, source, after=after, no_dependency=no_dependency, name=name
        )

    def notify(
        self, signal: View, value: int, op: str = "set", after: After = None, name: str = ""
    ) -> Task:
        """Adds a task that sets a signal or adds to it, and wakes the tasks that wait for it.

        Signals create no dependencies: `after` says which tasks come first."""
        if op not in _NOTIFY_OPS:
            raise errors.invalid(f"'{op}' is no operation: one of {', '.join(_NOTIFY_OPS)}")
        scalars = (NotifyOp(_NOTIFY_OPS[op]), int(value))
        return self.task("notify", signal, scalars=scalars, after=after, name=name)

    def wait(
        self,
        signal: View,
        comparison: str,
        value: int,
        token: Optional[View] = None,
        timeout: Optional[Seconds] = None,
        after: After = None,
        name: str = "",
    ) -> Task:
        """Adds a task that ends when the signal compares true. Tasks that must come later name it
        in `after`, or read the token."""
        scalars = (Compare(_comparison(comparison)), int(value), round(seconds(timeout) * 1e9))
        args = (signal,) if token is None else (signal, token)
        kernel = "wait" if token is None else "wait_token"
        return self.task(kernel, *args, scalars=scalars, after=after, name=name)

    def all_reduce(
        self, members: Sequence[Sequence[View]], op: str = "sum", algorithm: str = "auto",
        deterministic: bool = False, **options: Any,
    ) -> Task:  # fmt: skip
        """Adds a reduction of the inputs of all ranks to the outputs of all ranks; each member is
        `[input, output]`, which may be the same view."""
        return self.group(
            "all_reduce", members, op=op, algorithm=algorithm, deterministic=int(deterministic),
            **options,
        )  # fmt: skip

    def _add(
        self, kernel: str, args: Tuple[View, ...], chip: Optional[int], members: Tuple[Any, ...],
        scalars: Sequence[Any], named_scalars: Mapping[str, Any], blocks: int, core: str,
        sync_start: bool, vector_kernels: Sequence[str], timeout: Optional[Seconds], after: After,
        name: str, when: Optional[Tuple[View, str, int]], no_dependency: Sequence[int],
    ) -> Task:  # fmt: skip
        task = Task.__new__(Task)
        task.index = len(self)
        task.kernel, task.args, task.chip, task.members = kernel, args, chip, members
        task.scalars, task.named_scalars, task.name = tuple(scalars), dict(named_scalars), name
        task.launch = DEFAULT_LAUNCH
        if blocks or core or sync_start or vector_kernels or timeout:
            if core and core.lower() not in _CORES:
                raise errors.invalid(f"'{core}' is no kind of core: one of {', '.join(_CORES)}")
            kind = _CORES[core.lower()] if core else 0
            task.launch = Launch(kind, blocks, sync_start, tuple(vector_kernels), seconds(timeout))
        if after is None:
            task.after = ()
        elif isinstance(after, Task):
            task.after = (after.index,)
        else:
            task.after = tuple(dict.fromkeys(each.index for each in after))
        task.when = None if when is None else Predicate(when[0], _comparison(when[1]), int(when[2]))
        task.no_dependency = tuple(no_dependency)
        self._check(task)
        self.tasks.append(task)
        self._encoded = None
        return task

    def _check(self, task: Task) -> None:
        path = f"graph.tasks[{task.index}]"
        if any(index >= task.index for index in task.after):
            raise errors.invalid("a task can only wait for earlier ones", f"{path}.after")
        self._check_views(task, task.args, path)
        for rank, (_, views) in enumerate(task.members):
            self._check_views(task, views, f"{path}.members[{rank}]")

    @staticmethod
    def _check_views(task: Task, views: Sequence[Any], path: str) -> None:
        for at, view in enumerate(views):
            if not isinstance(view, View):
                raise errors.invalid(
                    f"argument {at} of '{task.kernel}' is {type(view).__name__}, not a tensor; "
                    "scalars are given by name",
                    f"{path}.args[{at}]",
                )
