// Kernels that run for hours do not keep other sessions waiting, and end when they are told to.

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kHour = absl::Hours(1);
// How long anything may take that does not depend on the kernels that run.
constexpr absl::Duration kSoon = absl::Seconds(kAddressSanitizer ? 5 : 1);

// Another session, which runs a task on chip 3 all the time.
class Other {
 public:
  explicit Other(Api& api, uint32_t chip = 3)
      : api_(api), chip_(chip), session_(MakeSession(api)), thread_([this] { Work(); }) {}
  ~Other() { Stop(); }

  // The longest that one of its runs took.
  absl::Duration Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    return longest_;
  }
  int runs() const { return runs_; }

 private:
  void Work() {
    while (!stopping_) {
      const absl::Time begin = absl::Now();
      const v1::Run run = Submit(api_, session_, Spin(absl::ZeroDuration(), chip_));
      EXPECT_EQ(WaitForRun(api_, run.name()).state(), v1::Run::SUCCEEDED);
      longest_ = std::max(longest_, absl::Now() - begin);
      ++runs_;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  Api& api_;
  const uint32_t chip_;
  const std::string session_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> runs_{0};
  absl::Duration longest_;
  std::thread thread_;
};

// ---- graphs that take hours, or at least minutes, on chip 0

constexpr int64_t kBytes = int64_t{64} << 20;

void AddTensor(v1::GraphSpec& graph, const std::string& name, const std::string& buffer,
               v1::DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
  v1::TensorSpec& tensor = *graph.add_tensors();
  tensor.set_name(name);
  tensor.set_buffer(buffer);
  tensor.set_dtype(dtype);
  for (const int64_t size : shape) tensor.add_shape(size);
  for (const int64_t stride : strides) tensor.add_strides(stride);
}

void AddTask(v1::GraphSpec& graph, const std::string& kernel, std::vector<std::string> args) {
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel(kernel);
  task.set_chip("chips/0");
  for (const std::string& arg : args) task.add_args(arg);
}

// A sum of 2^40 rows, from indices that overlap themselves.
v1::GraphSpec SumRows() {
  v1::GraphSpec graph;
  constexpr int64_t kMany = int64_t{1} << 20;
  AddTensor(graph, "in", "zero", v1::F32, {1, 1});
  AddTensor(graph, "index", "zero", v1::I32, {kMany, kMany}, {1, 1});
  AddTensor(graph, "out", "sums", v1::F32, {kMany, 1});
  AddTask(graph, "sum_rows", {"in", "index", "out"});
  return graph;
}

// 2^42 products, of matrices that overlap themselves, for 256 rows.
v1::GraphSpec Matmul() {
  v1::GraphSpec graph;
  constexpr int64_t kInner = int64_t{1} << 23;
  AddTensor(graph, "a", "zero", v1::F32, {256, kInner}, {1, 1});
  AddTensor(graph, "b", "zero", v1::F32, {kInner, 2048}, {1, 1});
  AddTensor(graph, "c", "product", v1::F32, {256, 2048});
  AddTask(graph, "matmul", {"a", "b", "c"});
  return graph;
}

// Rows of one element each, again and again: the output of these cannot overlap itself.
v1::GraphSpec Rows(const std::string& kernel) {
  v1::GraphSpec graph;
  constexpr int64_t kRows = kBytes / 4;
  const bool takes = kernel == "take_rows";
  AddTensor(graph, "in", "zero", v1::F32, {kRows, 1});
  AddTensor(graph, "with", "zero", takes ? v1::I32 : v1::F32, {kRows});
  AddTensor(graph, "out", takes ? "taken" : "scaled", v1::F32, {kRows, 1});
  for (int i = 0; i < 2000; ++i) AddTask(graph, kernel, {"in", "with", "out"});
  return graph;
}

class StuckKernelsTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--sim-chips=4");
    daemon_ = std::make_unique<DaemonProcess>(std::move(flags));
  }
  Api& api() { return daemon_->api(); }

  // A session whose runs hold four executors, each with another kernel that takes for ever.
  std::vector<std::string> HoldFour(std::string* session, absl::Duration timeout) {
    *session = MakeSession(api());
    for (const char* const buffer : {"zero", "sums", "product", "taken", "scaled"}) {
      MakeBuffer(api(), *session, buffer, kBytes);
    }
    std::vector<std::string> runs;
    for (const v1::GraphSpec& graph :
         {SumRows(), Matmul(), Rows("take_rows"), Rows("scale_rows")}) {
      v1::SubmitRunRequest request = SubmitRequest(*session, graph);
      if (timeout > absl::ZeroDuration()) {
        request.mutable_options()->mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
      }
      const absl::StatusOr<v1::Run> run =
          Call(*api().run, &v1::RunService::Stub::SubmitRun, request);
      // What cannot end in time by far does not even begin.
      if (timeout > absl::ZeroDuration() && ReasonOf(run.status()) == reason::kTaskTooLong.name) {
        continue;
      }
      EXPECT_THAT(run, IsOk());
      if (run.ok()) runs.push_back(run->name());
    }
    for (const std::string& run : runs) WaitUntilRunning(api(), run);
    return runs;
  }

  std::unique_ptr<DaemonProcess> daemon_;
};

