"""Views: which elements of a buffer a task uses."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np

from ptod.dtypes import DType

Shape = Union[int, Sequence[int]]
V = TypeVar("V", bound="View")


def shape_of(shape: Shape) -> Tuple[int, ...]:
    """A shape as numpy has it: a number is one dimension."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple(int(size) for size in shape)


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Distances between neighbours, in elements, when the last dimension is innermost."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class View:
    """Elements of a slot: a type, a shape, and where each element is.

    A slot is a buffer, or a name that a launch binds to one. Indexing, `reshape`, `transpose` and
    `T` make further views of the same memory, as with numpy.

    >>> rows = ptod.View("weights", np.float32, (4, 8), chip=0)
    >>> rows[1:3, ::2].shape, rows.T.strides, rows[2].offset
    ((2, 4), (1, 8), 16)
    """

    __slots__ = ("slot", "dtype", "shape", "strides", "offset", "chip", "_owner", "__weakref__")

    def __init__(
        self,
        slot: str,
        dtype: Any,
        shape: Shape,
        strides: Optional[Sequence[int]] = None,
        offset: int = 0,
        chip: Optional[int] = None,
        owner: Any = None,
    ) -> None:
        self.slot = slot
        self.dtype = DType.of(dtype)
        self.shape = shape_of(shape)
        self.strides = contiguous_strides(self.shape) if strides is None else tuple(strides)
        self.offset = offset
        #: The chip of the buffer. None if it is not known.
        self.chip = chip
        # Keeps the buffer alive.
        self._owner = owner

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without those between them."""
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def span(self) -> int:
        """Elements from the first to the last one of the view."""
        if self.size == 0:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides))

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in memory."""
        expected = contiguous_strides(self.shape)
        return self.size == 0 or all(
            size == 1 or step == want
            for size, step, want in zip(self.shape, self.strides, expected)
        )

    @property
    def layout(self) -> Tuple[Any, ...]:
        """Type, shape, and the strides that matter: equal for views that differ only in where they
        begin."""
        far = [step for size, step in zip(self.shape, self.strides) if size > 1 and self.size > 0]
        return (self.dtype, self.shape, *far)

    def _with(self: V, shape: Sequence[int], strides: Sequence[int], offset: int) -> V:
        view = object.__new__(type(self))
        view.slot, view.dtype, view.chip, view._owner = (
            self.slot,
            self.dtype,
            self.chip,
            self._owner,
        )
        view.shape, view.strides, view.offset = tuple(shape), tuple(strides), offset
        return view

    def __getitem__(self: V, index: Any) -> V:
        index = index if isinstance(index, tuple) else (index,)
        if Ellipsis in index:
            at = index.index(Ellipsis)
            whole = (slice(None),) * (self.ndim - len(index) + 1)
            index = index[:at] + whole + index[at + 1 :]
        if len(index) > self.ndim:
            raise IndexError(f"{len(index)} indices for {self.ndim} dimensions")
        shape, strides, offset = [], [], self.offset
        for at, (size, step) in enumerate(zip(self.shape, self.strides)):
            part = index[at] if at < len(index) else slice(None)
            if isinstance(part, slice):
                first, last, every = part.indices(size)
                if every < 1:
                    raise IndexError("views go forwards only: the step must be at least 1")
                count = max(0, -(-(last - first) // every))
                shape.append(count)
                strides.append(step * every)
                offset += first * step if count else 0
            else:
                position = int(part)
                if not -size <= position < size:
                    raise IndexError(f"index {position} is out of range for size {size}")
                offset += (position % size) * step
        return self._with(shape, strides, offset)

    def reshape(self: V, *shape: Any) -> V:
        """The same elements in another shape; only of a contiguous view. One size may be -1."""
        wanted = list(shape_of(shape[0] if len(shape) == 1 else shape))
        if -1 in wanted:
            known = math.prod(size for size in wanted if size != -1)
            wanted[wanted.index(-1)] = self.size // max(known, 1)
        if math.prod(wanted) != self.size:
            raise ValueError(f"{self.size} elements do not have the shape {tuple(shape)}")
        if not self.is_contiguous:
            raise ValueError("only a contiguous view can be reshaped without a copy")
        return self._with(wanted, contiguous_strides(wanted), self.offset)

    def transpose(self: V, *axes: int) -> V:
        """The view with its dimensions in another order; reversed if none is given."""
        order = axes or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"{order} is no order of {self.ndim} dimensions")
        return self._with(
            [self.shape[i] for i in order], [self.strides[i] for i in order], self.offset
        )

    @property
    def T(self: V) -> V:
        """The view with its dimensions reversed."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a view without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        where = "" if self.chip is None else f", chip={self.chip}"
        return f"<{type(self).__name__} {self.slot} {self.dtype.name} {list(self.shape)}{where}>"


def view_of_bytes(memory: np.ndarray, view: View, first_byte: int = 0) -> np.ndarray:
    """The array that a view describes, in bytes that begin at `first_byte` of its buffer."""
    item = view.dtype.itemsize
    start = view.offset * item - first_byte
    if view.size == 0:
        return np.empty(view.shape, view.dtype.numpy)
    raw = memory[start : start + view.span * item].view(view.dtype.numpy)
    return np.lib.stride_tricks.as_strided(
        raw, view.shape, [step * item for step in view.strides], writeable=memory.flags.writeable
    )
