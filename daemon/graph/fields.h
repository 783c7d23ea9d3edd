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

// Reads fields that both forms of a graph share.
namespace pto::daemon {

// Finds a kernel by its name: its id, `kernels/{id}`, or a longer name that `kernels` knows.
// FIELD_INVALID if the name is empty, KERNEL_UNKNOWN if there is no such kernel.
absl::StatusOr<std::shared_ptr<const Kernel>> ReadKernel(absl::string_view name,
                                                         const KernelSource& kernels,
                                                         absl::string_view field);

// The index in `chips/{index}`. NAME_INVALID, or CHIP_UNKNOWN if the node has no such chip.
absl::StatusOr<uint32_t> ReadChip(absl::string_view name, const engine::GraphTarget& target,
                                  absl::string_view field);

// The slot name for a buffer: see names::ParseOwnBuffer. ID_INVALID, NAME_INVALID, or
// SESSION_MISMATCH if the buffer belongs to another session.
absl::StatusOr<std::string> ReadBuffer(absl::string_view name, absl::string_view session,
                                       absl::string_view field);

// The id of a domain, from that or its full name. ID_INVALID, NAME_INVALID, or SESSION_MISMATCH if
// it belongs to another session.
absl::StatusOr<std::string> ReadDomain(absl::string_view name, absl::string_view session,
                                       absl::string_view field);

// What an image calls a domain: `domains/{id}`.
std::string DomainScalarName(absl::string_view id);

// Errors are TENSOR_INVALID at `dtype`, `shape[i]` or `strides[i]`.
absl::StatusOr<engine::Layout> ReadLayout(v1::DType dtype,
                                          const google::protobuf::RepeatedField<int64_t>& shape,
                                          const google::protobuf::RepeatedField<int64_t>& strides);

// Copies a launch spec into a task, except the vector kernels. FIELD_INVALID at `timeout`; the
// builder reports all other errors.
absl::Status ReadLaunch(const v1::LaunchSpec& launch, engine::TaskInput& task);

// The value of a scalar. SCALAR_INVALID if it has none, also for a named scalar and a domain, and
// at `compare` or `op` if the enum value is unknown.
absl::Status ReadNumber(const v1::Scalar& scalar, engine::ScalarInput& out);

using ErrorMetadata = std::initializer_list<std::pair<absl::string_view, std::string>>;

// The same error at `field`, with more metadata.
absl::Status Relocate(const absl::Status& status, absl::string_view field, ErrorMetadata metadata);

// The same error with more metadata.
absl::Status Annotate(const absl::Status& status, ErrorMetadata metadata);

}  // namespace pto::daemon
