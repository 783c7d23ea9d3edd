// Ten million tasks through one open run; the daemon's memory depends only on the tasks that have
// not ended. Without the client library: the segments are all alike, so this side costs little.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

// Unoptimised builds take about ten times as long per task.
#ifdef NDEBUG
constexpr uint64_t kTasks = 10'000'000;
#else
constexpr uint64_t kTasks = 1'000'000;
#endif
constexpr uint32_t kSegment = 4096;
constexpr uint32_t kCells = 64;
constexpr uint64_t kMaxGrowth = 64 << 20;

TEST(OpenRunLongTest, MemoryDoesNotGrowWithTheTasksThatHaveEnded) {
  DaemonProcess daemon({"--sim-chips=1", "--max-session-live-tasks=32768"});
  const std::string session = MakeSession(daemon.api());
  MakeBuffer(daemon.api(), session, "cells", kCells * sizeof(float));

  grpc::ClientContext context;
  v1::Run response;
  const auto writer = daemon.api().run->StreamRun(&context, &response);
  v1::StreamRunRequest request;
  request.mutable_header()->set_parent(session);
  request.mutable_header()->set_run_id("long");
  request.mutable_header()->mutable_options()->set_event_level(v1::TASK_FAILED);
  ASSERT_TRUE(writer->Write(request));

  // Fills one cell after the other: each task waits for the previous writer of its cell.
  v1::StreamRunBlock& lists = *request.mutable_block();
  lists.add_kernels("fill");
  lists.add_chips("chips/0");
  lists.add_buffers("cells");
  lists.add_layouts()->set_dtype(v1::F32);
  for (uint32_t i = 0; i < kCells; ++i) {
    lists.mutable_tensors()->add_buffer(0);
    lists.mutable_tensors()->add_layout(0);
    lists.mutable_tensors()->add_offset_delta(i == 0 ? 0 : 1);
  }
  ASSERT_TRUE(writer->Write(request));
  v1::TaskBlock& block = *request.mutable_block()->mutable_tasks();
  request.mutable_block()->clear_kernels();
  request.mutable_block()->clear_chips();
  request.mutable_block()->clear_buffers();
  request.mutable_block()->clear_layouts();
  request.mutable_block()->clear_tensors();
  for (uint32_t i = 0; i < kSegment; ++i) {
    block.add_kernel(0);
    block.add_arg_delta(i == 0 ? 0 : i % kCells == 0 ? 1 - int64_t{kCells} : 1);
    block.add_scalar(0x3ff0000000000000);
  }

  const absl::Time begun = absl::Now();
  uint64_t first = 0;  // resident bytes after the warm-up
  uint64_t most = 0;
  uint64_t sent = 0;
  while (sent + kSegment <= kTasks) {
    block.set_first_task(sent);
    ASSERT_TRUE(writer->Write(request));
    sent += kSegment;
    if (sent / kSegment % 8 != 0) continue;
    uint64_t& seen = sent < kTasks / 10 ? first : most;
    seen = std::max(seen, daemon.ResidentBytes());
  }
  request.mutable_commit()->set_task_count(sent);
  writer->Write(request);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(response.tasks_done(), sent);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begun);
  std::cout << absl::StrFormat(
      "%d tasks in %.1f s, %.2f M/s; resident %.1f MiB when warm, %.1f MiB at most\n", sent,
      seconds, static_cast<double>(sent) / seconds / 1e6, static_cast<double>(first) / (1 << 20),
      static_cast<double>(most) / (1 << 20));
  EXPECT_LT(most, first + kMaxGrowth);
}

}  // namespace
}  // namespace pto::testing
