// Open runs through a real daemon: the client library, raw streams, and a killed client.

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"
#include "tests/integration/lifecycle.h"

namespace pto::testing {
namespace {

using Stub = v1::RunService::Stub;

constexpr int kCount = 16;  // floats of each tensor
constexpr uint64_t kBudget = 1000;

class OpenRunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_ = new DaemonProcess({"--sim-chips=2", "--session-min-ttl=10ms",
                                 absl::StrCat("--max-session-live-tasks=", kBudget)});
  }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  OpenRunTest()
      : client_(*Client::Connect(daemon_->address())), session_(*client_.CreateSession()) {
    signal_ = std::make_unique<Buffer>(*session_.CreateBuffer("signal", 0, 64));
  }

  static DaemonProcess& daemon() { return *daemon_; }
  static Api& api() { return daemon_->api(); }

  OpenRun Begin(const RunOptions& options = {}) { return *session_.BeginOpenRun(options); }
  static TensorRef Floats(OpenRun& run, const Tensor<float>& tensor) {
    return run.graph().Tensor(tensor);
  }
  TensorRef SignalIn(GraphBuilder& graph) { return graph.Tensor("signal", *signal_, v1::I64, {}); }
  // Ends the tasks' wait for the signal.
  void SendSignal() {
    GraphBuilder graph;
    graph.Notify(SignalIn(graph), 1);
    const auto run = session_.Submit(graph, {.wait = absl::Seconds(50)});
    ASSERT_THAT(run, IsOk());
    ASSERT_EQ(run->snapshot().state(), v1::Run::SUCCEEDED);
  }
  // False if the daemon does not know the run's stream yet.
  bool HasDone(const OpenRun& run, uint64_t tasks) {
    const absl::StatusOr<v1::Run> now = session_.GetRun(run.name()).Get();
    return now.ok() && now->tasks_done() == tasks;
  }
  uint32_t InUse(const Buffer& buffer) {
    v1::GetBufferRequest request;
    request.set_name(buffer.name());
    return Call(*api().buffer, &v1::BufferService::Stub::GetBuffer, request)->in_use();
  }

  // ---- without the client library
  struct RawStream {
    grpc::ClientContext context;
    v1::Run response;
    std::unique_ptr<grpc::ClientWriter<v1::StreamRunRequest>> writer;
    std::string run;

    bool Send(const std::string& part) { return writer->Write(Proto<v1::StreamRunRequest>(part)); }
    absl::StatusOr<v1::Run> End() {
      writer->WritesDone();
      const grpc::Status status = writer->Finish();
      if (!status.ok()) return FromGrpcStatus(status);
      return response;
    }
  };
  std::unique_ptr<RawStream> Open(const std::string& header = "") {
    auto stream = std::make_unique<RawStream>();
    stream->context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    stream->writer = api().run->StreamRun(&stream->context, &stream->response);
    const std::string id = UniqueId("raw");
    stream->run = absl::StrCat(session_.name(), "/runs/", id);
    EXPECT_TRUE(stream->Send(
        absl::StrCat("header { parent: '", session_.name(), "' run_id: '", id, "' ", header, "}")));
    return stream;
  }

  Client client_;
  Session session_;
  std::unique_ptr<Buffer> signal_;

 private:
  inline static DaemonProcess* daemon_ = nullptr;
};

TEST_F(OpenRunTest, DependenciesReachOverBlocks) {
  auto one = *session_.CreateTensor<float>(0, {kCount});
  auto sum = *session_.CreateTensor<float>(0, {kCount});
  OpenRun run = Begin({.labels = {{"kind", "open"}}});
  const TensorRef x = Floats(run, one);
  run.graph().Task("fill", 0, {x}).Scalar(1.0);
  ASSERT_THAT(run.Flush(), IsOk());
  // Tensors, kernels and buffers are sent when they are needed.
  const TensorRef y = Floats(run, sum);
  for (int i = 0; i < 100; ++i) {
    run.graph().Task("axpy", 0, {x, y}).Scalar(1.0).Blocks(1 + i % 3);
    if (i % 7 == 0) {
      ASSERT_THAT(run.Flush(), IsOk());
    }
  }
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), IsOk());
  EXPECT_EQ(ended->name(), run.name());
  EXPECT_EQ(ended->tasks_total(), 101u);
  EXPECT_EQ(ended->tasks_done(), 101u);
  EXPECT_FALSE(ended->open());
  EXPECT_EQ(ended->labels().at("kind"), "open");
  EXPECT_GT(ended->run_ns(), 0);
  EXPECT_EQ(*sum.Read(), std::vector<float>(kCount, 100.0f));
  EXPECT_EQ(InUse(sum.buffer()), 0u);
  EXPECT_EQ(session_.GetRun(run.name()).Get()->state(), v1::Run::SUCCEEDED);
}

