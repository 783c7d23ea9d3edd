#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/chip/ascend/cann/cann_functions.h"
#include "runtime/chip/ascend/cann/library_search.h"

namespace pto::cann {

// CANN's libraries in this process. They are never closed.
struct Cann {
  SearchResult search;
  Functions functions;
  bool has_hccl = false;
  // What each package says of its version, as text; empty: it does not say.
  std::string runtime_version;
  std::string hccl_version;
  std::string driver_version;
};

// Opens CANN's libraries. Only for the chip host and the doctor, which are processes of their own:
// a fault of these libraries is one of the whole process. The process must have been started with
// LD_LIBRARY_PATH as in SearchResult::LibraryPath.
//
// CANN_UNUSABLE, with a text of its own for each: no library, a stub, a library that cannot be
// opened (with what the loader says), one that lacks a required function (with its name).
// Without HCCL a chip works alone, so that is no error; `has_hccl` says it.
absl::StatusOr<Cann> LoadCann(const SearchResult& search);

// What no toolkit helps against: the driver is missing, or its device nodes cannot be opened. OK if
// nothing is known to be wrong. `devices` is /dev.
absl::Status CheckDriver(const std::string& driver_root, const std::string& devices);

// CANN_UNUSABLE if the toolkit is older than 8.5, which has no launch that takes host arguments, or
// if its packages are of different releases.
absl::Status CheckVersions(const Cann& cann);

// major·10⁷ + minor·10⁵ + patch·10³ as "9.0.0".
std::string VersionText(int32_t number);

}  // namespace pto::cann
