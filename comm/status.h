#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// The errors of this layer, one for each pto_comm_status except OK. The C API returns the numbers;
// its callers map them to reasons of the RPC API.
namespace pto::comm {

inline absl::Status Invalid(absl::string_view text) { return absl::InvalidArgumentError(text); }
inline absl::Status Mismatch(absl::string_view text) { return absl::FailedPreconditionError(text); }
inline absl::Status InUse(absl::string_view text) { return absl::AlreadyExistsError(text); }
inline absl::Status TimedOut(absl::string_view text) { return absl::DeadlineExceededError(text); }
inline absl::Status RankLost(absl::string_view text) { return absl::UnavailableError(text); }
inline absl::Status NotSupported(absl::string_view text) { return absl::UnimplementedError(text); }
inline absl::Status NoMemory(absl::string_view text) { return absl::ResourceExhaustedError(text); }
inline absl::Status OutOfRange(absl::string_view text) { return absl::OutOfRangeError(text); }
inline absl::Status Broken(absl::string_view text) { return absl::AbortedError(text); }
inline absl::Status SystemError(absl::string_view text) { return absl::InternalError(text); }

// The pto_comm_status of a status made by one of the above; SYSTEM for any other error.
int StatusNumber(const absl::Status& status);

// For example "SYSTEM"; "?" for an unknown number.
const char* StatusName(int number);

}  // namespace pto::comm
