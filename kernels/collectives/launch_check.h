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

// A call that would move fewer bytes than these is not worth it.
inline constexpr int64_t kWorthACall = 16 << 10;
// Whether so many bytes, each of which stands for `weight` that are moved, are too few for a second
// call. Asked for each task, so it divides nothing.
inline bool IsForOneCall(int64_t bytes, int64_t weight) {
  return bytes <= 64 || bytes * weight <= kWorthACall;
}

// For the plans of collectives: looks at the tensors of all ranks, and says who does not fit. Each
// check returns 0, or writes what is wrong to the message and returns what the plan is to return.
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
  // Of an element of rank 0's first tensor.
  uint64_t element_bytes() const { return DtypeSize(tensor(0, 0).dtype); }
  // Of all elements of an argument of rank 0.
  uint64_t bytes(uint32_t argument) const {
    return static_cast<uint64_t>(count(0, argument)) * element_bytes();
  }
  // Where the tensor lies; nullptr when that is not known yet, or nothing is there.
  const std::byte* data(uint32_t rank, uint32_t argument) const {
    return static_cast<const std::byte*>(tensor(rank, argument).data);
  }

  // Says in the plan what follows when all calls share so many elements by Call::ShareOf, in every
  // phase, and nothing but the launch decides about it.
  void Shares(pto_plan* plan, int64_t total, int64_t weight) const;

  // "kernel: text", cut to what fits.
  int32_t Refuse(absl::string_view text) const;

  // That there are no more ranks than collectives take.
  int32_t RankCount() const;
  // That a scalar names one of the ranks.
  int32_t IsRank(uint32_t index) const;
  // That a scalar is `first` to `last`.
  int32_t IsOneOf(uint32_t index, int64_t first, int64_t last) const;
  int32_t IsReduceOp(uint32_t index) const { return IsOneOf(index, 1, 4); }

  // That the tensor is dense and has elements of the type of rank 0's first one.
  int32_t Fits(uint32_t rank, uint32_t argument) const {
    const pto_tensor& own = tensor(rank, argument);
    return own.dtype == tensor(0, 0).dtype ? CheckDense(rank, argument)
                                           : RefuseType(rank, argument);
  }
  // And that there are so many.
  int32_t Has(uint32_t rank, uint32_t argument, int64_t count) const;
  // That the argument of each rank has as many elements as that of rank 0, all of one type.
  int32_t AllAlike(uint32_t argument) const;
  // That the argument of each rank has so many elements.
  int32_t AllHave(uint32_t argument, int64_t count) const;
  // That the tensor is dense, of I64, and has an element for each rank.
  int32_t HasCounts(uint32_t rank, uint32_t argument) const;
  // That a rank's in and out share no memory, unless in begins `offset` elements into out (with a
  // negative one, out into in).
  int32_t InPlaceOrApart(uint32_t rank, uint32_t in, uint32_t out, int64_t offset) const;
  // The same for all ranks, with offset 0.
  int32_t AllInPlaceOrApart(uint32_t in, uint32_t out) const;
  // That two dense tensors of a rank share no memory, whatever their types are.
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
  // Whether memory of two dense tensors is the same, as far as it is known where they are.
  bool Overlap(uint32_t rank, uint32_t a, uint32_t b) const;
  int32_t RefuseType(uint32_t rank, uint32_t argument) const;
  int32_t RefuseGaps(uint32_t rank, uint32_t argument) const;

  const pto_kernel_info& kernel_;
  const pto_launch& launch_;
  char* const message_;
  const size_t message_size_;
};

}  // namespace pto::kernels::collectives
