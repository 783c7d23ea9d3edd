// A trace of a very large run has all its tasks, or reports how many are missing.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/trace/chrome_trace.h"
#include "client/trace/collect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

using ::testing::IsEmpty;

constexpr uint32_t kTasks = kAddressSanitizer ? 50'000 : 200'000;

// Chains, so that there are as many edges as tasks.
void AddChains(GraphBuilder& graph) {
  constexpr uint32_t kChains = 40;
  std::vector<TaskRef> last;
  for (uint32_t i = 0; i < kTasks; ++i) {
    TaskRef task = graph.Task("noop", i % 2, {});
    if (i < kChains) {
      last.push_back(task);
      continue;
    }
    task.After(last[i % kChains]);
    last[i % kChains] = task;
  }
}

class TraceLargeTest : public ::testing::Test {
 protected:
  absl::StatusOr<trace::RunTrace> TraceOf(const std::string& address) {
    const auto begun = absl::Now();
    const auto tell = [&](absl::string_view what) {
      std::cout << absl::StrFormat("%5.1f s: %s\n", absl::ToDoubleSeconds(absl::Now() - begun),
                                   what);
    };
    PTO_ASSIGN_OR_RETURN(Client client, Client::Connect(address));
    PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
    GraphBuilder graph;
    AddChains(graph);
    tell("built");
    PTO_ASSIGN_OR_RETURN(const pto::Run run, session.SubmitPacked(graph));
    PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Wait(absl::Minutes(2)));
    EXPECT_EQ(ended.tasks_done(), kTasks);
    tell("run");
    trace::CollectOptions options;
    options.timeout = absl::Minutes(2);
    absl::StatusOr<trace::RunTrace> trace = trace::CollectTrace(client, run.name(), options);
    tell("collected");
    return trace;
  }
};

TEST_F(TraceLargeTest, HasEveryTask) {
  const DaemonProcess daemon({"--sim-chips=2"});
  const absl::StatusOr<trace::RunTrace> trace = TraceOf(daemon.address());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->notes, IsEmpty());
  EXPECT_EQ(trace->tasks.size(), kTasks);
  EXPECT_EQ(trace->edges.size(), kTasks - 40);
  std::vector<bool> seen(kTasks);
  uint64_t late = 0;
  for (const trace::Task& task : trace->tasks) {
    ASSERT_FALSE(seen[task.index]);
    seen[task.index] = true;
    if (task.ready_ns < 0 || task.ready_ns > task.start_ns) ++late;
  }
  EXPECT_EQ(late, 0u);
  const std::string text = trace::FormatChromeTrace(*trace);
  uint64_t slices = 0;
  for (size_t at = text.find("\"ph\":\"X\""); at != std::string::npos;
       at = text.find("\"ph\":\"X\"", at + 1)) {
    ++slices;
  }
  EXPECT_EQ(slices, kTasks);
}

TEST_F(TraceLargeTest, OrSaysWhatIsMissing) {
  const DaemonProcess daemon({"--sim-chips=2", "--event-log-bytes=131072"});
  const absl::StatusOr<trace::RunTrace> trace = TraceOf(daemon.address());
  ASSERT_THAT(trace, IsOk());
  EXPECT_LT(trace->tasks.size(), kTasks);
  ASSERT_EQ(trace->notes.size(), 1u);
  uint64_t dropped = 0;
  ASSERT_TRUE(absl::SimpleAtoi(trace->notes[0].substr(0, trace->notes[0].find(' ')), &dropped))
      << trace->notes[0];
  // Besides task events there are three events of the run, which may be among the dropped ones.
  EXPECT_GE(trace->tasks.size() + dropped, kTasks);
  EXPECT_LE(trace->tasks.size() + dropped, kTasks + 3);
}

}  // namespace
}  // namespace pto::testing
