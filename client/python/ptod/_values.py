"""What becomes a tensor: arrays, lists, and tensors of other libraries."""

from __future__ import annotations

import sys
from typing import Any, Optional, Tuple

import numpy as np

from ptod import _dlpack
from ptod.dtypes import DType, from_bfloat16, to_bfloat16


def as_array(data: Any, dtype: Optional[Any] = None) -> Tuple[np.ndarray, DType]:
    """The numbers and their type. BF16 without ml_dtypes is bits as uint16."""
    source, own = _numbers(data)
    wanted = own if dtype is None else DType.of(dtype)
    if wanted is None:
        wanted = DType.of(source.dtype)
    return convert(source, own, wanted), wanted


def convert(source: np.ndarray, own: Optional[DType], wanted: DType) -> np.ndarray:
    """The numbers in another type. Refuses to lose what numpy calls the same kind."""
    if own == DType.BF16 and wanted != DType.BF16:
        source = from_bfloat16(source)  # the array may hold its bits as integers
    if own == wanted or source.dtype == wanted.numpy:
        return source.view(wanted.numpy) if source.dtype.itemsize == wanted.itemsize else source
    if wanted == DType.BF16:
        if own is None and source.dtype == np.uint16:
            return source.view(wanted.numpy)
        return to_bfloat16(source).view(wanted.numpy)
    if not np.can_cast(source.dtype, wanted.numpy, "same_kind"):
        raise TypeError(
            f"{source.dtype} does not become {wanted.name} by itself: convert it with astype()"
        )
    return source.astype(wanted.numpy)


def _numbers(data: Any) -> Tuple[np.ndarray, Optional[DType]]:
    """An array, and its type if numpy may not tell."""
    if isinstance(data, np.ndarray):
        return data, DType.BF16 if data.dtype.name == "bfloat16" else None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        data = data.detach().cpu().contiguous()
        if data.dtype == torch.bfloat16:
            return data.view(torch.int16).numpy().view(DType.BF16.numpy), DType.BF16
        return data.numpy(), None
    if hasattr(data, "__dlpack__"):
        return _dlpack.to_numpy(data)
    return np.asarray(data), None
