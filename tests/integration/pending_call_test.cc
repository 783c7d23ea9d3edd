// A pending call keeps its session alive, however short the lease is; a client that has gone does
// not.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using Stub = v1::RunService::Stub;
using ::testing::AnyOf;
using ::testing::Eq;

// Short enough to wait for, and longer than a busy machine needs between two calls.
constexpr absl::Duration kTtl = absl::Seconds(2);
// How long calls are pending: more than twice the lease.
constexpr absl::Duration kWait = absl::Seconds(5);

// One task that waits forever, without a core, for a signal in buffer `word`.
v1::GraphSpec Endless() {
  v1::GraphSpec graph;
  v1::TensorSpec& tensor = *graph.add_tensors();
  tensor.set_name("word");
  tensor.set_dtype(v1::I64);
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel("wait");
  task.set_chip("chips/0");
  task.add_args("word");
  for (const int64_t scalar : {int64_t{PTO_GE}, int64_t{1}, int64_t{0}}) {
    task.add_scalars()->set_i64(scalar);
  }
  return graph;
}

class PendingCallTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }

  // With a short lease and the buffer that Endless needs.
  std::string ShortSession() {
    const std::string session = MakeSession(api(), kTtl);
    MakeBuffer(api(), session, "word", 64);
    return session;
  }
  std::string Register(const std::string& session, v1::GraphSpec graph) {
    v1::RegisterGraphRequest request;
    request.set_parent(session);
    request.set_graph_id("g");
    *request.mutable_graph() = std::move(graph);
    const auto registered = Call(*api().run, &Stub::RegisterGraph, request);
    EXPECT_THAT(registered, IsOk());
    return registered.ok() ? registered->name() : "";
  }

  // Calls that wait for a run.
  using Wait = std::function<grpc::Status(grpc::ClientContext*, absl::Duration, v1::Run*)>;
  Wait WaitRun(const std::string& session) {
    v1::WaitRunRequest request;
    request.set_name(Submit(api(), session, Endless()).name());
    return [this, request](grpc::ClientContext* context, absl::Duration wait, v1::Run* run) {
      v1::WaitRunRequest timed = request;
      timed.mutable_timeout()->set_seconds(absl::ToInt64Seconds(wait));
      return api().run->WaitRun(context, timed, run);
    };
  }
  Wait SubmitRun(const std::string& session) {
    const v1::SubmitRunRequest request = SubmitRequest(session, Endless());
    return [this, request](grpc::ClientContext* context, absl::Duration wait, v1::Run* run) {
      v1::SubmitRunRequest timed = request;
      timed.mutable_wait()->set_seconds(absl::ToInt64Seconds(wait));
      return api().run->SubmitRun(context, timed, run);
    };
  }
  Wait LaunchGraph(const std::string& session) {
    v1::LaunchGraphRequest request;
    request.set_graph(Register(session, Endless()));
    return [this, request](grpc::ClientContext* context, absl::Duration wait, v1::Run* run) {
      v1::LaunchGraphRequest timed = request;
      timed.mutable_wait()->set_seconds(absl::ToInt64Seconds(wait));
      return api().run->LaunchGraph(context, timed, run);
    };
  }

  absl::Time ExpireTime(const std::string& session) {
    v1::GetSessionRequest request;
    request.set_name(session);
    const auto found = Call(*api().session, &v1::SessionService::Stub::GetSession, request);
    if (!found.ok()) return absl::InfinitePast();
    return absl::FromUnixSeconds(found->expire_time().seconds()) +
           absl::Nanoseconds(found->expire_time().nanos());
  }
  // Whether a call is pending: then the reported lease is as if the call ended now.
  bool IsHeld(const std::string& session) {
    const absl::Time now = absl::Now();
    return ExpireTime(session) >= now + kTtl;
  }

  DaemonProcess daemon_{{"--sim-chips=1", "--session-min-ttl=10ms", "--drain-grace=0s"}};
};

