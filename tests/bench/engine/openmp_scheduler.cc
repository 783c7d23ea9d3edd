#include "tests/bench/engine/openmp_scheduler.h"

#include <cstdint>
#include <vector>

#include "tests/bench/samples.h"

namespace pto::bench {

#ifdef _OPENMP
namespace {

static_assert(TaskGraph::kMaxDegree == 4, "a depend clause for each");

// `at` points to the bytes of all tasks. The number of dependencies is fixed in each clause: an
// iterator, which allows any number, costs more. GCC does not notice that a depend clause uses
// `at`.
void AddTask([[maybe_unused]] char* at, uint32_t task, absl::Span<const uint32_t> before) {
  const uint32_t* const b = before.data();
  switch (before.size()) {
    case 0:
#pragma omp task depend(out : at[task])
      DoNothing();
      break;
    case 1:
#pragma omp task depend(in : at[b[0]]) depend(out : at[task])
      DoNothing();
      break;
    case 2:
#pragma omp task depend(in : at[b[0]], at[b[1]]) depend(out : at[task])
      DoNothing();
      break;
    case 3:
#pragma omp task depend(in : at[b[0]], at[b[1]], at[b[2]]) depend(out : at[task])
      DoNothing();
      break;
    default:
#pragma omp task depend(in : at[b[0]], at[b[1]], at[b[2]], at[b[3]]) depend(out : at[task])
      DoNothing();
      break;
  }
}

class OpenMpScheduler final : public Scheduler {
 public:
  explicit OpenMpScheduler(int threads) : threads_(threads) {}

  absl::StatusOr<Phases> Execute(const TaskGraph& graph) override {
    bytes_.resize(graph.size());
    double built = 0;
    const double start = Seconds();
#pragma omp parallel num_threads(threads_)
#pragma omp single
    {
      for (uint32_t i = 0; i < graph.size(); ++i) AddTask(bytes_.data(), i, graph.before(i));
      built = Seconds();
#pragma omp taskwait
    }
    return Phases{built - start, Seconds() - built};
  }

  void Clear() override { bytes_ = std::vector<char>(); }

 private:
  const int threads_;
  std::vector<char> bytes_;
};

}  // namespace

std::unique_ptr<Scheduler> NewOpenMpScheduler(int threads) {
  return std::make_unique<OpenMpScheduler>(threads);
}
#else
std::unique_ptr<Scheduler> NewOpenMpScheduler(int) { return nullptr; }
#endif

}  // namespace pto::bench
