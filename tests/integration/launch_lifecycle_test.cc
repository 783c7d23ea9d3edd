// Registered graphs, launch streams, large graphs, and a draining node.

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "proto/status/status_proto.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/lifecycle.h"

namespace pto::testing {
namespace {

using LaunchLifecycleTest = LifecycleTest;
using Stub = v1::RunService::Stub;

v1::RegisterGraphRequest Registration(const std::string& session, const std::string& id,
                                      v1::GraphSpec graph) {
  v1::RegisterGraphRequest request;
  request.set_parent(session);
  request.set_graph_id(id);
  *request.mutable_graph() = std::move(graph);
  return request;
}

TEST_F(LaunchLifecycleTest, ALaunchBindsBuffersAndScalars) {
  const auto request = Registration(session_, "fill", Fill(16, 2.0));
  const auto graph = Call(*api().run, &Stub::RegisterGraph, request);
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->task_count(), 1u);
  ASSERT_EQ(graph->slots_size(), 1);
  EXPECT_EQ(graph->slots(0).name(), "out");
  EXPECT_EQ(graph->slots(0).min_bytes(), 64u);
  ASSERT_EQ(graph->scalars_size(), 1);
  EXPECT_EQ(graph->scalars(0), "value");
  // There is no buffer with the slot's name yet.
  v1::LaunchGraphRequest launch;
  launch.set_graph(graph->name());
  launch.mutable_wait()->set_seconds(50);
  EXPECT_THAT(Call(*api().run, &Stub::LaunchGraph, launch), HasReason(reason::kBufferUnknown));

  MakeBuffer(api(), session_, "out", 64);
  MakeBuffer(api(), session_, "wide", 192);
  auto run = Call(*api().run, &Stub::LaunchGraph, launch);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(run->graph(), graph->name());
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "out")), std::vector<float>(16, 2.0f));

  v1::BufferBinding& binding = *launch.add_buffers();
  binding.set_slot("out");
  binding.set_buffer(Name("buffers", "wide"));
  binding.set_offset_bytes(64);
  v1::ScalarSpec& scalar = *launch.add_scalars();
  scalar.set_name("value");
  scalar.mutable_value()->set_i64(-7);
  run = Call(*api().run, &Stub::LaunchGraph, launch);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
  std::vector<float> expected(48, 0.0f);
  std::fill(expected.begin() + 16, expected.begin() + 32, -7.0f);
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "wide")), expected);
  // A binding applies to one launch.
  EXPECT_EQ(ReadFloats(api(), Name("buffers", "out")), std::vector<float>(16, 2.0f));
  const auto again = Call(*api().run, &Stub::RegisterGraph, request);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->launch_count(), 2u);
}

TEST_F(LaunchLifecycleTest, OneRunIdIsOneLaunch) {
  ASSERT_THAT(Call(*api().run, &Stub::RegisterGraph, Registration(session_, "g", Chain(10))),
              IsOk());
  const uint64_t before = GetChip(api(), 0).completed_tasks();
  v1::LaunchGraphRequest launch;
  launch.set_graph(Name("graphs", "g"));
  launch.set_run_id("once");
  launch.mutable_wait()->set_seconds(50);
  for (int i = 0; i < 3; ++i) {
    const auto run = Call(*api().run, &Stub::LaunchGraph, launch);
    ASSERT_THAT(run, IsOk());
    EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
  }
  EXPECT_EQ(GetChip(api(), 0).completed_tasks(), before + 10);
}

TEST_F(LaunchLifecycleTest, ADeletedGraphsRunsGoOn) {
  ASSERT_THAT(Call(*api().run, &Stub::RegisterGraph,
                   Registration(session_, "g", Spin(absl::Milliseconds(300)))),
              IsOk());
  v1::LaunchGraphRequest launch;
  launch.set_graph(Name("graphs", "g"));
  const auto run = Call(*api().run, &Stub::LaunchGraph, launch);
  ASSERT_THAT(run, IsOk());
  v1::DeleteGraphRequest remove;
  remove.set_name(Name("graphs", "g"));
  EXPECT_THAT(Call(*api().run, &Stub::DeleteGraph, remove), IsOk());
  EXPECT_THAT(Call(*api().run, &Stub::DeleteGraph, remove), HasReason(reason::kGraphUnknown));
  EXPECT_THAT(Call(*api().run, &Stub::LaunchGraph, launch), HasReason(reason::kGraphUnknown));
  EXPECT_EQ(WaitForRun(api(), run->name()).state(), v1::Run::SUCCEEDED);
}

