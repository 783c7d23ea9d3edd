#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/chip/chip_health.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/session/session.h"
#include "daemon/session/session_manager.h"
#include "kernels/builtin_kernels.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/graph/builder.h"

namespace pto::daemon::testing {

// Sessions on an engine that runs nothing by itself, at a time that stands still. Chips can be
// leased, and are faulty when the test says so.
class SessionTest : public ::testing::Test {
 protected:
  SessionTest()
      : SessionTest(
            {engine::SimChip::Create(0, 2, 1 << 20), engine::SimChip::Create(1, 2, 1 << 20)}) {}
  // With two chips of two clusters.
  explicit SessionTest(std::vector<std::shared_ptr<engine::Chip>> chips) {
    limits_.max_session_buffers = 4;
    limits_.max_session_active_runs = 3;
    limits_.max_session_finished_runs = 2;
    limits_.max_session_graphs = 2;
    limits_.max_sessions = 2;
    engine::Engine::Options engine;
    engine.chips = std::move(chips);
    engine.clock = &clock_;
    engine.timers = &timers_;
    engine_ = std::make_unique<engine::Engine>(std::move(engine));
    ChipHealth::Options health;
    health.chips = 2;
    health.clock = &clock_;
    health.probe = [this](uint32_t chip) { return faulty_.count(chip) > 0 ? "a test" : ""; };
    health_ = std::make_unique<ChipHealth>(std::move(health));
    ChipLeases::Options leases;
    leases.chips = 2;
    leases.timers = &timers_;
    leases.clock = &clock_;
    leases.health = health_.get();
    leases.busy = [this](uint32_t chip, const std::string& holder) {
      return sessions_->UsedByOthers(chip, holder);
    };
    leases_ = std::make_unique<ChipLeases>(std::move(leases));
    SessionManager::Options manager;
    manager.limits = &limits_;
    manager.times.default_ttl = absl::Seconds(30);
    manager.engine = engine_.get();
    manager.timers = &timers_;
    manager.background = &timers_;
    manager.clock = &clock_;
    manager.leases = leases_.get();
    manager.not_served = [this](int64_t, int64_t, int64_t) {
      if (on_expiry_ != nullptr) on_expiry_();
      return int64_t{0};
    };
    sessions_ = std::make_unique<SessionManager>(manager);
  }

  std::shared_ptr<Session> Create(const std::string& id, absl::Duration ttl = {}) {
    SessionManager::Request request;
    request.id = id;
    request.ttl = ttl;
    return sessions_->Create(auth::Daemon(), request).value();
  }

  // fill of 16 floats in slot `x` on chip 0, `count` times in a row.
  static std::shared_ptr<const engine::GraphImage> FillGraph(uint32_t count = 1) {
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    engine::GraphBuilder builder(target);
    const uint32_t kernel = builder.AddKernel("fill").value();
    const std::vector<int64_t> shape = {16};
    const uint32_t layout = builder.AddLayout(PTO_F32, shape, {}).value();
    const uint32_t tensor = builder.AddTensor(builder.AddSlot("x"), layout, 0).value();
    engine::ScalarInput value;
    value.f64 = 2.5;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t before = i - 1;
      engine::TaskInput task;
      task.kernel = kernel;
      task.args = absl::MakeConstSpan(&tensor, 1);
      task.scalars = absl::MakeConstSpan(&value, 1);
      if (i > 0) task.dependencies = absl::MakeConstSpan(&before, 1);
      builder.AddTask(task).value();
    }
    return builder.Build().value();
  }

  RunRequest FillRequest(const std::string& id = "", uint64_t digest = 0) const {
    RunRequest request;
    request.id = id;
    request.digest.low = digest;
    request.image = image_;
    return request;
  }

  static absl::StatusOr<std::vector<std::shared_ptr<SessionBuffer>>> MakeBuffers(
      Session& session, const std::vector<BufferRequest>& requests) {
    return session.CreateBuffers(requests);
  }

  void RunAll() {
    while (engine_->RunOne()) {
    }
  }

  Limits limits_;
  // Called when a lease has run out, before its session ends.
  std::function<void()> on_expiry_;
  ManualClock clock_;
  TimerQueue timers_{clock_};
  const std::shared_ptr<const engine::GraphImage> image_ = FillGraph();
  std::set<uint32_t> faulty_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<ChipHealth> health_;
  std::unique_ptr<ChipLeases> leases_;
  std::unique_ptr<SessionManager> sessions_;
};

}  // namespace pto::daemon::testing
