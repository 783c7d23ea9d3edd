#include "tests/bench/engine/starpu_scheduler.h"

#include <starpu.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

void Kernel(void**, void*) { DoNothing(); }

// The directory where StarPU stores what it finds out about the machine, instead of the user's
// home.
class Home {
 public:
  Home() {
    char path[] = "/tmp/engine_bench.XXXXXX";
    if (mkdtemp(path) == nullptr) return;
    path_ = path;
    setenv("STARPU_HOME", path, 1);
    setenv("STARPU_SILENT", "1", 0);
  }
  ~Home() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

 private:
  std::string path_;
};

class StarPuScheduler final : public Scheduler {
 public:
  StarPuScheduler() = default;
  ~StarPuScheduler() override {
    if (!started_) return;
    Clear();
    starpu_resume();
    starpu_shutdown();
  }

  absl::Status Start(int threads) {
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = threads;
    conf.ncuda = 0;
    conf.nopencl = 0;
    const int result = starpu_init(&conf);
    if (result != 0) return absl::UnavailableError(absl::StrCat("starpu_init: ", result));
    started_ = true;
    starpu_pause();
    for (uint32_t reads = 0; reads < codelets_.size(); ++reads) {
      starpu_codelet& codelet = codelets_[reads];
      starpu_codelet_init(&codelet);
      codelet.cpu_funcs[0] = &Kernel;
      codelet.nbuffers = static_cast<int>(reads) + 1;
      codelet.modes[0] = STARPU_W;
      for (uint32_t i = 1; i <= reads; ++i) codelet.modes[i] = STARPU_R;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Phases> Execute(const TaskGraph& graph) override {
    bytes_.resize(graph.size());
    starpu_resume();
    const double start = Seconds();
    handles_.resize(graph.size());
    for (uint32_t i = 0; i < graph.size(); ++i) {
      starpu_variable_data_register(&handles_[i], STARPU_MAIN_RAM,
                                    reinterpret_cast<uintptr_t>(&bytes_[i]), 1);
      starpu_task* const task = starpu_task_create();
      const absl::Span<const uint32_t> before = graph.before(i);
      task->cl = &codelets_[before.size()];
      task->handles[0] = handles_[i];
      for (size_t j = 0; j < before.size(); ++j) task->handles[j + 1] = handles_[before[j]];
      const int result = starpu_task_submit(task);
      if (result != 0) return absl::InternalError(absl::StrCat("starpu_task_submit: ", result));
    }
    const double built = Seconds();
    starpu_task_wait_for_all();
    const double ended = Seconds();
    starpu_pause();
    return Phases{built - start, ended - built};
  }

  void Clear() override {
    if (handles_.empty()) return;
    starpu_resume();
    for (const starpu_data_handle_t handle : handles_) starpu_data_unregister_no_coherency(handle);
    starpu_pause();
    handles_ = std::vector<starpu_data_handle_t>();
    bytes_ = std::vector<char>();
  }

 private:
  Home home_;
  bool started_ = false;
  std::array<starpu_codelet, TaskGraph::kMaxDegree + 1> codelets_;  // by number of inputs
  std::vector<char> bytes_;
  std::vector<starpu_data_handle_t> handles_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> NewStarPuScheduler(int threads) {
  auto scheduler = std::make_unique<StarPuScheduler>();
  const absl::Status status = scheduler->Start(threads);
  if (!status.ok()) return status;
  return std::unique_ptr<Scheduler>(std::move(scheduler));
}

}  // namespace pto::bench
