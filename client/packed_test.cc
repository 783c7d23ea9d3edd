// Sending packed graphs to the daemon.

#include <vector>

#include "client/session.h"
#include "client/testing/client_fixture.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;

class PackedTest : public testing::ClientFixture {};

void Fill(GraphBuilder& graph, int tasks) {
  const TensorRef tensor = graph.Tensor("t", "", v1::F32, {4});
  for (int i = 0; i < tasks; ++i) graph.Task("neg", 0, {tensor});
}

TEST_F(PackedTest, GoesInBlocksThatTheDaemonAllows) {
  StartDaemon({.max_block_tasks = 100});
  Session session = CreateSession({.id = "s"});
  GraphBuilder graph;
  Fill(graph, 250);
  const absl::StatusOr<pto::Run> run =
      session.SubmitPacked(graph, {.run_id = "r", .event_level = v1::RUN_ONLY});
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->name(), "sessions/s/runs/r");
  const std::vector<v1::PackedGraphPart> parts = daemon_->packed();
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[0].header().parent(), "sessions/s");
  EXPECT_EQ(parts[0].header().id(), "r");
  EXPECT_EQ(parts[0].header().options().event_level(), v1::RUN_ONLY);
  EXPECT_EQ(parts[2].tasks().kernel_size(), 100);
  EXPECT_EQ(parts[4].tasks().kernel_size(), 50);
  EXPECT_EQ(parts[5].commit().task_count(), 250u);
}

TEST_F(PackedTest, EndsAtItsDeadline) {
  StartDaemon();
  Session session = CreateSession();
  gate().Hang("SubmitPackedRun");
  GraphBuilder graph;
  Fill(graph, 1);
  Stopwatch stopwatch;
  EXPECT_THAT(session.SubmitPacked(graph, {}, absl::Milliseconds(200)),
              HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

}  // namespace
}  // namespace pto
