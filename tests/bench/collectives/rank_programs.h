#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/child_process.h"
#include "tests/bench/collectives/case.h"

namespace pto::bench {

// Programs whose processes are ranks: ours over pto_comm, and one for each installed MPI, compiled
// here. See rank_loop.h.
class RankPrograms {
 public:
  // By name: "comm" and, with `with_mpi`, "openmpi" and "mpich" if they are installed.
  static absl::StatusOr<RankPrograms> Make(bool with_mpi);

  const std::vector<std::string>& names() const { return names_; }

  // Microseconds for each case, by the case's argument. All cases must have the same number of
  // ranks; takes about `budget_ms` for each.
  absl::StatusOr<std::map<std::string, double>> Run(const std::string& name,
                                                    const std::vector<CollectiveCase>& cases,
                                                    int budget_ms) const;

 private:
  explicit RankPrograms(TemporaryDirectory directory) : directory_(std::move(directory)) {}

  std::string Command(const std::string& name, uint32_t ranks) const;

  TemporaryDirectory directory_;
  std::vector<std::string> names_;
};

}  // namespace pto::bench