TEST_F(OpenRunTest, ATaskWaitsForThoseThatItNames) {
  OpenRun run = Begin({.event_level = v1::TASK_ENDED});
  const TensorRef signal = SignalIn(run.graph());
  const TaskRef first = run.graph().WaitFor(signal, v1::GE, 1);
  ASSERT_THAT(run.Flush(), IsOk());
  run.graph().Task("noop", 0, {}).After(first);
  run.graph().Task("noop", 0, {});
  ASSERT_THAT(run.Flush(), IsOk());
  // The last task waits for nothing.
  const pto::Run handle = session_.GetRun(run.name());
  ASSERT_TRUE(Eventually([&] { return HasDone(run, 1); }));
  const v1::Run now = *handle.Get();
  EXPECT_EQ(now.state(), v1::Run::RUNNING);
  EXPECT_TRUE(now.open());
  EXPECT_EQ(now.tasks_total(), 3u);
  SendSignal();
  ASSERT_TRUE(Eventually([&] { return HasDone(run, 3); }));
  // A dependency on an ended task is no reason to wait.
  run.graph().Task("noop", 0, {}).After(first);
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->tasks_done(), 4u);
}

TEST_F(OpenRunTest, EventsTellOfEveryTask) {
  OpenRun run = Begin();
  EventStream events = *session_.GetRun(run.name()).Events();
  for (int i = 0; i < 5000; ++i) {
    run.graph().Task("noop", 0, {});
    if (i % 10 == 9) {
      ASSERT_THAT(run.Flush(), IsOk());
    }
  }
  ASSERT_THAT(run.Finish(), IsOk());
  std::vector<bool> seen(5000);
  std::vector<v1::Run::State> states;
  uint64_t batches = 0;
  while (true) {
    const auto batch = events.Next();
    ASSERT_THAT(batch, IsOk());
    if (!batch->has_value()) break;
    for (const v1::Event& event : (*batch)->events()) {
      if (event.has_run()) states.push_back(event.run().state());
      if (!event.has_tasks()) continue;
      ++batches;
      for (const uint32_t task : event.tasks().task()) {
        ASSERT_LT(task, seen.size());
        EXPECT_FALSE(seen[task]);
        seen[task] = true;
      }
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 5000);
  EXPECT_LT(batches, 2500u);  // not one per task
  EXPECT_EQ(states,
            (std::vector<v1::Run::State>{v1::Run::QUEUED, v1::Run::RUNNING, v1::Run::SUCCEEDED}));
}

TEST_F(OpenRunTest, AFailureReachesLaterBlocksAndNothingElse) {
  auto data = *session_.CreateTensor<float>(0, {kCount});
  auto other = *session_.CreateTensor<float>(0, {kCount});
  OpenRun run = Begin();
  const TensorRef x = Floats(run, data), y = Floats(run, other);
  TaskRef bad = run.graph().Task("fail", 0, {}).Scalar(int64_t{1});
  ASSERT_THAT(run.Flush(), IsOk());
  run.graph().Task("fill", 0, {x}).Scalar(1.0).After(bad);
  run.graph().Task("fill", 0, {y}).Scalar(2.0);
  ASSERT_THAT(run.Flush(), IsOk());
  ASSERT_TRUE(Eventually([&] { return HasDone(run, 1); }));
  run.graph().Task("scale", 0, {x, x}).Scalar(1.0);  // arrives when everything has ended
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::FAILED);
  EXPECT_THAT(StatusOf(*ended), HasReason(reason::kKernelFailed));
  EXPECT_EQ(ended->tasks_failed(), 1u);
  EXPECT_EQ(ended->tasks_skipped(), 2u);
  EXPECT_EQ(*other.Read(), std::vector<float>(kCount, 2.0f));
}

