// The cost of a launch inside the daemon, without gRPC: with warm caches, and after other work has
// evicted its memory and code.
#include <cstdio>
#include <memory>
#include <vector>

#include "daemon/session/session_manager.h"
#include "kernels/builtin_kernels.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/graph/builder.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr int kLaunches = 200'000;
constexpr size_t kOtherWorkBytes = 3 << 20;

std::shared_ptr<const engine::GraphImage> OneNoop() {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {24};
  engine::GraphBuilder builder(target);
  engine::TaskInput task;
  task.kernel = builder.AddKernel("noop").value();
  builder.AddTask(task).value();
  return builder.Build().value();
}

// Adds one buffer to another; the launch after the next has to wait for it.
std::shared_ptr<const engine::GraphImage> OneAxpy() {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {24};
  engine::GraphBuilder builder(target);
  const uint32_t layout = builder.AddLayout(PTO_F32, {4}, {}).value();
  std::vector<uint32_t> args;
  for (const char* slot : {"x", "y"}) {
    args.push_back(builder.AddTensor(builder.AddSlot(slot), layout, 0).value());
  }
  const engine::ScalarInput alpha;
  engine::TaskInput task;
  task.kernel = builder.AddKernel("axpy").value();
  task.args = args;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  builder.AddTask(task).value();
  return builder.Build().value();
}

class LaunchCost {
 public:
  LaunchCost() {
    engine::Engine::Options engine;
    engine.chips.push_back(engine::SimChip::Create(0, 24, 1 << 20));
    engine.timers = &timers_;
    engine_ = std::make_unique<engine::Engine>(std::move(engine));
    daemon::SessionManager::Options manager;
    manager.limits = &limits_;
    manager.engine = engine_.get();
    manager.timers = &timers_;
    manager.background = &timers_;
    manager.clock = &Clock::Real();
    sessions_ = std::make_unique<daemon::SessionManager>(manager);
    daemon::SessionManager::Request request;
    request.id = "bench";
    session_ = sessions_->Create(daemon::auth::Daemon(), request).value();
    session_->AddGraph("noop", daemon::Digest{}, OneNoop()).value();
    session_->AddGraph("axpy", daemon::Digest{}, OneAxpy()).value();
    const std::vector<daemon::BufferRequest> buffers = {{"x", 0, 64}, {"y", 0, 64}};
    session_->CreateBuffers(buffers).value();
  }

  // With `binds`, the launch binds its buffers.
  double Launch(const char* graph, bool binds) {
    const double start = Seconds();
    daemon::RunRequest run;
    run.graph = session_->FindGraph(graph).value();
    run.image = run.graph->image;
    run.help = true;
    if (binds) run.bindings = {{"x", "y", 0}, {"y", "x", 0}};
    const std::shared_ptr<daemon::RunEntry> entry = session_->StartRun(std::move(run)).value();
    int told = 0;
    entry->AddWaiter([&told](const daemon::RunStatus&) { ++told; });
    const double took = Seconds() - start;
    while (!entry->ended()) engine_->RunOne();
    return took;
  }

 private:
  daemon::Limits limits_;
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<daemon::SessionManager> sessions_;
  std::shared_ptr<daemon::Session> session_;
};

void Measure(LaunchCost& cost, const char* label, const char* graph, bool binds) {
  std::vector<double> warm;
  for (int i = 0; i < kLaunches; ++i) warm.push_back(cost.Launch(graph, binds));
  std::vector<char> other(kOtherWorkBytes);
  std::vector<double> cold;
  for (int i = 0; i < kLaunches / 20; ++i) {
    for (size_t at = 0; at < other.size(); at += 64) ++other[at];
    cold.push_back(cost.Launch(graph, binds));
  }
  std::printf("%-12s warm %.2f us, cold %.2f us (p50)\n", label, Median(warm) * 1e6,
              Median(cold) * 1e6);
}

void Main() {
  LaunchCost cost;
  Measure(cost, "no buffers", "noop", false);
  Measure(cost, "two buffers", "axpy", false);
  Measure(cost, "two bound", "axpy", true);
}

}  // namespace
}  // namespace pto::bench

int main() { pto::bench::Main(); }
