#pragma once

#include <initializer_list>
#include <memory>
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

// Finds a kernel by its name, which is its id or `kernels/{id}`. FIELD_INVALID if the name is
// empty, KERNEL_UNKNOWN if there is no such kernel.
absl::StatusOr<std::shared_ptr<const Kernel>> ReadKernel(absl::string_view name,
                                                         const KernelSource& kernels,
                                                         absl::string_view field);

// The index in `chips/{index}`. NAME_INVALID, or CHIP_UNKNOWN when the node has fewer.
absl::StatusOr<uint32_t> ReadChip(absl::string_view name, const GraphTarget& target,
                                  absl::string_view field);

// What the slot of a buffer is called, by one of its names: see names::ParseOwnBuffer.
// ID_INVALID, NAME_INVALID, or SESSION_MISMATCH when it is of another session.
absl::StatusOr<std::string> ReadBuffer(absl::string_view name, absl::string_view session,
                                       absl::string_view field);

// Errors are TENSOR_INVALID at `dtype`, `shape[i]` or `strides[i]`.
absl::StatusOr<Layout> ReadLayout(v1::DType dtype,
                                  const google::protobuf::RepeatedField<int64_t>& shape,
                                  const google::protobuf::RepeatedField<int64_t>& strides);

// Copies a launch spec into a task, but for the kernels of the vector cores. FIELD_INVALID at
// `timeout`; what else is wrong with it, the builder says.
absl::Status ReadLaunch(const v1::LaunchSpec& launch, TaskInput& task);

// The number that a scalar stands for. SCALAR_INVALID when there is none, also for a reference to
// a named one, and at `compare` or `op` when it is not known.
absl::Status ReadNumber(const v1::Scalar& scalar, ScalarInput& out);

using ErrorMetadata = std::initializer_list<std::pair<absl::string_view, std::string>>;

// The same error, but at `field`, and with more metadata.
absl::Status Relocate(const absl::Status& status, absl::string_view field, ErrorMetadata metadata);

// The same error with more metadata.
absl::Status Annotate(const absl::Status& status, ErrorMetadata metadata);

}  // namespace pto