TEST_F(LaunchLifecycleTest, AStreamAnswersEveryOneOfAThousandLaunches) {
  constexpr uint64_t kLaunches = 1000;
  constexpr uint64_t kRefused = 500;
  ASSERT_THAT(Call(*api().run, &Stub::RegisterGraph, Registration(session_, "g", Chain(3))),
              IsOk());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto stream = api().run->LaunchStream(&context);
  std::thread sender([&] {
    v1::LaunchStreamRequest request;
    for (uint64_t tag = 1; tag <= kLaunches; ++tag) {
      request.set_tag(tag);
      request.mutable_launch()->set_graph(Name("graphs", tag == kRefused ? "nope" : "g"));
      ASSERT_TRUE(stream->Write(request));
    }
    ASSERT_TRUE(stream->WritesDone());
  });
  std::set<uint64_t> tags;
  std::set<std::string> runs;
  v1::LaunchCompletion completion;
  while (stream->Read(&completion)) {
    EXPECT_TRUE(tags.insert(completion.tag()).second) << completion.tag();
    if (completion.tag() == kRefused) {
      EXPECT_THAT(StatusFromProto(completion.error()), HasReason(reason::kGraphUnknown));
      EXPECT_EQ(completion.run(), "");
      continue;
    }
    EXPECT_EQ(completion.state(), v1::Run::SUCCEEDED) << completion.ShortDebugString();
    EXPECT_TRUE(runs.insert(completion.run()).second) << completion.run();
  }
  sender.join();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(tags.size(), kLaunches);
  EXPECT_EQ(runs.size(), kLaunches - 1);
}

TEST_F(LaunchLifecycleTest, LaunchesGoOnWhenTheirStreamBreaks) {
  ASSERT_THAT(Call(*api().run, &Stub::RegisterGraph,
                   Registration(session_, "g", Spin(absl::Milliseconds(200)))),
              IsOk());
  {
    grpc::ClientContext context;
    const auto stream = api().run->LaunchStream(&context);
    v1::LaunchStreamRequest request;
    request.mutable_launch()->set_graph(Name("graphs", "g"));
    request.mutable_launch()->set_run_id("left");
    ASSERT_TRUE(stream->Write(request));
    request.mutable_launch()->set_graph(Name("graphs", "nope"));
    ASSERT_TRUE(stream->Write(request));
    v1::LaunchCompletion completion;
    ASSERT_TRUE(stream->Read(&completion));  // the second is refused: the first was accepted
    context.TryCancel();
    stream->Finish();
  }
  EXPECT_EQ(WaitForRun(api(), Name("runs", "left")).state(), v1::Run::SUCCEEDED);
}