TEST_F(PendingCallTest, KeepsItsSessionForAsLongAsItTakes) {
  const auto deadline = absl::ToChronoTime(absl::Now() + kCallTimeout);
  // Streams that are idle for a while.
  const std::string writes = ShortSession();
  grpc::ClientContext write_context;
  write_context.set_deadline(deadline);
  v1::WriteBufferResponse written;
  const auto writer = api().buffer->WriteBuffer(&write_context, &written);
  v1::WriteBufferRequest chunk;
  chunk.set_name(absl::StrCat(writes, "/buffers/word"));
  chunk.set_data("12345678");
  ASSERT_TRUE(writer->Write(chunk));

  const std::string reads = ShortSession();
  constexpr uint64_t kLarge = uint64_t{64} << 20;  // more than a connection buffers
  MakeBuffer(api(), reads, "large", kLarge);
  grpc::ClientContext read_context;
  read_context.set_deadline(deadline);
  v1::ReadBufferRequest read;
  read.set_name(absl::StrCat(reads, "/buffers/large"));
  const auto reader = api().buffer->ReadBuffer(&read_context, read);
  v1::ReadBufferResponse part;
  ASSERT_TRUE(reader->Read(&part));
  uint64_t bytes = part.data().size();

  const std::string packs = ShortSession();
  grpc::ClientContext packed_context;
  packed_context.set_deadline(deadline);
  v1::Run packed;
  const auto packer = api().run->SubmitPackedRun(&packed_context, &packed);
  ASSERT_TRUE(packer->Write(Proto<v1::PackedGraphPart>(
      absl::StrCat("header { parent: '", packs, "' kernels: 'noop' chips: 'chips/0' }"))));

  const std::string streams = ShortSession();
  grpc::ClientContext stream_context;
  stream_context.set_deadline(deadline);
  v1::Run streamed;
  const auto stream = api().run->StreamRun(&stream_context, &streamed);
  ASSERT_TRUE(stream->Write(
      Proto<v1::StreamRunRequest>(absl::StrCat("header { parent: '", streams, "' run_id: 'r' }"))));

  // Launches in two sessions on one stream.
  const std::vector<std::string> launches = {ShortSession(), ShortSession()};
  grpc::ClientContext launch_context;
  launch_context.set_deadline(deadline);
  const auto launcher = api().run->LaunchStream(&launch_context);
  std::vector<v1::LaunchStreamRequest> launch(launches.size());
  v1::LaunchCompletion completion;
  for (size_t i = 0; i < launches.size(); ++i) {
    launch[i].mutable_launch()->set_graph(Register(launches[i], Noops(1)));
    ASSERT_TRUE(launcher->Write(launch[i]));
    ASSERT_TRUE(launcher->Read(&completion));
    EXPECT_FALSE(completion.has_error()) << completion.DebugString();
  }

  // Meanwhile these calls wait for a run that does not end.
  const std::vector<std::string> waits = {ShortSession(), ShortSession(), ShortSession()};
  const std::vector<Wait> calls = {WaitRun(waits[0]), SubmitRun(waits[1]), LaunchGraph(waits[2])};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      const absl::Time begin = absl::Now();
      grpc::ClientContext context;
      context.set_deadline(deadline);
      v1::Run run;
      const grpc::Status status = calls[i](&context, kWait, &run);
      EXPECT_THAT(FromGrpcStatus(status), IsOk()) << i;
      EXPECT_THAT(run.state(), AnyOf(Eq(v1::Run::QUEUED), Eq(v1::Run::RUNNING)))
          << i << ": " << run.DebugString();
      // The full time to live counts from the answer, which came at this time or later.
      EXPECT_GE(ExpireTime(waits[i]), begin + kWait + kTtl - absl::Milliseconds(100)) << i;
    });
  }
  for (const std::string& session : waits) {
    EXPECT_TRUE(Eventually([&] { return IsHeld(session); })) << session;
  }
  for (std::thread& thread : threads) thread.join();

  // All streams can continue.
  ASSERT_TRUE(writer->Write(chunk));
  writer->WritesDone();
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), IsOk());
  EXPECT_EQ(written.written_bytes(), 16u);
  while (reader->Read(&part)) bytes += part.data().size();
  EXPECT_THAT(FromGrpcStatus(reader->Finish()), IsOk());
  EXPECT_EQ(bytes, kLarge);
  packer->Write(Proto<v1::PackedGraphPart>("tasks { kernel: 0 }"));
  packer->Write(Proto<v1::PackedGraphPart>("commit { task_count: 1 }"));
  packer->WritesDone();
  EXPECT_THAT(FromGrpcStatus(packer->Finish()), IsOk());
  stream->Write(Proto<v1::StreamRunRequest>("commit { task_count: 0 }"));
  stream->WritesDone();
  EXPECT_THAT(FromGrpcStatus(stream->Finish()), IsOk());
  EXPECT_EQ(streamed.state(), v1::Run::SUCCEEDED);
  for (const v1::LaunchStreamRequest& again : launch) {
    ASSERT_TRUE(launcher->Write(again));
    ASSERT_TRUE(launcher->Read(&completion));
    EXPECT_FALSE(completion.has_error()) << completion.DebugString();
  }
  launcher->WritesDone();
  EXPECT_FALSE(launcher->Read(&completion));
  EXPECT_THAT(FromGrpcStatus(launcher->Finish()), IsOk());
}

TEST_F(PendingCallTest, AClientThatGoesAwayLeavesItsSessionToTheTimeToLive) {
  const std::vector<std::string> sessions = {ShortSession(), ShortSession(), ShortSession()};
  const std::vector<Wait> calls = {WaitRun(sessions[0]), SubmitRun(sessions[1]),
                                   LaunchGraph(sessions[2])};
  std::vector<grpc::ClientContext> contexts(calls.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      v1::Run run;
      EXPECT_EQ(calls[i](&contexts[i], absl::Hours(1), &run).error_code(),
                grpc::StatusCode::CANCELLED);
    });
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(Eventually([&] { return IsHeld(sessions[i]); })) << i;
    contexts[i].TryCancel();
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& session : sessions) {
    EXPECT_TRUE(Eventually([&] { return !SessionLives(api(), session); })) << session;
  }
  EXPECT_TRUE(Eventually([&] { return GetNode(api()).active_run_count() == 0; }));
  // An ended session first disappears, and then frees its resources.
  EXPECT_TRUE(Eventually([&] { return GetChip(api(), 0).memory_used_bytes() == 0; }));
}

}  // namespace
}  // namespace pto::testing
