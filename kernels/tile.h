#pragma once

#include <cstdint>

#include "kernels/dtype.h"

// Moves runs of elements between memory and arrays of float. A stride is in elements.
namespace pto::kernels {

void LoadTile(const float* from, int64_t stride, int64_t count, float* to);
void LoadTile(const F16* from, int64_t stride, int64_t count, float* to);
void LoadTile(const BF16* from, int64_t stride, int64_t count, float* to);

// Round to nearest, ties to even.
void StoreTile(const float* from, int64_t count, F16* to, int64_t stride);
void StoreTile(const float* from, int64_t count, BF16* to, int64_t stride);

}  // namespace pto::kernels
