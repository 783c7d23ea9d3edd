#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/task_input.h"

namespace pto::daemon {

// Reads TaskExtra: the fields of a task that are not in columns. Not thread-safe.
class ExtraReader {
 public:
  // The rows must increase and be below `rows`: BLOCK_INVALID at `extras[i].row`.
  static absl::Status CheckRows(const v1::TaskBlock& chunk, uint32_t rows);

  // Fills in a task of this kernel. The task points to data that the reader keeps until the next
  // call. `chips` maps the header's indices to the builder's. BLOCK_INVALID at a field, for example
  // `members[1].chip`.
  absl::Status Read(const v1::TaskExtra& extra, const pto_kernel_info& kernel,
                    absl::Span<const uint32_t> chips, uint32_t tensor_count,
                    engine::TaskInput& task);

 private:
  absl::Status ReadMembers(const v1::TaskExtra& extra, absl::Span<const uint32_t> chips,
                           uint32_t tensor_count);

  std::vector<engine::TaskInput::Member> members_;
};

}  // namespace pto::daemon