TEST_F(OpenRunTest, ABadBlockEndsTheRunWithItsError) {
  const auto stream = Open();
  // A task that runs until it is stopped, then an invalid one.
  ASSERT_TRUE(stream->Send(R"(block {
      kernels: "wait" kernels: "noop" chips: "chips/0" buffers: "signal" layouts { dtype: I64 }
      tensors { buffer: 0 layout: 0 offset_delta: 0 }
      tasks { kernel: 0 arg_delta: 0 scalar: 4 scalar: 77 scalar: 0 } })"));
  WaitUntilRunning(api(), stream->run);
  EXPECT_EQ(InUse(*signal_), 1u);
  stream->Send(
      "block { tasks { first_task: 1 kernel: 1 kernel: 1 dep_count: 0 dep_count: 1 "
      "dep_back: 3 } }");
  const absl::StatusOr<v1::Run> ended = stream->End();
  ASSERT_THAT(ended, HasReason(reason::kBlockInvalid));
  const ErrorDetail detail = *GetErrorDetail(ended.status());
  EXPECT_EQ(detail.field, "blocks[1].tasks.dep_back[0]");
  EXPECT_THAT(detail.metadata, ::testing::Contains(::testing::Pair("block", "1")));
  EXPECT_THAT(detail.metadata, ::testing::Contains(::testing::Pair("task", "2")));
  const v1::Run run = GetRun(api(), stream->run);
  EXPECT_EQ(run.state(), v1::Run::FAILED);
  EXPECT_THAT(ErrorOf(run), HasReason(reason::kBlockInvalid));
  EXPECT_EQ(InUse(*signal_), 0u);
  // The id is used up.
  const auto again = Open();
  v1::StreamRunRequest header;
  header.mutable_header()->set_parent(session_.name());
  header.mutable_header()->set_run_id(run.name().substr(run.name().rfind('/') + 1));
  grpc::ClientContext context;
  v1::Run response;
  const auto writer = api().run->StreamRun(&context, &response);
  writer->Write(header);
  writer->WritesDone();
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), HasReason(reason::kRunIdUsed));
  again->context.TryCancel();
  (void)again->End();
}

TEST_F(OpenRunTest, WrongStreamsAreRefused) {
  const struct {
    std::vector<std::string> parts;
    const Reason& reason;
    std::string field;
  } cases[] = {
      {{}, reason::kStreamBroken, ""},
      {{"header { parent: 'sessions/x' run_id: 'y' }"}, reason::kStreamOrder, "header"},
      {{""}, reason::kFieldInvalid, "part"},
      {{"commit { task_count: 1 }"}, reason::kBlockInvalid, "commit.task_count"},
      {{"block { kernels: 'no-such' }"}, reason::kNameInvalid, "blocks[0].kernels[0]"},
      {{"block { buffers: 'no-such' }"}, reason::kBufferUnknown, "blocks[0].buffers[0]"},
      {{"block { buffers: 'signal' layouts { dtype: I64 shape: 9 } "
        "tensors { buffer: 0 layout: 0 offset_delta: 0 } }"},
       reason::kTensorOutOfBounds,
       "blocks[0].tensors.offset_delta[0]"},
  };
  for (const auto& wrong : cases) {
    const auto stream = Open();
    for (const std::string& part : wrong.parts) stream->Send(part);
    const absl::StatusOr<v1::Run> ended = stream->End();
    ASSERT_FALSE(ended.ok());
    const std::string what = wrong.parts.empty() ? "no commit" : wrong.parts[0];
    if (&wrong.reason != &reason::kNameInvalid) {
      EXPECT_THAT(ended, HasReason(wrong.reason)) << what;
    }
    EXPECT_EQ(GetErrorDetail(ended.status())->field, wrong.field) << what;
    EXPECT_TRUE(GetRun(api(), stream->run).has_end_time());
  }
  // Without a header there is no run.
  grpc::ClientContext context;
  v1::Run response;
  const auto writer = api().run->StreamRun(&context, &response);
  writer->Write(Proto<v1::StreamRunRequest>("commit {}"));
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), HasReason(reason::kStreamOrder));
}

TEST_F(OpenRunTest, ARunWithoutTasksSucceeds) {
  OpenRun run = Begin();
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
}

