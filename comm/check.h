#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/backend.h"
#include "comm/pto_comm.h"

// Checks the arguments of the C API and converts them to the backends' types.
namespace pto::comm {

absl::StatusOr<JoinSpec> CheckJoin(const pto_comm_options* options);

// For rank `rank` of a job of `size`.
absl::StatusOr<WindowSpec> CheckWindow(const pto_comm_window_options* options, uint32_t rank,
                                       uint32_t size);

absl::Status CheckRange(const WindowSpec& spec, uint32_t peer, uint64_t offset, uint64_t bytes);
absl::Status CheckSignal(const WindowSpec& spec, uint32_t peer, uint32_t signal);

}  // namespace pto::comm
