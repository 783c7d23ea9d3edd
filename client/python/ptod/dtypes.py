"""Element types of tensors, and how numpy spells them."""

from __future__ import annotations

import enum
from typing import Any, Dict

import numpy as np

try:  # bfloat16 for numpy; optional
    import ml_dtypes as _ml_dtypes
except ImportError:
    _ml_dtypes = None


class DType(enum.IntEnum):
    """The type of a tensor's elements; the numbers are those of the API.

    Wherever ptod takes a type, numpy's types, their names and torch's types work too:

    >>> ptod.DType.of(np.float32), ptod.DType.of("bf16").itemsize
    (<DType.F32: 1>, 2)
    """

    F32 = 1
    F16 = 2
    BF16 = 3
    F64 = 4
    I8 = 5
    I16 = 6
    I32 = 7
    I64 = 8
    U8 = 9
    U16 = 10
    U32 = 11
    U64 = 12
    BOOL = 13

    @classmethod
    def of(cls, value: Any) -> "DType":
        """The type that numpy, torch or a name calls `value`."""
        if isinstance(value, cls):
            return value
        try:
            return _KNOWN[value]
        except (KeyError, TypeError):
            pass
        if isinstance(value, str) or type(value).__module__ == "torch":
            name = str(value).rpartition(".")[2]
            if name.lower() in ("bf16", "bfloat16"):
                return cls.BF16
            if name.upper() in cls.__members__:
                return cls[name.upper()]
            value = name
        dtype = np.dtype(value)
        if dtype.name == "bfloat16":
            return cls.BF16
        found = _OF_NUMPY.get(dtype)
        if found is None:
            raise TypeError(f"tensors have no elements of type {dtype}")
        return found

    @property
    def numpy(self) -> np.dtype:
        """The numpy type with the same bits: for BF16 that of ml_dtypes, or uint16 without it."""
        return _NUMPY[self]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _NUMPY[self].itemsize


_NUMPY: Dict[DType, np.dtype] = {
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(_ml_dtypes.bfloat16 if _ml_dtypes else np.uint16),
    DType.F64: np.dtype(np.float64),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
}
_OF_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items() if dtype != DType.BF16}
# What is given most often, for speed.
_KNOWN = {**_OF_NUMPY, **{numpy.type: dtype for numpy, dtype in _OF_NUMPY.items()}}

float32, float16, bfloat16, float64 = DType.F32, DType.F16, DType.BF16, DType.F64
int8, int16, int32, int64 = DType.I8, DType.I16, DType.I32, DType.I64
uint8, uint16, uint32, uint64 = DType.U8, DType.U16, DType.U32, DType.U64
bool_ = DType.BOOL


def to_bfloat16(values: Any) -> np.ndarray:
    """Rounds numbers to the nearest BF16, to even in a tie; returns their bits as uint16.

    >>> [hex(bits) for bits in ptod.to_bfloat16([1.0, -2.0])]
    ['0x3f80', '0xc000']
    """
    numbers = np.asarray(values, dtype=np.float32, order="C")
    bits = numbers.reshape(-1).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    # Rounding could carry the bits of a NaN over into those of infinity.
    nan = np.isnan(numbers).reshape(-1)
    return np.where(nan, (bits >> 16 | 0x40).astype(np.uint16), rounded).reshape(numbers.shape)


def from_bfloat16(bits: Any) -> np.ndarray:
    """The numbers of BF16 bits, as float32.

    >>> ptod.from_bfloat16(np.array([0x3F80, 0xC000], np.uint16))
    array([ 1., -2.], dtype=float32)
    """
    halves = np.asarray(bits, order="C").view(np.uint16)
    return (halves.reshape(-1).astype(np.uint32) << 16).view(np.float32).reshape(halves.shape)
