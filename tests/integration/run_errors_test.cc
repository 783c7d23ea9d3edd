// Runs with many errors: all are reported, and no message is too large for a client.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/lifecycle.h"
#include "tests/integration/watch.h"

namespace pto::testing {
namespace {

using RunErrorsTest = LifecycleTest;
using Stub = v1::RunService::Stub;

constexpr int kListed = 17;

v1::GraphSpec Failing(int tasks) {
  v1::GraphSpec graph;
  for (int i = 0; i < tasks; ++i) {
    *graph.add_tasks() = Proto<v1::TaskSpec>("kernel: 'fail' chip: 'chips/0' scalars { i64: 1 }");
  }
  return graph;
}

v1::WatchEventsRequest EventsOf(const std::string& session, const std::string& run = "") {
  v1::WatchEventsRequest request;
  request.set_parent(session);
  if (!run.empty()) request.add_runs(run);
  return request;
}

TEST_F(RunErrorsTest, TheFirstAreListedWithTheRunAndEventsTellOfTheOthers) {
  constexpr int kTasks = 100;
  const v1::Run ended = WaitForRun(api(), Submit(api(), session_, Failing(kTasks)).name());
  const v1::Run other = WaitForRun(api(), Submit(api(), session_, Failing(kTasks)).name());
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_EQ(ended.tasks_failed(), uint64_t{kTasks});
  EXPECT_EQ(ended.more_errors_size(), kListed - 1);
  EXPECT_EQ(ended.errors_unlisted(), uint64_t{kTasks - kListed});
  // Each error belongs to a different task.
  std::set<std::string> messages = {ended.error().message()};
  for (const v1::Status& error : ended.more_errors()) messages.insert(error.message());
  EXPECT_EQ(messages.size(), size_t{kListed});
  Watch watch(api(), EventsOf(session_, ended.name()));
  EventLedger ledger(/*filtered=*/true);
  uint64_t end = 0;
  v1::EventBatch batch;
  while (!ledger.ended(ended.name())) {
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    ledger.Take(batch);
    for (const v1::Event& event : batch.events()) {
      if (event.run().state() == v1::Run::FAILED) end = event.sequence();
      if (!event.has_errors()) continue;
      EXPECT_EQ(end, 0u) << "after the run's end";
      EXPECT_EQ(event.errors().run(), ended.name());
      for (const v1::Status& error : event.errors().errors()) {
        EXPECT_TRUE(messages.insert(error.message()).second) << error.message();
        EXPECT_EQ(error.details_size(), ended.error().details_size());
      }
    }
  }
  EXPECT_EQ(messages.size(), size_t{kTasks});
}

TEST_F(RunErrorsTest, MessagesStaySmallEnoughForAnyClient) {
  // The default message limit of gRPC clients.
  constexpr size_t kMostBytes = size_t{4} << 20;
  constexpr int kRuns = 800;
  std::set<std::string> runs;
  v1::SubmitRunRequest submit = SubmitRequest(session_, Failing(kListed + 1));
  // Otherwise task events would fill the batches.
  submit.mutable_options()->set_event_level(v1::RUN_ONLY);
  for (int i = 0; i < kRuns; ++i) {
    const auto run = Call(*api().run, &Stub::SubmitRun, submit);
    ASSERT_THAT(run, IsOk());
    runs.insert(run->name());
  }
  for (const std::string& run : runs) ASSERT_EQ(WaitForRun(api(), run).state(), v1::Run::FAILED);

  size_t all_bytes = 0;
  std::set<std::string> listed;
  v1::ListRunsRequest request;
  request.set_parent(session_);
  request.set_page_size(1000);
  do {
    const auto page = Call(*api().run, &Stub::ListRuns, request);
    ASSERT_THAT(page, IsOk());
    EXPECT_LT(page->ByteSizeLong(), kMostBytes / 2);
    all_bytes += page->ByteSizeLong();
    for (const v1::Run& run : page->runs()) EXPECT_TRUE(listed.insert(run.name()).second);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, runs);
  // Otherwise the messages would have been small anyway.
  EXPECT_GT(all_bytes, kMostBytes);

  Watch watch(api(), EventsOf(session_));
  EventLedger ledger;
  std::set<std::string> ended;
  v1::EventBatch batch;
  while (ended.size() < runs.size()) {
    ASSERT_TRUE(watch.Next(&batch)) << watch.End();
    EXPECT_LT(batch.ByteSizeLong(), kMostBytes / 2);
    ledger.Take(batch);
    for (const v1::Event& event : batch.events()) {
      if (event.run().state() == v1::Run::FAILED) ended.insert(event.run().name());
    }
  }
  EXPECT_EQ(ledger.dropped(), 0u);
}

}  // namespace
}  // namespace pto::testing