TEST_F(OpenRunTest, TheReplyNeedNotWaitForTheEnd) {
  const auto stream = Open("wait { seconds: 0 }");
  ASSERT_TRUE(stream->Send(R"(block {
      kernels: "wait" chips: "chips/0" buffers: "signal" layouts { dtype: I64 }
      tensors { buffer: 0 layout: 0 offset_delta: 0 }
      tasks { kernel: 0 arg_delta: 0 scalar: 4 scalar: 1 scalar: 0 } })"));
  ASSERT_TRUE(stream->Send("commit { task_count: 1 }"));
  const absl::StatusOr<v1::Run> now = stream->End();
  ASSERT_THAT(now, IsOk());
  EXPECT_NE(now->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(now->tasks_total(), 1u);
  SendSignal();
  EXPECT_EQ(WaitForRun(api(), stream->run).state(), v1::Run::SUCCEEDED);
}

TEST_F(OpenRunTest, CancelEndsTheRunAndTheStream) {
  OpenRun run = Begin();
  run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 77);
  ASSERT_THAT(run.Flush(), IsOk());
  WaitUntilRunning(api(), run.name());
  ASSERT_THAT(session_.GetRun(run.name()).Cancel("enough"), IsOk());
  // The client learns of it while it sends.
  absl::Status flushed;
  ASSERT_TRUE(Eventually([&] {
    run.graph().Task("noop", 0, {});
    flushed = run.Flush();
    return !flushed.ok();
  }));
  EXPECT_THAT(flushed, HasReason(reason::kRunCancelled));
  EXPECT_EQ(GetRun(api(), run.name()).state(), v1::Run::CANCELLED);
  EXPECT_EQ(InUse(*signal_), 0u);
}

TEST_F(OpenRunTest, AClientThatGoesTakesItsRunWithIt) {
  std::string name;
  {
    OpenRun run = Begin();
    name = run.name();
    run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 77);
    ASSERT_THAT(run.Flush(), IsOk());
    WaitUntilRunning(api(), name);
  }
  const v1::Run ended = WaitForRun(api(), name);
  EXPECT_EQ(ended.state(), v1::Run::CANCELLED);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kStreamBroken));
  EXPECT_EQ(InUse(*signal_), 0u);
}

TEST_F(OpenRunTest, AKilledClientTakesItsRunWithIt) {
  const std::string job = daemon().directory() + "/endless.txtpb";
  WriteFile(job, R"(buffers { name: "x" dtype: F32 shape: 16 }
                    graph { tasks { kernel: "fill" args: "x" scalars { f64: 1 } } })");
  auto ptoctl = std::make_unique<Process>(Process::Options{
      .command = {Runfile("client/ptoctl/ptoctl"), "runs", "stream", job, "--repeat", "4000000000"},
      .environment = {{"PTOD_ADDRESS", daemon().address()}},
      .out = daemon().directory() + "/out",
      .err = daemon().directory() + "/err"});
  const auto find = [&] {
    v1::ListRunsRequest request;
    request.set_parent("sessions/-");
    const v1::ListRunsResponse list = *Call(*api().run, &Stub::ListRuns, request);
    for (const v1::Run& run : list.runs()) {
      if (run.tasks_done() > 10'000 && run.open()) return run.name();
    }
    return std::string();
  };
  std::string name;
  ASSERT_TRUE(Eventually([&] { return !(name = find()).empty(); }))
      << ReadFile(daemon().directory() + "/err");
  ptoctl->Signal(SIGKILL);
  const v1::Run ended = WaitForRun(api(), name);
  EXPECT_EQ(ended.state(), v1::Run::CANCELLED);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kStreamBroken));
  const std::string session = name.substr(0, name.find("/runs/"));
  v1::GetBufferRequest request;
  request.set_name(session + "/buffers/x");
  EXPECT_EQ(Call(*api().buffer, &v1::BufferService::Stub::GetBuffer, request)->in_use(), 0u);
  DeleteSession(api(), session);
}

