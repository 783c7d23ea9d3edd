#pragma once

#include <cstdint>

#include "pto/v1/tensor.pb.h"

namespace pto {

// Maps a C++ type to its API element type: DTypeOf<float>::value is v1::F32. F16 and BF16 have no
// C++ type; write and read them as bytes.
template <typename T>
struct DTypeOf;

#define PTO_DTYPE_OF(type, dtype)                 \
  template <>                                     \
  struct DTypeOf<type> {                          \
    static constexpr v1::DType value = v1::dtype; \
  }
PTO_DTYPE_OF(float, F32);
PTO_DTYPE_OF(double, F64);
PTO_DTYPE_OF(int8_t, I8);
PTO_DTYPE_OF(int16_t, I16);
PTO_DTYPE_OF(int32_t, I32);
PTO_DTYPE_OF(int64_t, I64);
PTO_DTYPE_OF(uint8_t, U8);
PTO_DTYPE_OF(uint16_t, U16);
PTO_DTYPE_OF(uint32_t, U32);
PTO_DTYPE_OF(uint64_t, U64);
PTO_DTYPE_OF(bool, BOOL);
#undef PTO_DTYPE_OF

}  // namespace pto
