#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/pto_kernel.h"

// For tests of kernels: tensors with various memory layouts, and an engine that runs blocks.
namespace pto::kernels {

using Shape = std::vector<int64_t>;

// The layout of a view in its buffer.
enum class Layout {
  kDense,       // row-major from the first element
  kOffset,      // the same, after elements that are not part of it
  kPadded,      // with gaps after each row and each plane
  kStrided,     // with gaps between all elements
  kTransposed,  // column-major
};
inline constexpr Layout kAllLayouts[] = {Layout::kDense, Layout::kOffset, Layout::kPadded,
                                         Layout::kStrided, Layout::kTransposed};
const char* LayoutName(Layout layout);

bool IsFloat(uint32_t dtype);
// The nearest value of the type, computed without the code under test.
double RoundTo(uint32_t dtype, double value);
// Distance of 1 to the next number of the type.
double Epsilon(uint32_t dtype);

// A tensor and its memory. Elements are numbered in row-major order, for any layout.
class TestTensor {
 public:
  TestTensor(uint32_t dtype, const Shape& shape, Layout layout = Layout::kDense);

  pto_tensor View();
  int64_t size() const { return size_; }
  uint32_t dtype() const { return dtype_; }

  // Elements of the floating types.
  double Float(int64_t i) const;
  void SetFloat(int64_t i, double value);
  // Elements of the integer types.
  int64_t Int(int64_t i) const;
  void SetInt(int64_t i, int64_t value);
  // Any element's bits.
  uint64_t Bits(int64_t i) const;
  void SetBits(int64_t i, uint64_t bits);

  // Random elements: fractions from -8 to 8, or integers of any size.
  void Randomise(uint32_t seed);
  // Whether only elements of the view have changed.
  bool GapsUntouched() const;

 private:
  // The offset of element i in the buffer.
  int64_t Offset(int64_t i) const;

  const uint32_t dtype_;
  const Shape shape_;
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  int64_t size_ = 1;
  std::vector<uint64_t> memory_;
};

struct RunResult {
  int32_t code = 0;
  std::string error;
};

// Runs all blocks of a kernel, the last one first. Stops at the first failure. `cancelled` is what
// the kernel sees as its cancel flag.
RunResult RunKernel(
    const pto_kernel_info& info, const std::vector<TestTensor*>& tensors,
    const std::vector<pto_scalar>& scalars = {}, uint32_t block_count = 1,
    const std::function<bool()>& cancelled = [] { return false; });

// The message of the kernel's check; empty if it accepts.
std::string CheckKernel(const pto_kernel_info& info, const std::vector<TestTensor*>& tensors);

inline pto_scalar FloatScalar(double value) {
  pto_scalar scalar;
  scalar.f64 = value;
  return scalar;
}

inline pto_scalar IntegerScalar(int64_t value) {
  pto_scalar scalar;
  scalar.i64 = value;
  return scalar;
}

inline const Shape kShapes[] = {{},
                                {1},
                                {7},
                                {0},
                                {3, 0, 2},
                                {17, 3},
                                {3, 5, 7},
                                {1, 9, 1},
                                {2, 1, 3, 5},
                                {2, 3, 2, 3, 5},
                                {1000, 3},
                                {1031},
                                {1, 1, 1, 1, 1}};
// The last is more than the number of elements of most shapes.
inline constexpr uint32_t kBlockCounts[] = {1, 3, 7, 100};
inline constexpr uint32_t kArithmeticDtypes[] = {PTO_F32, PTO_F16, PTO_BF16, PTO_I32, PTO_I64};

// Calls `test` for all element types, shapes, layouts and numbers of blocks.
void ForAllCases(const std::function<void(uint32_t dtype, const Shape& shape, Layout layout,
                                          uint32_t block_count)>& test);

// A different layout for a second view, so that the views of one kernel have different layouts.
Layout Other(Layout layout);

const pto_kernel_info& Builtin(const char* name);

}  // namespace pto::kernels
