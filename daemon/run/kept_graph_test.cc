// What stays of the tasks of runs that have ended, and for how long.

#include "daemon/run/kept_graph.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/run/run_table.h"
#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::IsOk;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::shared_ptr<const GraphPart> PartOf(const std::shared_ptr<const engine::GraphImage>& image,
                                        uint32_t first_task = 0) {
  const auto part = std::make_shared<GraphPart>();
  part->image = image;
  part->first_task = first_task;
  return part;
}

class KeptGraphTest : public SessionTest {
 protected:
  const uint64_t one_ = PartOf(image_)->bytes();
};

TEST_F(KeptGraphTest, LetsGoOfTheOldestParts) {
  const uint64_t before = KeptGraph::total_bytes();
  {
    KeptGraph kept({2 * one_});
    EXPECT_THAT(kept.Add(PartOf(image_, 0)), IsEmpty());
    EXPECT_THAT(kept.Add(PartOf(image_, 1)), IsEmpty());
    const GraphParts dropped = kept.Add(PartOf(image_, 2));
    ASSERT_THAT(dropped, SizeIs(1));
    EXPECT_EQ(dropped[0]->first_task, 0u);
    ASSERT_THAT(kept.parts(), SizeIs(2));
    EXPECT_EQ(kept.parts()[0]->first_task, 1u);
    EXPECT_EQ(KeptGraph::total_bytes(), before + 2 * one_);
  }
  EXPECT_EQ(KeptGraph::total_bytes(), before);
}

TEST_F(KeptGraphTest, DoesNotKeepWhatIsTooLarge) {
  KeptGraph kept({one_ - 1});
  EXPECT_THAT(kept.Add(PartOf(image_)), SizeIs(1));
  EXPECT_THAT(kept.parts(), IsEmpty());
  EXPECT_EQ(kept.bytes(), 0u);
}

TEST_F(KeptGraphTest, KeepsWhatTheAccountHasRoomFor) {
  const auto memory = std::make_shared<MemoryAccount>("all", "bytes", 3 * one_);
  memory->Charge(one_);
  {
    KeptGraph kept({10 * one_}, memory);
    EXPECT_THAT(kept.Add(PartOf(image_, 0)), IsEmpty());
    EXPECT_THAT(kept.Add(PartOf(image_, 1)), IsEmpty());
    EXPECT_EQ(memory->used(), 3 * one_);
    EXPECT_THAT(kept.Add(PartOf(image_, 2)), SizeIs(1));
    EXPECT_EQ(memory->used(), 3 * one_);
    // Others may have taken more than there is; what is kept stays, but grows no more.
    memory->Charge(one_);
    EXPECT_THAT(kept.Add(PartOf(image_, 3)), SizeIs(1));
    EXPECT_EQ(kept.bytes(), 2 * one_);
  }
  EXPECT_EQ(memory->used(), 2 * one_);
  KeptGraph none({10 * one_}, std::make_shared<MemoryAccount>("all", "bytes", one_ - 1));
  EXPECT_THAT(none.Add(PartOf(image_)), SizeIs(1));
  EXPECT_EQ(none.bytes(), 0u);
}

TEST_F(KeptGraphTest, TheProcessHasABoundToo) {
  const KeptGraph::Bounds bounds = {100 * one_, KeptGraph::total_bytes() + 2 * one_};
  KeptGraph first(bounds), second(bounds);
  EXPECT_THAT(first.Add(PartOf(image_)), IsEmpty());
  EXPECT_THAT(second.Add(PartOf(image_, 0)), IsEmpty());
  EXPECT_THAT(second.Add(PartOf(image_, 1)), SizeIs(1));
  EXPECT_THAT(first.parts(), SizeIs(1));
  EXPECT_THAT(second.parts(), SizeIs(1));
}

// A run of so many parts that has ended.
class EndedRun final : public RunEntry {
 public:
  EndedRun(std::string id, const std::shared_ptr<const GraphPart>& part) : RunEntry(Named(id)) {
    if (part == nullptr) return;
    MutexLock lock(mutex_);
    Keep(part, {1 << 20});
  }
  RunStatus Status() const override { return {}; }
  void Stop(engine::RunState, const absl::Status&, engine::Completions&) override {}
  void Tell() override {}
  void TellStall(RunStall, absl::Time) override {}

 protected:
  void OnTurn(engine::Completions&) override {}
  void OnPassedLate() override {}

 private:
  static Options Named(const std::string& id) {
    Options options;
    options.record.id = id;
    return options;
  }
};

TEST_F(KeptGraphTest, ASessionKeepsThoseOfItsNewestRuns) {
  RunTable table("s", /*used=*/nullptr, /*max_ended=*/4, /*max_kept_bytes=*/2 * one_);
  std::vector<std::shared_ptr<RunEntry>> runs;  // as events have them
  const auto end = [&](const std::shared_ptr<const GraphPart>& part) {
    runs.push_back(
        std::make_shared<EndedRun>(std::string("r") + std::to_string(runs.size()), part));
    table.Add(runs.back());
    return table.OnEnded(*runs.back()).size();
  };
  EXPECT_EQ(end(PartOf(image_)), 0u);
  EXPECT_EQ(end(nullptr), 0u);
  EXPECT_EQ(end(PartOf(image_)), 0u);
  EXPECT_THAT(runs[0]->graph_parts(), SizeIs(1));
  // There is room for two.
  EXPECT_EQ(end(PartOf(image_)), 1u);
  EXPECT_THAT(runs[0]->graph_parts(), IsEmpty());
  EXPECT_THAT(runs[2]->graph_parts(), SizeIs(1));
  EXPECT_THAT(runs[3]->graph_parts(), SizeIs(1));
  // What is forgotten keeps nothing, whoever has the entry.
  EXPECT_EQ(end(nullptr) + end(nullptr), 0u);
  EXPECT_EQ(end(nullptr), 1u);
  EXPECT_THAT(runs[2]->graph_parts(), IsEmpty());
  EXPECT_THAT(runs[3]->graph_parts(), SizeIs(1));
}

TEST_F(KeptGraphTest, OfRunsOfASession) {
  const std::shared_ptr<Session> session = Create("a");
  ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}}), IsOk());
  const std::shared_ptr<RunEntry> submitted = session->StartRun(FillRequest()).value();
  // While it runs and then.
  for (const bool ended : {false, true}) {
    EXPECT_EQ(submitted->ended(), ended);
    ASSERT_THAT(submitted->graph_parts(), SizeIs(1));
    EXPECT_EQ(submitted->graph_parts()[0]->image, image_);
    RunAll();
  }
  // Only as long as there can be events that it belongs to.
  RunRequest quiet = FillRequest();
  quiet.record_level = engine::RecordLevel::kFailed;
  const std::shared_ptr<RunEntry> without_events = session->StartRun(quiet).value();
  EXPECT_THAT(without_events->graph_parts(), SizeIs(1));
  RunAll();
  EXPECT_THAT(without_events->graph_parts(), IsEmpty());
  // A registered graph has its image itself.
  RunRequest launch = FillRequest();
  launch.graph = session->AddGraph("g", {}, image_).value();
  const std::shared_ptr<RunEntry> launched = session->StartRun(launch).value();
  EXPECT_THAT(launched->graph_parts(), SizeIs(1));
  RunAll();
  EXPECT_THAT(launched->graph_parts(), IsEmpty());
}

}  // namespace
}  // namespace pto::daemon