TEST_F(StuckKernelsTest, RunsEndSoonHoweverTheyAreStopped) {
  Start({"--executor-threads=4"});
  Other other(api());
  const auto all_end = [&](const std::vector<std::string>& runs, v1::Run::State state) {
    for (const std::string& run : runs) EXPECT_EQ(WaitForRun(api(), run).state(), state) << run;
  };
  std::string session;
  {
    SCOPED_TRACE("CancelRun");
    const std::vector<std::string> runs = HoldFour(&session, absl::ZeroDuration());
    absl::SleepFor(absl::Milliseconds(500));  // until the threads count as held
    const absl::Time begin = absl::Now();
    for (const std::string& run : runs) CancelRun(api(), run);
    all_end(runs, v1::Run::CANCELLED);
    EXPECT_LT(absl::Now() - begin, kSoon);
    DeleteSession(api(), session);
  }
  {
    SCOPED_TRACE("a timeout");
    const absl::Time begin = absl::Now();
    const std::vector<std::string> runs = HoldFour(&session, absl::Seconds(1));
    EXPECT_GE(runs.size(), 2u);
    all_end(runs, v1::Run::FAILED);
    EXPECT_LT(absl::Now() - begin, absl::Seconds(1) + 2 * kSoon);
    DeleteSession(api(), session);
  }
  {
    SCOPED_TRACE("ResetChip");
    const std::vector<std::string> runs = HoldFour(&session, absl::ZeroDuration());
    const absl::Time begin = absl::Now();
    v1::ResetChipRequest reset;
    reset.set_name("chips/0");
    reset.set_force(true);
    EXPECT_THAT(Call(*api().node, &v1::NodeService::Stub::ResetChip, reset), IsOk());
    all_end(runs, v1::Run::FAILED);
    EXPECT_LT(absl::Now() - begin, kSoon);
    DeleteSession(api(), session);
  }
  {
    SCOPED_TRACE("DeleteSession");
    HoldFour(&session, absl::ZeroDuration());
    const absl::Time begin = absl::Now();
    DeleteSession(api(), session);
    EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).busy_cores() == 0; }));
    EXPECT_LT(absl::Now() - begin, kSoon);
  }
  EXPECT_LT(other.Stop(), kSoon);
  EXPECT_GT(other.runs(), 10);
  EXPECT_TRUE(daemon_->IsServing("pto.v1.RunService"));
  EXPECT_TRUE(Eventually([&] { return GetNode(api()).spare_thread_count() == 0; }));
}

TEST_F(StuckKernelsTest, TwoTasksOfAnHourLeaveTheOtherChipsToOthers) {
  Start({"--executor-threads=2"});
  const std::string session = MakeSession(api());
  std::vector<std::string> runs;
  for (int i = 0; i < 2; ++i) runs.push_back(Submit(api(), session, Spin(kHour)).name());
  for (const std::string& run : runs) WaitUntilRunning(api(), run);
  // Of another session on another chip, on the same chip, and of the same session elsewhere.
  for (const uint32_t chip : {3u, 0u}) {
    Other other(api(), chip);
    EXPECT_TRUE(Eventually([&] { return other.runs() >= 20; })) << chip;
    EXPECT_LT(other.Stop(), kSoon) << chip;
  }
  const absl::Time begin = absl::Now();
  const v1::Run own = Submit(api(), session, Spin(absl::ZeroDuration(), 3));
  EXPECT_EQ(WaitForRun(api(), own.name()).state(), v1::Run::SUCCEEDED);
  EXPECT_LT(absl::Now() - begin, kSoon);
  EXPECT_GT(GetNode(api()).spare_thread_count(), 0);
  for (const std::string& run : runs) CancelRun(api(), run);
  EXPECT_TRUE(Eventually([&] { return GetNode(api()).spare_thread_count() == 0; }));
}

