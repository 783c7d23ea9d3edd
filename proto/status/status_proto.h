#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "pto/v1/error.pb.h"

namespace pto {

// Bounds of an error on the wire. gRPC replaces an answer whose trailers exceed 8 KiB by an
// error of its own, and with it the code that we meant is lost.
inline constexpr size_t kMaxErrorMessageBytes = 1024;
inline constexpr size_t kMaxErrorBytes = 4096;

// The error as data: one ErrorInfo, a FieldViolation when a field is to blame, a
// QuotaViolation when a limit was hit. A status without our detail becomes the reason
// INTERNAL and keeps its code. An OK status becomes an empty message.
//
// The result fits kMaxErrorBytes and is valid UTF-8: long texts are cut, and the longest
// metadata values are left out until the rest fits.
v1::Status StatusToProto(const absl::Status& status);

// The inverse. Accepts anything that a peer may send: a code outside of gRPC's becomes UNKNOWN,
// and without an ErrorInfo the result has no ErrorDetail.
absl::Status StatusFromProto(const v1::Status& proto);

}  // namespace pto
