#include "kernels/kernel_tester.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "kernels/dtype.h"

namespace pto::kernels {
namespace {

constexpr unsigned char kGap = 0xa5;

double DecodeHalf(uint16_t bits) { return static_cast<double>(std::bit_cast<_Float16>(bits)); }
uint16_t EncodeHalf(double value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

double DecodeBfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even.
uint16_t EncodeBfloat(double value) {
  const float narrow = static_cast<float>(value);
  if (std::isnan(value)) return 0x7fc0;
  uint16_t below = static_cast<uint16_t>(std::bit_cast<uint32_t>(narrow) >> 16);
  if (std::fabs(DecodeBfloat(below)) > std::fabs(value)) --below;
  if (DecodeBfloat(below) == value) return below;
  const uint16_t above = below + 1;
  // If the next number is infinity, use the number that would follow with a larger exponent range.
  const double low = DecodeBfloat(below);
  const double high =
      std::isinf(DecodeBfloat(above)) ? std::copysign(0x1p128, value) : DecodeBfloat(above);
  const double to_low = std::fabs(value - low);
  const double to_high = std::fabs(high - value);
  if (to_low != to_high) return to_low < to_high ? below : above;
  return below % 2 == 0 ? below : above;
}

struct FakeEngine {
  std::function<bool()> cancelled;
  std::string error;
};

FakeEngine* EngineOf(const pto_context* context) {
  return static_cast<FakeEngine*>(context->engine);
}

int IsCancelled(const pto_context* context) { return EngineOf(context)->cancelled() ? 1 : 0; }
void WriteLog(const pto_context*, pto_log_level, const char*) {}
void SetError(const pto_context* context, const char* text) { EngineOf(context)->error = text; }

}  // namespace

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kDense:
      return "dense";
    case Layout::kOffset:
      return "offset";
    case Layout::kPadded:
      return "padded";
    case Layout::kStrided:
      return "strided";
    case Layout::kTransposed:
      return "transposed";
  }
  return "?";
}

bool IsFloat(uint32_t dtype) { return dtype == PTO_F32 || dtype == PTO_F16 || dtype == PTO_BF16; }

double RoundTo(uint32_t dtype, double value) {
  switch (dtype) {
    case PTO_F16:
      return DecodeHalf(EncodeHalf(value));
    case PTO_BF16:
      return DecodeBfloat(EncodeBfloat(value));
    default:
      return static_cast<float>(value);
  }
}