TEST_F(StuckKernelsTest, ACallOfAKernelHasADefaultLimit) {
  Start({"--executor-threads=2", "--default-task-timeout=500ms"});
  const std::string session = MakeSession(api());
  v1::SubmitRunRequest patient = SubmitRequest(session, Spin(kHour));
  patient.mutable_options()->mutable_task_timeout()->set_seconds(7200);
  const v1::Run stays = Call(*api().run, &v1::RunService::Stub::SubmitRun, patient).value();
  const v1::Run run = Submit(api(), session, Spin(kHour));
  const v1::Run ended = WaitForRun(api(), run.name());
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_NE(ended.error().message().find("has held a thread for 500ms"), std::string::npos)
      << ended.error().message();
  EXPECT_EQ(GetRun(api(), stays.name()).state(), v1::Run::RUNNING);
  CancelRun(api(), stays.name());
}

TEST_F(StuckKernelsTest, WithoutASpareThreadRunsAreRefusedUntilAKernelReturns) {
  Start({"--executor-threads=1", "--max-spare-threads=1"});
  std::vector<std::string> sessions;
  std::vector<std::string> runs;
  for (uint32_t chip = 0; chip < 3; ++chip) {
    sessions.push_back(MakeSession(api()));
    runs.push_back(Submit(api(), sessions[chip], Spin(kHour, chip)).name());
    if (chip < 2) WaitUntilRunning(api(), runs[chip]);
  }
  EXPECT_TRUE(Eventually([&] { return !daemon_->IsServing("pto.v1.RunService"); }));
  EXPECT_TRUE(daemon_->IsServing(""));
  EXPECT_TRUE(GetNode(api()).threads_stuck());
  EXPECT_EQ(GetNode(api()).held_thread_count(), 2);
  const absl::Status refused =
      Call(*api().run, &v1::RunService::Stub::SubmitRun, SubmitRequest(sessions[2], Noops(1)))
          .status();
  EXPECT_THAT(refused, HasReason(reason::kExecutorsStuck));
  EXPECT_NE(refused.message().find("kernels hold all 2 threads"), absl::string_view::npos)
      << refused;
  CancelRun(api(), runs[0]);
  EXPECT_TRUE(Eventually([&] { return daemon_->IsServing("pto.v1.RunService"); }));
  EXPECT_TRUE(Eventually([&] { return GetRun(api(), runs[2]).state() == v1::Run::RUNNING; }));
  for (const std::string& run : runs) CancelRun(api(), run);
}

TEST_F(StuckKernelsTest, ATaskThatCannotEndInTimeIsRefused) {
  Start({"--executor-threads=2"});
  const std::string session = MakeSession(api());
  for (const char* const buffer : {"zero", "product"}) MakeBuffer(api(), session, buffer, kBytes);
  v1::SubmitRunRequest request = SubmitRequest(session, Matmul());
  request.mutable_options()->mutable_timeout()->set_nanos(100'000'000);
  const absl::Status refused = Call(*api().run, &v1::RunService::Stub::SubmitRun, request).status();
  EXPECT_THAT(refused, HasReason(reason::kTaskTooLong));
  EXPECT_NE(refused.message().find("matmul would take at least 1m27s, and the run has 100ms"),
            absl::string_view::npos)
      << refused;
  // A launch too, and only with such a limit.
  v1::RegisterGraphRequest graph;
  graph.set_parent(session);
  graph.set_graph_id("g");
  *graph.mutable_graph() = Matmul();
  ASSERT_THAT(Call(*api().run, &v1::RunService::Stub::RegisterGraph, graph), IsOk());
  v1::LaunchGraphRequest launch;
  launch.set_graph(session + "/graphs/g");
  launch.mutable_options()->mutable_task_timeout()->set_nanos(100'000'000);
  EXPECT_THAT(Call(*api().run, &v1::RunService::Stub::LaunchGraph, launch),
              HasReason(reason::kTaskTooLong));
  launch.clear_options();
  const absl::StatusOr<v1::Run> run = Call(*api().run, &v1::RunService::Stub::LaunchGraph, launch);
  ASSERT_THAT(run, IsOk());
  CancelRun(api(), run->name());
}

TEST_F(StuckKernelsTest, CompilingHasATimeLimit) {
  Start({"--compile-timeout=1ms"});
  const std::string session = MakeSession(api());
  const v1::GraphSpec large = Noops(300'000);
  const absl::Status refused =
      Call(*api().run, &v1::RunService::Stub::SubmitRun, SubmitRequest(session, large)).status();
  EXPECT_THAT(refused, HasReason(reason::kGraphTooLarge));
  EXPECT_NE(refused.message().find("took longer than 1ms"), absl::string_view::npos) << refused;
  v1::RegisterGraphRequest graph;
  graph.set_parent(session);
  graph.set_graph_id("g");
  *graph.mutable_graph() = large;
  EXPECT_THAT(Call(*api().run, &v1::RunService::Stub::RegisterGraph, graph),
              HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(WaitForRun(api(), Submit(api(), session, Noops(10)).name()).state(),
            v1::Run::SUCCEEDED);
}

}  // namespace
}  // namespace pto::testing
