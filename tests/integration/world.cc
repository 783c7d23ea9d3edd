#include "tests/integration/world.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {

std::string UniqueId(absl::string_view prefix) {
  static std::atomic<uint64_t> next{1};
  return absl::StrCat(prefix, "-", next++);
}

std::string MakeSession(Api& api, absl::Duration ttl) {
  v1::CreateSessionRequest request;
  request.set_session_id(UniqueId("test"));
  request.mutable_ttl()->set_seconds(absl::ToInt64Seconds(ttl));
  request.mutable_ttl()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(ttl % absl::Seconds(1))));
  const auto session = Call(*api.session, &v1::SessionService::Stub::CreateSession, request);
  EXPECT_THAT(session, IsOk());
  return session.ok() ? session->name() : "";
}

void DeleteSession(Api& api, const std::string& session) {
  v1::DeleteSessionRequest request;
  request.set_name(session);
  EXPECT_THAT(Call(*api.session, &v1::SessionService::Stub::DeleteSession, request), IsOk());
}

bool SessionLives(Api& api, const std::string& session) {
  v1::GetSessionRequest request;
  request.set_name(session);
  return Call(*api.session, &v1::SessionService::Stub::GetSession, request).ok();
}

void MakeBuffer(Api& api, const std::string& session, const std::string& id, uint64_t bytes,
                uint32_t chip) {
  v1::CreateBuffersRequest request;
  request.set_parent(session);
  v1::BufferSpec& spec = *request.add_buffers();
  spec.set_buffer_id(id);
  spec.set_chip(absl::StrCat("chips/", chip));
  spec.set_bytes(bytes);
  EXPECT_THAT(Call(*api.buffer, &v1::BufferService::Stub::CreateBuffers, request), IsOk());
}

v1::GraphSpec Noops(int count) {
  v1::GraphSpec graph;
  for (int i = 0; i < count; ++i) {
    v1::TaskSpec& task = *graph.add_tasks();
    task.set_kernel("noop");
    task.set_chip("chips/0");
  }
  return graph;
}

v1::GraphSpec Chain(int count) {
  v1::GraphSpec graph = Noops(count);
  for (int i = 1; i < count; ++i) graph.mutable_tasks(i)->add_after(absl::StrCat(i - 1));
  return graph;
}

v1::GraphSpec Spin(absl::Duration time, uint32_t chip) {
  v1::GraphSpec graph;
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel("spin");
  task.set_chip(absl::StrCat("chips/", chip));
  task.add_scalars()->set_i64(absl::ToInt64Microseconds(time));
  return graph;
}

v1::GraphSpec Fill(int count, double value) {
  v1::GraphSpec graph;
  v1::TensorSpec& tensor = *graph.add_tensors();
  tensor.set_name("out");
  tensor.set_dtype(v1::F32);
  tensor.add_shape(count);
  v1::ScalarSpec& scalar = *graph.add_scalars();
  scalar.set_name("value");
  scalar.mutable_value()->set_f64(value);
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel("fill");
  task.set_chip("chips/0");
  task.add_args("out");
  task.add_scalars()->set_ref("value");
  return graph;
}

v1::SubmitRunRequest SubmitRequest(const std::string& session, v1::GraphSpec graph,
                                   const std::string& run_id) {
  v1::SubmitRunRequest request;
  request.set_parent(session);
  request.set_run_id(run_id);
  *request.mutable_graph() = std::move(graph);
  return request;
}

v1::Run Submit(Api& api, const std::string& session, v1::GraphSpec graph,
               const std::string& run_id) {
  const auto run = Call(*api.run, &v1::RunService::Stub::SubmitRun,
                        SubmitRequest(session, std::move(graph), run_id));
  EXPECT_THAT(run, IsOk());
  return run.ok() ? *run : v1::Run();
}

v1::Run WaitForRun(Api& api, const std::string& run) {
  v1::WaitRunRequest request;
  request.set_name(run);
  request.mutable_timeout()->set_seconds(50);
  const auto ended = Call(*api.run, &v1::RunService::Stub::WaitRun, request);
  EXPECT_THAT(ended, IsOk());
  return ended.ok() ? *ended : v1::Run();
}

v1::Run GetRun(Api& api, const std::string& run) {
  v1::GetRunRequest request;
  request.set_name(run);
  const auto now = Call(*api.run, &v1::RunService::Stub::GetRun, request);
  EXPECT_THAT(now, IsOk());
  return now.ok() ? *now : v1::Run();
}

void CancelRun(Api& api, const std::string& run) {
  v1::CancelRunRequest request;
  request.set_name(run);
  EXPECT_THAT(Call(*api.run, &v1::RunService::Stub::CancelRun, request), IsOk());
}

void WaitUntilRunning(Api& api, const std::string& run) {
  v1::GetRunRequest request;
  request.set_name(run);
  const auto started = [&] {
    const auto now = Call(*api.run, &v1::RunService::Stub::GetRun, request);
    // It is not known whether an open run's stream has begun until its header has arrived.
    if (!now.ok()) return false;
    return now->state() != v1::Run::QUEUED;
  };
  EXPECT_TRUE(Eventually(started)) << run << " does not start";
}

v1::Node GetNode(Api& api) {
  const auto node = Call(*api.node, &v1::NodeService::Stub::GetNode, {});
  EXPECT_THAT(node, IsOk());
  return node.ok() ? *node : v1::Node();
}

v1::Chip GetChip(Api& api, uint32_t index) {
  v1::GetChipRequest request;
  request.set_name(absl::StrCat("chips/", index));
  const auto chip = Call(*api.node, &v1::NodeService::Stub::GetChip, request);
  EXPECT_THAT(chip, IsOk());
  return chip.ok() ? *chip : v1::Chip();
}

}  // namespace pto::testing
