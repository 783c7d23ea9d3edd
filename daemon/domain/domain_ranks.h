#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pto::daemon {

// The ranks of a domain that a run's tasks have by a scalar.
struct DomainRanks {
  std::string domain;           // `domains/{id}`
  std::vector<uint32_t> chips;  // of each rank
  std::vector<bool> used;       // whether a task on that chip has the domain
};

// Adds to an error that tells that time is up, or that a host was killed meanwhile: of which rank
// its place is, and which ranks have no task at all. Those who wait for them wait in vain. Returns
// any other status unchanged.
absl::Status NameRanks(const absl::Status& error, const std::vector<DomainRanks>& domains);

}  // namespace pto::daemon
