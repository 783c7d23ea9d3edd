#include "client/kernel_check/guarded_tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/dtype.h"
#include "runtime/base/log.h"

namespace pto::kernel_check {
namespace {

// On each side. Enough to see by how much a kernel left its view.
constexpr size_t kGuardBytes = 64 << 10;

size_t RoundUp(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<size_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

const char* LayoutName(Layout layout) {
  switch (layout) {
    case Layout::kLeft:
      return "dense";
    case Layout::kRight:
      return "dense at the end of its memory";
    case Layout::kOffset:
      return "dense at an offset";
    case Layout::kPadded:
      return "with padded rows";
    case Layout::kStrided:
      return "strided";
    case Layout::kTransposed:
      return "transposed";
  }
  return "?";
}

GuardedTensor::GuardedTensor(std::string name, uint32_t dtype, std::vector<int64_t> shape,
                             Layout layout)
    : name_(std::move(name)),
      dtype_(dtype),
      shape_(std::move(shape)),
      element_bytes_(kernels::DtypeSize(dtype)),
      strides_(shape_.size()) {
  int64_t extent = layout == Layout::kStrided ? 3 : 1;
  int64_t size = 1;
  const auto take = [&](size_t d) {
    strides_[d] = extent;
    extent *= std::max<int64_t>(shape_[d], 1) + (layout == Layout::kPadded ? 2 : 0);
    size *= shape_[d];
  };
  if (layout == Layout::kTransposed) {
    for (size_t d = 0; d < shape_.size(); ++d) take(d);
  } else {
    for (size_t d = shape_.size(); d-- > 0;) take(d);
  }
  // The last element need not be followed by a gap.
  int64_t last = 0;
  for (size_t d = 0; d < shape_.size(); ++d)
    last += std::max<int64_t>(shape_[d] - 1, 0) * strides_[d];
  const size_t view_bytes = size == 0 ? 0 : static_cast<size_t>(last + 1) * element_bytes_;
  const size_t around = layout == Layout::kLeft || layout == Layout::kRight ? 0 : 5;
  memory_bytes_ = RoundUp(view_bytes + 2 * around * element_bytes_);
  first_ = layout == Layout::kRight ? memory_bytes_ - view_bytes : around * element_bytes_;
  end_ = first_ + view_bytes;
  buffer_offset_ = first_ - around * element_bytes_;
  buffer_bytes_ = view_bytes + 2 * around * element_bytes_;
  mapping_bytes_ = memory_bytes_ + 2 * kGuardBytes;
  void* const mapping =
      mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PTO_CHECK(mapping != MAP_FAILED, "mmap of a tensor");
  mapping_ = static_cast<uint8_t*>(mapping);
  memory_ = mapping_ + kGuardBytes;
  SetReadOnly(false);
  ours_.resize(memory_bytes_);
  offsets_.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    int64_t offset = 0;
    int64_t rest = i;
    for (size_t d = shape_.size(); d-- > 0;) {
      offset += rest % shape_[d] * strides_[d];
      rest /= shape_[d];
    }
    offsets_.push_back(first_ + static_cast<size_t>(offset) * element_bytes_);
    std::fill_n(ours_.begin() + static_cast<std::ptrdiff_t>(offsets_.back()), element_bytes_, true);
  }
}

GuardedTensor::~GuardedTensor() { munmap(mapping_, mapping_bytes_); }

pto_tensor GuardedTensor::view() const {
  pto_tensor view = {};
  // Like the engine.
  view.data = offsets_.empty() ? nullptr : memory_ + first_;
  view.dtype = dtype_;
  view.ndim = static_cast<uint32_t>(shape_.size());
  for (size_t d = 0; d < shape_.size(); ++d) {
    view.shape[d] = shape_[d];
    view.strides[d] = strides_[d];
  }
  return view;
}

void GuardedTensor::SetReadOnly(bool read_only) {
  PTO_CHECK(mprotect(memory_, memory_bytes_, read_only ? PROT_READ : PROT_READ | PROT_WRITE) == 0,
            "mprotect of a tensor");
}

uint64_t GuardedTensor::Read(int64_t i) const {
  uint64_t bits = 0;
  std::memcpy(&bits, memory_ + offsets_[static_cast<size_t>(i)], element_bytes_);
  return bits;
}

void GuardedTensor::Write(int64_t i, uint64_t bits) {
  std::memcpy(memory_ + offsets_[static_cast<size_t>(i)], &bits, element_bytes_);
}

void GuardedTensor::FillGaps(uint8_t byte) {
  for (size_t i = 0; i < memory_bytes_; ++i) {
    if (!ours_[i]) memory_[i] = byte;
  }
}

absl::optional<std::string> GuardedTensor::FindTouchedGap(uint8_t byte) const {
  for (size_t i = 0; i < memory_bytes_; ++i) {
    if (ours_[i] || memory_[i] == byte) continue;
    return Locate(reinterpret_cast<uintptr_t>(memory_ + i));
  }
  return absl::nullopt;
}

void GuardedTensor::FillElements(uint8_t byte) {
  const uint64_t bits = BitsOf(byte);
  for (int64_t i = 0; i < size(); ++i) Write(i, bits);
}

uint64_t GuardedTensor::BitsOf(uint8_t byte) const {
  uint64_t bits = 0;
  std::memset(&bits, byte, element_bytes_);
  return bits;
}

void GuardedTensor::FillRandom(std::mt19937_64& random, double low, double high) {
  for (int64_t i = 0; i < size(); ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = low + unit * (high - low);
    const auto whole =
        static_cast<int64_t>(std::floor(low + unit * (std::floor(high) - std::ceil(low) + 1)));
    switch (dtype_) {
      case PTO_F32:
        Write(i, std::bit_cast<uint32_t>(static_cast<float>(value)));
        break;
      case PTO_F64:
        Write(i, std::bit_cast<uint64_t>(value));
        break;
      case PTO_F16:
        Write(i, kernels::ToF16(static_cast<float>(value)).bits);
        break;
      case PTO_BF16:
        Write(i, kernels::ToBF16(static_cast<float>(value)).bits);
        break;
      case PTO_BOOL:
        Write(i, random() & 1);
        break;
      default:
        Write(i, static_cast<uint64_t>(whole));
        break;
    }
  }
}

std::vector<uint64_t> GuardedTensor::Bits() const {
  std::vector<uint64_t> bits;
  bits.reserve(offsets_.size());
  for (int64_t i = 0; i < size(); ++i) bits.push_back(Read(i));
  return bits;
}

void GuardedTensor::SetBits(const std::vector<uint64_t>& bits) {
  for (int64_t i = 0; i < size(); ++i) Write(i, bits[static_cast<size_t>(i)]);
}

double GuardedTensor::Value(uint64_t bits) const {
  switch (dtype_) {
    case PTO_F32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case PTO_F64:
      return std::bit_cast<double>(bits);
    case PTO_F16:
      return kernels::ToFloat(kernels::F16{static_cast<uint16_t>(bits)});
    case PTO_BF16:
      return kernels::ToFloat(kernels::BF16{static_cast<uint16_t>(bits)});
    case PTO_I8:
      return static_cast<int8_t>(bits);
    case PTO_I16:
      return static_cast<int16_t>(bits);
    case PTO_I32:
      return static_cast<int32_t>(bits);
    case PTO_I64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

std::string GuardedTensor::Index(int64_t i) const {
  std::vector<int64_t> indices(shape_.size());
  for (size_t d = shape_.size(); d-- > 0;) {
    indices[d] = i % shape_[d];
    i /= shape_[d];
  }
  return absl::StrCat("[", absl::StrJoin(indices, ","), "]");
}

GuardedPlace GuardedTensor::place() const {
  GuardedPlace place = {};
  std::snprintf(place.name, sizeof place.name, "%s", name_.c_str());
  place.mapping_begin = reinterpret_cast<uintptr_t>(mapping_);
  place.mapping_end = place.mapping_begin + mapping_bytes_;
  place.view_begin = reinterpret_cast<uintptr_t>(memory_ + first_);
  place.view_end = reinterpret_cast<uintptr_t>(memory_ + end_);
  return place;
}

std::string GuardedTensor::Locate(uint64_t address) const {
  const std::string outside = place().Outside(address);
  if (!outside.empty()) return outside;
  const uint64_t at = address - reinterpret_cast<uintptr_t>(memory_);
  // The element in front of the gap.
  size_t nearest = first_;
  int64_t element = 0;
  for (size_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i] <= at && offsets_[i] >= nearest) {
      nearest = offsets_[i];
      element = static_cast<int64_t>(i);
    }
  }
  return absl::StrCat("the gap behind element ", Index(element), " of ", name_);
}

}  // namespace pto::kernel_check
