#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "kernels/registry.h"
#include "pto/v1/graph.pb.h"
#include "runtime/graph/builder.h"

// What both forms of a graph have in common: fields that are read the same way.
namespace pto {

// The id in a kernel's name, which is the id itself or `kernels/{id}`. Refuses one that is not
// there: FIELD_INVALID when it is empty, else KERNEL_UNKNOWN.
absl::StatusOr<absl::string_view> ReadKernel(absl::string_view name, const KernelRegistry& kernels,
                                             absl::string_view field);

// The index in `chips/{index}`. NAME_INVALID, or CHIP_UNKNOWN when the node has fewer.
absl::StatusOr<uint32_t> ReadChip(absl::string_view name, const GraphTarget& target,
                                  absl::string_view field);

// The id in a buffer's name, which is the id itself or `sessions/{session}/buffers/{id}`.
// ID_INVALID, NAME_INVALID, or SESSION_MISMATCH when it is of another session.
absl::StatusOr<std::string> ReadBuffer(absl::string_view name, absl::string_view session,
                                       absl::string_view field);

// Errors are TENSOR_INVALID at `dtype`, `shape[i]` or `strides[i]`.
absl::StatusOr<Layout> ReadLayout(v1::DType dtype,
                                  const google::protobuf::RepeatedField<int64_t>& shape,
                                  const google::protobuf::RepeatedField<int64_t>& strides);

// Copies a launch spec into a task. What is wrong with it, the builder says.
void ReadLaunch(const v1::LaunchSpec& launch, TaskInput& task);

// The same error, but at `field`, and with more metadata.
absl::Status Relocate(const absl::Status& status, absl::string_view field,
                      std::initializer_list<std::pair<absl::string_view, std::string>> metadata);

}  // namespace pto
