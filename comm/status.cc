#include "comm/status.h"

#include <iterator>

#include "comm/pto_comm.h"

namespace pto::comm {

int StatusNumber(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return PTO_COMM_OK;
    case absl::StatusCode::kInvalidArgument:
      return PTO_COMM_INVALID;
    case absl::StatusCode::kFailedPrecondition:
      return PTO_COMM_MISMATCH;
    case absl::StatusCode::kAlreadyExists:
      return PTO_COMM_IN_USE;
    case absl::StatusCode::kDeadlineExceeded:
      return PTO_COMM_TIMED_OUT;
    case absl::StatusCode::kUnavailable:
      return PTO_COMM_RANK_LOST;
    case absl::StatusCode::kUnimplemented:
      return PTO_COMM_NOT_SUPPORTED;
    case absl::StatusCode::kResourceExhausted:
      return PTO_COMM_NO_MEMORY;
    case absl::StatusCode::kOutOfRange:
      return PTO_COMM_OUT_OF_RANGE;
    case absl::StatusCode::kAborted:
      return PTO_COMM_BROKEN;
    default:
      return PTO_COMM_SYSTEM;
  }
}

const char* StatusName(int number) {
  constexpr const char* kNames[] = {"OK",           "INVALID",   "MISMATCH",      "IN_USE",
                                    "TIMED_OUT",    "RANK_LOST", "NOT_SUPPORTED", "NO_MEMORY",
                                    "OUT_OF_RANGE", "BROKEN",    "SYSTEM"};
  return number >= 0 && number < static_cast<int>(std::size(kNames)) ? kNames[number] : "?";
}

}  // namespace pto::comm
