#pragma once

namespace pto::ptoctl {

// Scripts that ask `ptoctl completion words` what may come next, so that all shells offer the same.
extern const char kBashCompletion[];
extern const char kZshCompletion[];
extern const char kFishCompletion[];

}  // namespace pto::ptoctl