TEST_F(LaunchLifecycleTest, AHundredThousandTasksInColumns) {
  constexpr uint32_t kTasks = kAddressSanitizer ? 30'000 : 100'000;
  absl::StatusOr<Client> client = Client::Connect(daemon().address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  const absl::StatusOr<Buffer> buffer = session->CreateBuffer("cells", 0, 64 * sizeof(float));
  ASSERT_THAT(buffer, IsOk());
  // Cell 0 is one; each other cell is a chain of additions of it.
  GraphBuilder graph;
  std::vector<TensorRef> cells;
  for (int i = 0; i < 64; ++i) {
    cells.push_back(graph.Tensor(absl::StrCat("c", i), *buffer, v1::F32, {1}, {}, i));
  }
  std::vector<TaskRef> last(64, graph.Task("fill", 0, {cells[0]}).Scalar(1.0));
  std::vector<float> expected(64, 0.0f);
  expected[0] = 1;
  for (uint32_t i = 1; i < kTasks; ++i) {
    const uint32_t cell = 1 + i % 63;
    last[cell] = graph.Task("axpy", 0, {cells[0], cells[cell]}).Scalar(1.0).After(last[cell]);
    ++expected[cell];
  }
  const absl::StatusOr<pto::Run> run = session->SubmitPacked(graph);
  ASSERT_THAT(run, IsOk());
  const absl::StatusOr<v1::Run> ended = run->Wait(absl::Seconds(100));
  ASSERT_THAT(ended, IsOk());
  EXPECT_THAT(StatusOf(*ended), IsOk());
  EXPECT_EQ(ended->tasks_total(), kTasks);
  EXPECT_EQ(ended->tasks_done(), kTasks);
  const absl::StatusOr<std::vector<float>> sums = buffer->Read<float>(64);
  ASSERT_THAT(sums, IsOk());
  EXPECT_EQ(*sums, expected);
}

TEST(DrainTest, ADrainingNodeFinishesWhatItHasAndTakesNothingNew) {
  DaemonProcess daemon;
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  ASSERT_THAT(Call(*api.run, &Stub::RegisterGraph, Registration(session, "g", Noops(1))), IsOk());
  const v1::Run shorter = Submit(api, session, Spin(absl::Milliseconds(500)), "shorter");
  const v1::Run longer = Submit(api, session, Spin(absl::Minutes(10)), "longer");
  WaitUntilRunning(api, longer.name());
  v1::DrainNodeRequest drain;
  drain.set_reason("maintenance");
  drain.mutable_grace()->set_seconds(3600);
  const auto begun = Call(*api.node, &v1::NodeService::Stub::DrainNode, drain);
  ASSERT_THAT(begun, IsOk());
  EXPECT_GE(begun->active_run_count(), 1u);

  const auto refused = Call(*api.run, &Stub::SubmitRun, SubmitRequest(session, Noops(1), "new"));
  EXPECT_THAT(refused, HasReason(reason::kNodeDraining));
  EXPECT_NE(std::string(refused.status().message()).find("maintenance"), std::string::npos);
  v1::LaunchGraphRequest launch;
  launch.set_graph(session + "/graphs/g");
  EXPECT_THAT(Call(*api.run, &Stub::LaunchGraph, launch), HasReason(reason::kNodeDraining));
  v1::CreateSessionRequest create;
  create.set_session_id("new");
  EXPECT_THAT(Call(*api.session, &v1::SessionService::Stub::CreateSession, create),
              HasReason(reason::kNodeDraining));
  EXPECT_FALSE(daemon.IsServing());
  EXPECT_FALSE(daemon.IsServing("pto.v1.RunService"));
  EXPECT_TRUE(daemon.IsServing("pto.v1.NodeService"));
  EXPECT_TRUE(GetNode(api).draining());
  EXPECT_EQ(GetChip(api, 0).state(), v1::Chip::DRAINING);

  // Active runs finish, except those that exceed the grace. A shorter grace counts.
  EXPECT_EQ(WaitForRun(api, shorter.name()).state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(GetRun(api, longer.name()).state(), v1::Run::RUNNING);
  drain.mutable_grace()->set_seconds(0);
  drain.mutable_grace()->set_nanos(1'000'000);
  EXPECT_THAT(Call(*api.node, &v1::NodeService::Stub::DrainNode, drain), IsOk());
  const v1::Run cancelled = WaitForRun(api, longer.name());
  EXPECT_EQ(cancelled.state(), v1::Run::CANCELLED);
  EXPECT_THAT(ErrorOf(cancelled), HasReason(reason::kRunCancelled));
  EXPECT_TRUE(Eventually([&] {
    const auto progress = Call(*api.node, &v1::NodeService::Stub::DrainNode, drain);
    return progress.ok() && progress->active_run_count() == 0;
  }));
}

}  // namespace
}  // namespace pto::testing
