#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Resource names: `chips/{index}`, `kernels/{id}`, `sessions/{session}` and
// `sessions/{session}/{collection}/{id}`. An error names `field`, the path of what was parsed:
// NAME_INVALID when the form is wrong, ID_INVALID when an id inside it is.
namespace pto::daemon::names {

// Ids are 1 to 63 of a-z, 0-9 and -, starting with a letter.
absl::Status CheckId(absl::string_view id, absl::string_view field);

// `chips/3` gives 3. Only the decimal form without leading zeros is a name.
absl::StatusOr<uint32_t> ParseChip(absl::string_view name, absl::string_view field);
// The same on a node with `chips` of them: CHIP_UNKNOWN for one beyond.
absl::StatusOr<uint32_t> ParseChip(absl::string_view name, absl::string_view field, size_t chips);

// `sessions/s1` gives `s1`.
absl::StatusOr<std::string> ParseSession(absl::string_view name, absl::string_view field);

// `kernels/add` gives `add`. Ids of kernels have _ in place of -.
absl::StatusOr<std::string> ParseKernel(absl::string_view name, absl::string_view field);

// Ids of kernels: 1 to 63 of a-z, 0-9 and _, starting with a letter.
absl::Status CheckKernelId(absl::string_view id, absl::string_view field);

struct Child {
  std::string session;
  std::string id;
};

// With the collection `runs`, `sessions/s1/runs/r1` gives `s1` and `r1`.
absl::StatusOr<Child> ParseChild(absl::string_view name, absl::string_view collection,
                                 absl::string_view field);

// A kernel by its name, `kernels/add` or `sessions/s1/kernels/add`; the session is empty for the
// first.
absl::StatusOr<Child> ParseAnyKernel(absl::string_view name, absl::string_view field);

std::string Chip(uint32_t index);
std::string Kernel(absl::string_view id);
std::string Session(absl::string_view id);
std::string ChildName(absl::string_view session, absl::string_view collection,
                      absl::string_view id);

// Text of a client, quoted for messages: escaped, and truncated if it is long.
std::string Quoted(absl::string_view text);

}  // namespace pto::daemon::names
