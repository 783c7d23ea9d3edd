#pragma once

#include "absl/strings/string_view.h"

namespace pto::daemon {

inline constexpr absl::string_view kVersion = "1.2.0";

// Source revision of a stamped build, else empty.
#ifdef PTO_REVISION
inline constexpr absl::string_view kRevision = PTO_REVISION;
#else
inline constexpr absl::string_view kRevision = "";
#endif

}  // namespace pto::daemon
