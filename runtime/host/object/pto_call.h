#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/host/object/pto_layout.h"
#include "runtime/host/object/pto_signature.h"

namespace pto::host {

// A piece of memory that a view is in.
struct PtoBuffer {
  void* address = nullptr;
  uint64_t bytes = 0;
};

// What calls of kernels of the PTO ABI need beyond the pto_context. The host puts it around the
// call of a block; without, a call takes what the context has.
struct PtoCallInfo {
  static constexpr uint32_t kNoCluster = ~uint32_t{0};

  uint64_t run = 0;  // pipes are kept apart by run; see EndPtoRun
  // For PTO_MIX: the cluster. kNoCluster: the context's core.
  uint32_t cluster = kNoCluster;
  // The buffer of each tensor. Empty: each view is a buffer of its own, which starts with its first
  // element.
  absl::Span<const PtoBuffer> buffers;
  // The window of a domain that each tensor of each member lies in, member by member; an address of
  // nullptr: in none. Empty: there are no windows. A kernel that takes `domain(n)` gets the whole
  // windows if tensor n of all members lies in one, otherwise the tensors.
  absl::Span<const PtoBuffer> windows;
  // The domains of the task, for the rank that the block is of. A task names one by its index.
  absl::Span<const PtoCommContext> domains;
};

// While it exists, calls of kernels on this thread use the info.
class PtoCallScope {
 public:
  explicit PtoCallScope(const PtoCallInfo& info);
  ~PtoCallScope();
  PtoCallScope(const PtoCallScope&) = delete;
  PtoCallScope& operator=(const PtoCallScope&) = delete;

 private:
  const PtoCallInfo* const before_;
};

// What a task still waits for after its kernel has returned: an unsigned word of memory that other
// code changes directly, so it has to be polled.
struct PtoCondition {
  uint64_t address = 0;
  bool wide = false;  // a u64, otherwise a u32
  uint64_t least = 0;

  bool Satisfied() const;
};

// Looks after the results of one call.
struct PtoOutcome {
  int32_t code = 0;  // 0: the kernel succeeded, or will when all conditions are satisfied
  std::string error;
  std::vector<PtoCondition> conditions;  // those that were not satisfied when it returned
};

// A function of the PTO ABI that is called like a kernel of our own ABI.
class PtoKernel {
 public:
  struct Setting {
    std::string name;  // of the kernel
    PtoEntry entry = nullptr;
    PtoSignature signature;
    bool blocks = false;  // it gets a thread of its own while it runs
    bool waits = false;   // it imports functions that wait
    // Its waits give up after this many looks of a thread, whatever the environment says, so a call
    // that has looked as often may have computed with wrong data: it has failed. 0: they obey the
    // environment. See look_counter.h.
    uint64_t give_up_looks = 0;
  };
  // The smallest number of looks after which a wait is known to give up.
  static constexpr uint64_t kLeastGiveUpLooks = 100'000;

  explicit PtoKernel(Setting setting);
  PtoKernel(const PtoKernel&) = delete;
  PtoKernel& operator=(const PtoKernel&) = delete;

  // Its description; the function expects this object as pto_context.kernel_data. It passes the
  // conditions of a block to pto_kernel_api.defer, as words of PTO_U32 and PTO_U64 that compare
  // without a sign (PTO_GE); a host that does not know them fails the block.
  const pto_kernel_info& info() const { return info_; }

  // Runs one block. `deferral`: whether the caller can wait for conditions.
  PtoOutcome Call(const pto_context& context, const PtoCallInfo& call, bool deferral = true) const;

 private:
  const Setting setting_;
  std::vector<pto_argument_info> arguments_;
  std::vector<pto_scalar_info> scalars_;
  pto_kernel_info info_ = {};
};

// A communication context for `rank`, whose windows are at these addresses. FIELD_INVALID for more
// than 64 ranks.
absl::StatusOr<PtoCommContext> MakePtoCommContext(uint32_t rank, absl::Span<const uint64_t> windows,
                                                  uint64_t window_bytes);

// The descriptor of a view. `buffer` is where its elements are; nullptr: the view alone.
// FIELD_INVALID for what the ABI cannot express.
absl::Status FillPtoTensor(const pto_tensor& view, const PtoTensorParameter& parameter,
                           const PtoBuffer* buffer, PtoTensor* tensor);

}  // namespace pto::host