TEST_F(OpenRunTest, TooManyLiveTasksHoldTheClientBack) {
  OpenRun run = Begin({.event_level = v1::RUN_ONLY});
  const TaskRef gate = run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 1);
  absl::Status flushed;
  uint64_t resident = 0;
  const auto send = [&] {
    for (int i = 0; i < 20'000; ++i) run.graph().Task("noop", 0, {}).After(gate);
    flushed = run.Flush(absl::Seconds(2));
    if (resident == 0) resident = daemon().ResidentBytes();
  };
  for (int i = 0; i < 2000 && flushed.ok(); ++i) send();
  ASSERT_THAT(flushed, HasReason(reason::kClientTimeout));
  // At most one segment more than the budget.
  const v1::Run held = GetRun(api(), run.name());
  EXPECT_GE(held.tasks_total(), kBudget);
  EXPECT_LE(held.tasks_total(), kBudget + 4096);
  EXPECT_EQ(held.tasks_done(), 0u);
  EXPECT_LT(daemon().ResidentBytes(), resident + (64 << 20));
  std::cout << run.graph().task_count() << " tasks sent or waiting, " << held.tasks_total()
            << " taken; the daemon has " << (daemon().ResidentBytes() >> 20) << " MiB\n";
  // Another run of the session can still send its first tasks.
  OpenRun other = Begin();
  other.graph().Notify(SignalIn(other.graph()), 1);
  EXPECT_THAT(other.Finish(), IsOk());
  const absl::StatusOr<v1::Run> ended = run.Finish(absl::Seconds(100));
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), IsOk());
  EXPECT_EQ(ended->tasks_done(), run.graph().task_count());
}

TEST_F(OpenRunTest, DeadlinesEndIt) {
  OpenRun run = Begin({.timeout = absl::Milliseconds(300)});
  run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 77);
  ASSERT_THAT(run.Flush(), IsOk());
  absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::FAILED);
  EXPECT_THAT(StatusOf(*ended), HasReason(reason::kRunDeadline));

  OpenRun idle = Begin({.queue_timeout = absl::Milliseconds(200)});
  ASSERT_THAT(idle.Flush(), IsOk());
  ASSERT_THAT(idle.graph().status(), IsOk());
  // There is no notification that the header has arrived.
  ASSERT_TRUE(Eventually([&] { return session_.GetRun(idle.name()).Get().ok(); }));
  const v1::Run late = WaitForRun(api(), idle.name());
  EXPECT_EQ(late.state(), v1::Run::FAILED);
  EXPECT_THAT(ErrorOf(late), HasReason(reason::kQueueDeadline));
}

TEST_F(OpenRunTest, BlocksHaveTheirPlacesAmongRuns) {
  auto data = *session_.CreateTensor<float>(0, {kCount});
  OpenRun run = Begin();
  const TensorRef x = Floats(run, data);
  run.graph().Task("fill", 0, {x}).Scalar(1.0);
  TaskRef gate = run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 1);
  run.graph().Task("scale", 0, {x, x}).Scalar(2.0).After(gate);
  ASSERT_THAT(run.Flush(), IsOk());
  WaitUntilRunning(api(), run.name());
  // A run submitted now waits for that segment, and not for the run's end.
  GraphBuilder later;
  const TensorRef z = later.Tensor(data);
  later.Task("scale", 0, {z, z}).Scalar(5.0);
  const absl::StatusOr<pto::Run> between = session_.Submit(later);
  ASSERT_THAT(between, IsOk());
  // And a segment sent now waits for that run.
  run.graph().Task("axpy", 0, {x, x}).Scalar(1.0);
  ASSERT_THAT(run.Flush(), IsOk());
  EXPECT_EQ(between->Get()->state(), v1::Run::QUEUED);
  SendSignal();
  EXPECT_THAT(StatusOf(*between->Wait()), IsOk());
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), IsOk());
  EXPECT_EQ(*data.Read(), std::vector<float>(kCount, 1.0f * 2 * 5 * 2));
}

TEST_F(OpenRunTest, TheSessionsEndEndsIt) {
  OpenRun run = Begin();
  run.graph().WaitFor(SignalIn(run.graph()), v1::GE, 77);
  ASSERT_THAT(run.Flush(), IsOk());
  WaitUntilRunning(api(), run.name());
  DeleteSession(api(), session_.name());
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::CANCELLED);
}

TEST_F(OpenRunTest, ADaemonThatStopsEndsIt) {
  DaemonProcess other;
  Client client = *Client::Connect(other.address());
  Session session = *client.CreateSession();
  OpenRun run = *session.BeginOpenRun();
  run.graph().Task("noop", 0, {});
  ASSERT_THAT(run.Flush(), IsOk());
  ASSERT_TRUE(Eventually([&] {
    const auto now = session.GetRun(run.name()).Get();
    return now.ok() && now->tasks_done() == 1;
  }));
  other.Stop();
  // The answer may arrive before the connection is closed.
  const absl::StatusOr<v1::Run> ended = run.Finish(absl::Seconds(5));
  if (ended.ok()) {
    EXPECT_EQ(ended->state(), v1::Run::CANCELLED);
  }
}

}  // namespace
}  // namespace pto::testing
