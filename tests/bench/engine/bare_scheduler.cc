#include "tests/bench/engine/bare_scheduler.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

class BareScheduler final : public Scheduler {
 public:
  absl::StatusOr<Phases> Execute(const TaskGraph& graph) override {
    const double start = Seconds();
    Build(graph);
    const double built = Seconds();
    const uint32_t ran = Run();
    const double ended = Seconds();
    if (ran != graph.size()) return absl::InternalError("the bare scheduler lost tasks");
    return Phases{built - start, ended - built};
  }

  void Clear() override {
    for (std::vector<uint32_t>* const array :
         {&counters_, &first_successor_, &successors_, &stack_}) {
      *array = std::vector<uint32_t>();
    }
  }

 private:
  void Build(const TaskGraph& graph) {
    const uint32_t size = graph.size();
    counters_.resize(size);
    first_successor_.resize(size + 1);
    successors_.resize(graph.edges());
    stack_.reserve(size);
    for (uint32_t i = 0; i < size; ++i) {
      counters_[i] = static_cast<uint32_t>(graph.before(i).size());
      if (counters_[i] == 0) stack_.push_back(i);
      for (const uint32_t before : graph.before(i)) ++first_successor_[before];
    }
    // Each index is first the end of its task's successors, and moves to their begin.
    uint32_t end = 0;
    for (uint32_t i = 0; i <= size; ++i) end = first_successor_[i] += end;
    for (uint32_t i = size; i-- > 0;) {
      for (const uint32_t before : graph.before(i)) successors_[--first_successor_[before]] = i;
    }
  }

  uint32_t Run() {
    uint32_t ran = 0;
    while (!stack_.empty()) {
      const uint32_t task = stack_.back();
      stack_.pop_back();
      kernel_();
      ++ran;
      for (uint32_t i = first_successor_[task]; i < first_successor_[task + 1]; ++i) {
        if (--counters_[successors_[i]] == 0) stack_.push_back(successors_[i]);
      }
    }
    return ran;
  }

  // Called through a pointer, like kernels.
  void (*volatile kernel_)() = &DoNothing;
  std::vector<uint32_t> counters_;
  std::vector<uint32_t> first_successor_;
  std::vector<uint32_t> successors_;
  std::vector<uint32_t> stack_;
};

}  // namespace

std::unique_ptr<Scheduler> NewBareScheduler() { return std::make_unique<BareScheduler>(); }

}  // namespace pto::bench
