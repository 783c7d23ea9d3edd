#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pto/v1/error.pb.h"

namespace pto {

// Bounds of an error on the wire. gRPC replaces an answer whose trailers exceed 8 KiB by an
// error of its own, and with it the code that we meant is lost.
inline constexpr size_t kMaxErrorMessageBytes = 1024;
inline constexpr size_t kMaxErrorBytes = 4096;

// The error as data: one ErrorInfo, a FieldViolation when a field is to blame, a
// QuotaViolation when a limit was hit. An OK status becomes an empty message.
//
// This is the border at which every error has a reason. One that comes without is a fault of
// ptod: it becomes REASON_MISSING, with its code among the metadata, and the log tells of it
// (kNoReasonLogged, which tests of the whole daemon look for).
//
// The result fits kMaxErrorBytes and is valid UTF-8: long texts are cut, and the longest
// metadata values are left out until the rest fits.
v1::Status StatusToProto(const absl::Status& status);

inline constexpr absl::string_view kNoReasonLogged = "an error has no reason";

// The inverse. Accepts anything that a peer may send: a code outside of gRPC's becomes UNKNOWN,
// and without an ErrorInfo the result has no ErrorDetail.
absl::Status StatusFromProto(const v1::Status& proto);

}  // namespace pto
