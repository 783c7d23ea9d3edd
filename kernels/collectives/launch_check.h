#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "kernels/pto_kernel.h"
#include "kernels/strided.h"

namespace pto::kernels::collectives {

inline constexpr uint32_t kMaxRanks = 64;

// A call that moves fewer bytes than this is not worthwhile.
inline constexpr int64_t kWorthACall = 16 << 10;
// Whether so few bytes, each of which stands for `weight` moved bytes, are not worth a second call.
// Called for each task, so it does not divide.
inline bool IsForOneCall(int64_t bytes, int64_t weight) {
  return bytes <= 64 || bytes * weight <= kWorthACall;
}

// For the plans of collectives: checks the tensors of all ranks, and names the rank that does not
// fit. Each check returns 0, or writes a message and returns the value that the plan has to return.
class LaunchCheck {
 public:
  LaunchCheck(const pto_kernel_info& kernel, const pto_launch* launch, char* message,
              size_t message_size)
      : kernel_(kernel), launch_(*launch), message_(message), message_size_(message_size) {}

  uint32_t ranks() const { return launch_.member_count; }
  const pto_tensor& tensor(uint32_t rank, uint32_t argument) const {
    return launch_.members[rank][argument];
  }
  int64_t scalar(uint32_t index) const { return launch_.scalars[index].i64; }
  int64_t count(uint32_t rank, uint32_t argument) const {
    return ElementCount(tensor(rank, argument));
  }
  // The size of an element of rank 0's first tensor.
  uint64_t element_bytes() const { return DtypeSize(tensor(0, 0).dtype); }
  // The size of an argument of rank 0.
  uint64_t bytes(uint32_t argument) const {
    return static_cast<uint64_t>(count(0, argument)) * element_bytes();
  }
  // The tensor's address; nullptr if it is not known yet or the tensor is empty.
  const std::byte* data(uint32_t rank, uint32_t argument) const {
    return static_cast<const std::byte*>(tensor(rank, argument).data);
  }

  // Completes the plan for calls that share `total` elements by Call::ShareOf in every phase,
  // depending only on the launch.
  void Shares(pto_plan* plan, int64_t total, int64_t weight) const;

  // Writes "kernel: text", truncated to fit.
  int32_t Refuse(absl::string_view text) const;

  // Checks that there are not too many ranks.
  int32_t RankCount() const;
  // Checks that a scalar is a rank number.
  int32_t IsRank(uint32_t index) const;
  // Checks that a scalar is from `first` to `last`.
  int32_t IsOneOf(uint32_t index, int64_t first, int64_t last) const;
  int32_t IsReduceOp(uint32_t index) const { return IsOneOf(index, 1, 4); }

  // Checks that the tensor is dense and has the element type of rank 0's first tensor.
  int32_t Fits(uint32_t rank, uint32_t argument) const {
    const pto_tensor& own = tensor(rank, argument);
    return own.dtype == tensor(0, 0).dtype ? CheckDense(rank, argument)
                                           : RefuseType(rank, argument);
  }
  // Also checks the number of elements.
  int32_t Has(uint32_t rank, uint32_t argument, int64_t count) const;
  // Checks that the argument of each rank has as many elements as that of rank 0, all of one type.
  int32_t AllAlike(uint32_t argument) const;
  // Checks that the argument of each rank has `count` elements.
  int32_t AllHave(uint32_t argument, int64_t count) const;
  // Checks that the tensor is dense, of type I64, and has an element for each rank.
  int32_t HasCounts(uint32_t rank, uint32_t argument) const;
  // Checks that in and out of a rank do not overlap, unless in begins `offset` elements into out
  // (for a negative offset, out begins in in).
  int32_t InPlaceOrApart(uint32_t rank, uint32_t in, uint32_t out, int64_t offset) const;
  // The same for all ranks, with offset 0.
  int32_t AllInPlaceOrApart(uint32_t in, uint32_t out) const;
  // Checks that two dense tensors of a rank do not overlap, whatever their types are.
  int32_t Apart(uint32_t rank, uint32_t a, uint32_t b) const;

 private:
  static bool IsDense(const pto_tensor& tensor) {
    int64_t next = 1;
    for (uint32_t d = tensor.ndim; d-- > 0;) {
      if (tensor.shape[d] != 1 && tensor.strides[d] != next) return false;
      next *= tensor.shape[d];
    }
    return true;
  }
  int32_t CheckDense(uint32_t rank, uint32_t argument) const {
    return IsDense(tensor(rank, argument)) ? 0 : RefuseGaps(rank, argument);
  }
  // Whether two dense tensors overlap, as far as their addresses are known.
  bool Overlap(uint32_t rank, uint32_t a, uint32_t b) const;
  int32_t RefuseType(uint32_t rank, uint32_t argument) const;
  int32_t RefuseGaps(uint32_t rank, uint32_t argument) const;

  const pto_kernel_info& kernel_;
  const pto_launch& launch_;
  char* const message_;
  const size_t message_size_;
};

}  // namespace pto::kernels::collectives
