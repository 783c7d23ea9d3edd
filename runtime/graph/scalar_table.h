#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"
#include "runtime/graph/image_writer.h"
#include "runtime/graph/task_input.h"
#include "runtime/graph/text_table.h"

namespace pto::engine {

// The scalars of a graph under construction: named ones, which a launch can bind, and the tasks'
// own. Errors have fields relative to the added object.
class ScalarTable {
 public:
  // Converts a number to the bits that a kernel receives. Errors are SCALAR_INVALID.
  static absl::StatusOr<uint64_t> Bits(const ScalarInput& scalar, const pto_scalar_info& info);

  uint32_t AddNamed(ImageText name, const ScalarInput& value);
  // A scalar that each run sets to the number of its domain. Its tasks' kernels take a domain.
  uint32_t AddDomain(ImageText name);
  // The default of a named scalar, used unless a launch binds it.
  const ScalarInput& named(uint32_t index) const { return named_values_[index]; }
  // Adds the scalars of one task.
  absl::Status AddTask(const pto_kernel_info& info, absl::Span<const ScalarInput> scalars,
                       const TextTable& text);
  uint32_t ref_count() const { return static_cast<uint32_t>(refs_.size()); }

  // Call once, at the end.
  absl::Status Write(const TextTable& text, ImageWriter& writer, ImageHeader& header);

 private:
  absl::Status UseNamed(uint32_t scalar, const pto_scalar_info& info, const TextTable& text);

  std::vector<ImageScalar> names_;
  std::vector<ScalarInput> named_values_;
  BigVector<uint64_t> own_values_;
  BigVector<uint32_t> refs_;  // a task's own scalars have kOwn set
};

}  // namespace pto::engine
