"""DLPack, with BF16, which numpy's own functions do not know."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, Optional, Tuple

import numpy as np

from ptod.dtypes import DType

_CPU = 1
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_TYPES = {
    DType.F32: (_FLOAT, 32), DType.F16: (_FLOAT, 16), DType.BF16: (_BFLOAT, 16),
    DType.F64: (_FLOAT, 64), DType.I8: (_INT, 8), DType.I16: (_INT, 16), DType.I32: (_INT, 32),
    DType.I64: (_INT, 64), DType.U8: (_UINT, 8), DType.U16: (_UINT, 16), DType.U32: (_UINT, 32),
    DType.U64: (_UINT, 64), DType.BOOL: (_BOOL, 8),
}  # fmt: skip
_DTYPES = {code: dtype for dtype, code in _TYPES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]

_NAME, _USED = b"dltensor", b"used_dltensor"
# What is exported, by the address of its structure, until the other side deletes it. With its
# capsule, which has no destructor: that would run while an error is raised, which Python cannot.
_exported: Dict[int, Tuple[Any, ...]] = {}


@_DELETER
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


def _drop_unused() -> None:
    """Forgets tensors that nobody has taken, and nobody can take any more."""
    for address in list(_exported):
        entry = _exported.get(address)
        # The entry has one reference to its capsule, and the call another one.
        if entry and sys.getrefcount(entry[0]) == 2 and _api.PyCapsule_IsValid(entry[0], _NAME):
            _exported.pop(address, None)


def device() -> Tuple[int, int]:
    """Where the memory is, for `__dlpack_device__`."""
    return (_CPU, 0)


def export(array: np.ndarray, dtype: DType, to: Any = None, copy: Optional[bool] = None) -> Any:
    """A capsule with the array's memory, for `__dlpack__`."""
    if to is not None and tuple(to) != device():
        raise BufferError(f"tensors are exported to the CPU, which is {device()}, not {tuple(to)}")
    _drop_unused()
    # DLPack cannot say that memory must not be written.
    if copy or not array.flags.writeable:
        if copy is False:
            raise BufferError("the tensor is not mapped, so it cannot be exported without a copy")
        array = array.copy()
    count = max(array.ndim, 1)
    shape = (ctypes.c_int64 * count)(*array.shape)
    strides = (ctypes.c_int64 * count)(*(step // array.itemsize for step in array.strides))
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id = array.ctypes.data, _CPU, 0
    tensor.ndim, tensor.lanes, tensor.byte_offset = array.ndim, 1, 0
    tensor.code, tensor.bits = _TYPES[dtype]
    tensor.shape, tensor.strides = shape, strides
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    capsule = _api.PyCapsule_New(address, _NAME, None)
    _exported[address] = (capsule, managed, array, shape, strides)
    return capsule


class _Imported:
    """Memory of another library; gives it back with the last array."""

    def __init__(self, managed: Any, interface: Dict[str, Any]) -> None:
        self._managed = managed
        self.__array_interface__ = interface

    def __del__(self) -> None:
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def to_numpy(source: Any) -> Tuple[np.ndarray, Optional[DType]]:
    """The array of an object with `__dlpack__`, without a copy, and its type."""
    if source.__dlpack_device__()[0] != _CPU:
        raise TypeError("only memory of the CPU becomes a tensor: copy it there first")
    capsule = source.__dlpack__()
    managed = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _NAME), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(
            f"tensors have no elements of DLPack's type {tensor.code}, {tensor.bits} bits"
        )
    _api.PyCapsule_SetName(capsule, _USED)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    interface: Dict[str, Any] = {
        "version": 3,
        "shape": shape,
        "typestr": np.dtype(np.uint16).str if dtype == DType.BF16 else dtype.numpy.str,
        "data": ((tensor.data or 0) + tensor.byte_offset, False),
    }
    if tensor.strides:
        interface["strides"] = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    return np.asarray(_Imported(managed, interface)), dtype