double Epsilon(uint32_t dtype) {
  switch (dtype) {
    case PTO_F16:
      return 0x1p-10;
    case PTO_BF16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

TestTensor::TestTensor(uint32_t dtype, const Shape& shape, Layout layout)
    : dtype_(dtype), shape_(shape), strides_(shape.size()) {
  int64_t extent = layout == Layout::kStrided ? 3 : 1;
  const auto take = [&](size_t d) {
    strides_[d] = extent;
    extent *= std::max<int64_t>(shape_[d], 1) + (layout == Layout::kPadded ? 2 : 0);
    size_ *= shape_[d];
  };
  if (layout == Layout::kTransposed) {
    for (size_t d = 0; d < shape_.size(); ++d) take(d);
  } else {
    for (size_t d = shape_.size(); d-- > 0;) take(d);
  }
  offset_ = layout == Layout::kDense ? 0 : 5;
  const size_t bytes = static_cast<size_t>(offset_ + extent + 3) * DtypeSize(dtype);
  memory_.resize(bytes / sizeof(uint64_t) + 1);
  std::memset(memory_.data(), kGap, memory_.size() * sizeof(uint64_t));
}

pto_tensor TestTensor::View() {
  pto_tensor view{};
  // Like the engine.
  view.data =
      size_ == 0 ? nullptr : reinterpret_cast<char*>(memory_.data()) + offset_ * DtypeSize(dtype_);
  view.dtype = dtype_;
  view.ndim = static_cast<uint32_t>(shape_.size());
  for (size_t d = 0; d < shape_.size(); ++d) {
    view.shape[d] = shape_[d];
    view.strides[d] = strides_[d];
  }
  return view;
}

int64_t TestTensor::Offset(int64_t i) const {
  int64_t offset = offset_;
  for (size_t d = shape_.size(); d-- > 0;) {
    offset += i % shape_[d] * strides_[d];
    i /= shape_[d];
  }
  return offset;
}

uint64_t TestTensor::Bits(int64_t i) const {
  uint64_t bits = 0;
  const size_t bytes = DtypeSize(dtype_);
  std::memcpy(&bits, reinterpret_cast<const char*>(memory_.data()) + Offset(i) * bytes, bytes);
  return bits;
}

void TestTensor::SetBits(int64_t i, uint64_t bits) {
  const size_t bytes = DtypeSize(dtype_);
  std::memcpy(reinterpret_cast<char*>(memory_.data()) + Offset(i) * bytes, &bits, bytes);
}

double TestTensor::Float(int64_t i) const {
  const uint64_t bits = Bits(i);
  switch (dtype_) {
    case PTO_F16:
      return DecodeHalf(static_cast<uint16_t>(bits));
    case PTO_BF16:
      return DecodeBfloat(static_cast<uint16_t>(bits));
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

void TestTensor::SetFloat(int64_t i, double value) {
  switch (dtype_) {
    case PTO_F16:
      return SetBits(i, EncodeHalf(value));
    case PTO_BF16:
      return SetBits(i, EncodeBfloat(value));
    default:
      return SetBits(i, std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
}

int64_t TestTensor::Int(int64_t i) const {
  if (dtype_ == PTO_I64) return static_cast<int64_t>(Bits(i));
  return static_cast<int32_t>(static_cast<uint32_t>(Bits(i)));
}

void TestTensor::SetInt(int64_t i, int64_t value) { SetBits(i, static_cast<uint64_t>(value)); }

void TestTensor::Randomise(uint32_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < size_; ++i) {
    if (IsFloat(dtype_)) {
      SetFloat(i, static_cast<double>(random() % 16001) / 1000.0 - 8.0);
    } else {
      SetBits(i, random());
    }
  }
}

bool TestTensor::GapsUntouched() const {
  const size_t bytes = DtypeSize(dtype_);
  std::vector<bool> ours(memory_.size() * sizeof(uint64_t));
  for (int64_t i = 0; i < size_; ++i) {
    for (size_t byte = 0; byte < bytes; ++byte) ours[Offset(i) * bytes + byte] = true;
  }
  const auto* all = reinterpret_cast<const unsigned char*>(memory_.data());
  for (size_t at = 0; at < ours.size(); ++at) {
    if (!ours[at] && all[at] != kGap) return false;
  }
  return true;
}

RunResult RunKernel(const pto_kernel_info& info, const std::vector<TestTensor*>& tensors,
                    const std::vector<pto_scalar>& scalars, uint32_t block_count,
                    const std::function<bool()>& cancelled) {
  pto_kernel_api api{};
  api.struct_size = sizeof api;
  api.abi_version = PTO_KERNEL_ABI_VERSION;
  api.cancelled = IsCancelled;
  api.log = WriteLog;
  api.set_error = SetError;
  FakeEngine engine{cancelled, ""};
  std::vector<pto_tensor> views;
  for (TestTensor* tensor : tensors) views.push_back(tensor->View());
  pto_context context{};
  context.struct_size = sizeof(context);
  context.block_count = block_count;
  context.core_kind = info.default_core;
  context.tensor_count = static_cast<uint32_t>(views.size());
  context.scalar_count = static_cast<uint32_t>(scalars.size());
  context.tensors = views.data();
  context.scalars = scalars.data();
  context.api = &api;
  context.engine = &engine;
  for (uint32_t block = block_count; block-- > 0;) {
    context.block_index = block;
    if (const int32_t code = info.function(&context)) return {code, engine.error};
  }
  return {0, engine.error};
}

std::string CheckKernel(const pto_kernel_info& info, const std::vector<TestTensor*>& tensors) {
  std::vector<pto_tensor> views;
  for (TestTensor* tensor : tensors) {
    views.push_back(tensor->View());
    views.back().data = nullptr;
  }
  char message[256] = "";
  if (info.check(views.data(), static_cast<uint32_t>(views.size()), message, sizeof(message))) {
    EXPECT_STRNE(message, "");
  } else {
    EXPECT_STREQ(message, "");
  }
  return message;
}

void ForAllCases(const std::function<void(uint32_t, const Shape&, Layout, uint32_t)>& test) {
  for (uint32_t dtype : kArithmeticDtypes) {
    for (const Shape& shape : kShapes) {
      for (Layout layout : kAllLayouts) {
        for (uint32_t blocks : kBlockCounts) {
          SCOPED_TRACE(absl::StrCat(DtypeName(dtype), "[", absl::StrJoin(shape, ","), "] ",
                                    LayoutName(layout), ", ", blocks, " blocks"));
          test(dtype, shape, layout, blocks);
          if (::testing::Test::HasFailure()) return;  // one failure is enough
        }
      }
    }
  }
}

Layout Other(Layout layout) {
  switch (layout) {
    case Layout::kDense:
      return Layout::kDense;
    case Layout::kOffset:
      return Layout::kPadded;
    case Layout::kPadded:
      return Layout::kTransposed;
    case Layout::kStrided:
      return Layout::kOffset;
    case Layout::kTransposed:
      return Layout::kStrided;
  }
  return layout;
}

const pto_kernel_info& Builtin(const char* name) {
  // Built-in kernels are never removed.
  const std::shared_ptr<const Kernel> kernel = BuiltinKernels().Find(name);
  if (kernel == nullptr) {
    ADD_FAILURE() << "there is no kernel " << name;
    std::abort();
  }
  return kernel->info();
}

}  // namespace pto::kernels
