#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

// Expectations of all fuzz targets. PTO_CHECK aborts the process, which libFuzzer reports as a
// finding.
namespace pto::fuzz {

// Expects an error that a client can act on: a registered reason with its code, and a message.
inline void ExpectReason(const absl::Status& status) {
  PTO_CHECK(!status.ok(), "expected an error");
  const Reason* const reason = FindReason(ReasonOf(status));
  PTO_CHECK(reason != nullptr, absl::StrCat("no reason of the registry: ", status.ToString()));
  PTO_CHECK(reason->code == status.code(), absl::StrCat("another code: ", status.ToString()));
  PTO_CHECK(!status.message().empty(), "no message");
}

inline void ExpectReason(const absl::Status& status, const Reason& wanted) {
  ExpectReason(status);
  PTO_CHECK(ReasonOf(status) == wanted.name, absl::StrCat("another reason: ", status.ToString()));
}

}  // namespace pto::fuzz
