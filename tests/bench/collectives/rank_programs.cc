#include "tests/bench/collectives/rank_programs.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace pto::bench {
namespace {

constexpr char kFolder[] = "tests/bench/collectives";
// A hanging program is killed.
constexpr char kAtMost[] = "timeout --kill-after=5 240 ";

// The path of a file of the benchmark: below the working directory, or next to the program if it
// was not started by Bazel.
std::string Find(const std::string& file) {
  const std::string here = absl::StrCat(kFolder, "/", file);
  if (access(here.c_str(), R_OK) == 0) return here;
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) return here;
  return absl::StrCat(std::string(program, static_cast<size_t>(length)), ".runfiles/pto/", here);
}

}  // namespace

absl::StatusOr<RankPrograms> RankPrograms::Make(bool with_mpi) {
  PTO_ASSIGN_OR_RETURN(TemporaryDirectory directory, TemporaryDirectory::Make());
  RankPrograms programs(std::move(directory));
  programs.names_.push_back("comm");
  if (!with_mpi) return programs;
  for (const std::string mpi : {"openmpi", "mpich"}) {
    const std::string compile = absl::StrCat("mpicc.", mpi, " -O2 -o ", programs.directory_.path(),
                                             "/", mpi, " ", Find("mpi_ranks.c"), " >&2");
    if (std::system(compile.c_str()) == 0) {
      programs.names_.push_back(mpi);
    } else {
      std::fprintf(stderr, "collective_bench: without %s, which does not compile\n", mpi.c_str());
    }
  }
  return programs;
}

std::string RankPrograms::Command(const std::string& name, uint32_t ranks) const {
  const std::string program = absl::StrCat(directory_.path(), "/", name);
  if (name == "comm") return absl::StrCat(kAtMost, Find("comm_ranks"), " ", ranks);
  if (name == "mpich") return absl::StrCat(kAtMost, "mpiexec.mpich -n ", ranks, " ", program);
  // With too few CPUs, waiting ranks yield, and are not bound to CPUs.
  const bool crowded = ranks > static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  return absl::StrCat(kAtMost, "mpirun.openmpi --allow-run-as-root --oversubscribe ",
                      crowded ? "--bind-to none --mca mpi_yield_when_idle 1 " : "", "-n ", ranks,
                      " ", program);
}

absl::StatusOr<std::map<std::string, double>> RankPrograms::Run(
    const std::string& name, const std::vector<CollectiveCase>& cases, int budget_ms) const {
  std::string command = absl::StrCat(Command(name, cases.at(0).ranks), " ", budget_ms);
  for (const CollectiveCase& wanted : cases) absl::StrAppend(&command, " ", wanted.argument());
  std::FILE* const out = popen(command.c_str(), "r");
  if (out == nullptr) return absl::InternalError(absl::StrCat("cannot start ", command));
  std::map<std::string, double> times;
  char line[256];
  while (std::fgets(line, sizeof line, out) != nullptr) {
    char op[32];
    unsigned long bytes = 0;
    double microseconds = 0;
    if (std::sscanf(line, "%31s %lu %lf", op, &bytes, &microseconds) != 3) continue;
    times[absl::StrCat(op, ":", bytes)] = microseconds;
  }
  const int status = pclose(out);
  if (status != 0 || times.size() != cases.size()) {
    return absl::InternalError(absl::StrCat(name, " printed ", times.size(), " of ", cases.size(),
                                            " times and ended with ", status, ": ", command));
  }
  return times;
}

}  // namespace pto::bench
