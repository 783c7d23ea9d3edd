// Every function that compiles a graph stops soon after its client has gone.

#include <array>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"
#include "runtime/graph/open_graph.h"
#include "runtime/graph/overlap_check.h"
#include "runtime/graph/realias.h"

namespace pto::engine {
namespace {

using engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;

// More work than is done between two checks.
constexpr uint32_t kManyTasks = 3 * WorkBudget::kCheckInterval;

// A graph of many tasks that use two slots.
std::shared_ptr<const GraphImage> TwoSlots() {
  GraphBuilder builder(engine::testing::GraphTestTarget());
  const uint32_t layout = builder.AddLayout(PTO_F32, {4}, {}).value();
  const uint32_t args[] = {builder.AddTensor(builder.AddSlot("out"), layout, 0).value(),
                           builder.AddTensor(builder.AddSlot("x"), layout, 0).value(),
                           builder.AddTensor(builder.AddSlot("x"), layout, 4).value()};
  TaskInput task;
  task.kernel = builder.AddKernel("axpy").value();
  task.args = args;
  const std::array<ScalarInput, 1> alpha{};
  task.scalars = alpha;
  for (uint32_t i = 0; i < kManyTasks; ++i) (void)builder.AddTask(task);
  return builder.Build().value();
}

// Two adjacent slots in one buffer: they do not overlap, but the launch has to check.
SlotPlaces OneBuffer() {
  SlotPlaces places(2);
  places[0] = {0, 0};
  places[1] = {0, 1 << 20};
  return places;
}

TEST(CancelTest, TasksThatNameTheirDependencies) {
  bool gone = false;
  GraphBuilder builder(engine::testing::GraphTestTarget(),
                       {.find_dependencies = false, .cancelled = [&gone] { return gone; }});
  TaskInput task;
  task.kernel = builder.AddKernel("nop").value();
  for (uint32_t i = 0; i < kManyTasks; ++i) ASSERT_TRUE(builder.AddTask(task).ok());
  gone = true;
  absl::Status status;
  for (uint32_t i = 0; status.ok() && i < kManyTasks; ++i) status = builder.AddTask(task).status();
  EXPECT_THAT(status, HasReason(reason::kClientGone));
}

TEST(CancelTest, SegmentsOfAnOpenGraph) {
  for (const bool find_dependencies : {true, false}) {
    bool gone = false;
    OpenGraph graph(engine::testing::GraphTestTarget(), {.find_dependencies = find_dependencies,
                                                         .cancelled = [&gone] { return gone; }});
    TaskInput task;
    task.kernel = graph.AddKernel("nop").value();
    ASSERT_TRUE(graph.AddTask(task).ok());
    ASSERT_TRUE(graph.Cut().ok());
    gone = true;
    absl::Status status;
    for (uint32_t i = 0; status.ok() && i < kManyTasks; ++i) status = graph.AddTask(task).status();
    if (status.ok()) status = graph.Cut().status();
    EXPECT_THAT(status, HasReason(reason::kClientGone)) << find_dependencies;
  }
}

TEST(CancelTest, TheCheckOfALaunch) {
  const std::shared_ptr<const GraphImage> image = TwoSlots();
  EXPECT_TRUE(CheckOverlaps(*image, OneBuffer(), [] { return false; }).ok());
  EXPECT_THAT(CheckOverlaps(*image, OneBuffer(), [] { return true; }),
              HasReason(reason::kClientGone));
}

TEST(CancelTest, ItsTimeIsUp) {
  ManualClock clock;
  CompileTime time(clock, 1'000'000'000);
  const WorkBudget::Cancelled late = WorkBudget::Cancelled([&] {
                                       clock.Advance(absl::Seconds(2));
                                       return false;
                                     }).WithTime(&time);
  const std::shared_ptr<const GraphImage> image = TwoSlots();
  const absl::Status status = CheckOverlaps(*image, OneBuffer(), late);
  EXPECT_THAT(status, HasReason(reason::kGraphTooLarge));
  EXPECT_NE(status.message().find("took longer than 1s"), absl::string_view::npos) << status;
  time.Restart();
  EXPECT_THAT(Realias(*image, OneBuffer(), GraphTarget().max_dependencies, late),
              HasReason(reason::kGraphTooLarge));
  time.Restart();
  GraphBuilder builder(engine::testing::GraphTestTarget(), {.cancelled = late});
  TaskInput task;
  task.kernel = builder.AddKernel("nop").value();
  absl::Status added;
  for (uint32_t i = 0; added.ok() && i < kManyTasks; ++i) added = builder.AddTask(task).status();
  EXPECT_THAT(added, HasReason(reason::kGraphTooLarge));
}

TEST(CancelTest, CompilingForBuffersThatOverlap) {
  const std::shared_ptr<const GraphImage> image = TwoSlots();
  const uint64_t most = GraphTarget().max_dependencies;
  EXPECT_TRUE(Realias(*image, OneBuffer(), most, [] { return false; }).ok());
  EXPECT_THAT(Realias(*image, OneBuffer(), most, [] { return true; }),
              HasReason(reason::kClientGone));
}

}  // namespace
}  // namespace pto::engine
