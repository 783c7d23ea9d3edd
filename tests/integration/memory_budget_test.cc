// What clients can make a daemon hold: it stays within the budget, others are served, and it comes
// back.

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kTotal = 64 * kMiB;
constexpr uint64_t kClient = 48 * kMiB;
// What is not counted: the process itself, its threads, connections, fragments of the heap.
// AddressSanitizer also keeps freed memory, and shadows all of it.
constexpr uint64_t kBeside = (kAddressSanitizer ? 1000 : 220) * kMiB;

class MemoryBudgetTest : public ::testing::Test {
 protected:
  Api& api() { return daemon_.api(); }
  uint64_t Held() { return GetNode(api()).memory_used_bytes(); }

  absl::Status TryBuffer(const std::string& session, const std::string& id, uint64_t bytes) {
    v1::CreateBuffersRequest request;
    request.set_parent(session);
    v1::BufferSpec& spec = *request.add_buffers();
    spec.set_buffer_id(id);
    spec.set_chip("chips/0");
    spec.set_bytes(bytes);
    return Call(*api().buffer, &v1::BufferService::Stub::CreateBuffers, request).status();
  }
  // Another client is served: a session, a buffer, a run.
  void ExpectOthersAreServed() {
    const std::string session = MakeSession(api());
    ASSERT_THAT(TryBuffer(session, "out", kMiB), IsOk());
    EXPECT_EQ(WaitForRun(api(), Submit(api(), session, Fill(16, 1)).name()).state(),
              v1::Run::SUCCEEDED);
    DeleteSession(api(), session);
  }

  DaemonProcess daemon_{{"--sim-chips=2", absl::StrCat("--max-memory-bytes=", kTotal),
                         absl::StrCat("--max-client-memory-bytes=", kClient),
                         "--event-log-bytes=16M", "--drain-grace=0s"}};
};

TEST_F(MemoryBudgetTest, ChipsHaveNoMoreThanThereIs) {
  const v1::Node node = GetNode(api());
  EXPECT_EQ(node.limits().max_memory_bytes(), kTotal);
  EXPECT_EQ(node.limits().max_client_memory_bytes(), kClient);
  EXPECT_EQ(GetChip(api(), 0).memory_total_bytes(), kTotal / 2);
  const std::string session = MakeSession(api());
  EXPECT_THAT(TryBuffer(session, "large", uint64_t{4} << 30),
              HasReason(reason::kChipMemoryExhausted));
  ASSERT_THAT(TryBuffer(session, "fits", 30 * kMiB), IsOk());
  EXPECT_GE(Held(), 30 * kMiB);
  DeleteSession(api(), session);
  EXPECT_LT(Held(), kMiB);
}

TEST_F(MemoryBudgetTest, ARefusalSaysLimitUsageAndRequest) {
  const std::string session = MakeSession(api());
  ASSERT_THAT(TryBuffer(session, "first", 30 * kMiB), IsOk());
  v1::CreateBuffersRequest request;
  request.set_parent(session);
  v1::BufferSpec& spec = *request.add_buffers();
  spec.set_buffer_id("second");
  spec.set_chip("chips/1");
  spec.set_bytes(30 * kMiB);
  const absl::Status refused =
      Call(*api().buffer, &v1::BufferService::Stub::CreateBuffers, request).status();
  ASSERT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const absl::optional<ErrorDetail> detail = GetErrorDetail(refused);
  ASSERT_TRUE(detail->quota.has_value());
  EXPECT_EQ(detail->quota->name, "max_client_memory_bytes");
  EXPECT_EQ(detail->quota->limit, kClient);
  EXPECT_GE(detail->quota->usage, 30 * kMiB);
  EXPECT_GE(detail->quota->requested, 30 * kMiB);
  EXPECT_EQ(detail->field, "buffers[0].bytes");
}

// The finding: a mapping for each buffer, and deleting every second one makes as many as there are
// buffers.
TEST_F(MemoryBudgetTest, ManySmallBuffersTakeFewMappings) {
  const auto mappings = [this] {
    std::ifstream file(absl::StrCat("/proc/", daemon_.pid(), "/maps"));
    uint64_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  };
  const uint64_t before = mappings();
  constexpr int kBuffers = 3000;
  for (int s = 0; s < 2; ++s) {
    const std::string session = MakeSession(api());
    v1::CreateBuffersRequest create;
    v1::DeleteBuffersRequest remove;
    create.set_parent(session);
    for (int i = 0; i < kBuffers; ++i) {
      v1::BufferSpec& spec = *create.add_buffers();
      spec.set_buffer_id(absl::StrCat("b", i));
      spec.set_chip("chips/0");
      spec.set_bytes(1);
      if (i % 2 == 0) remove.add_names(absl::StrCat(session, "/buffers/b", i));
    }
    ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::CreateBuffers, create), IsOk());
    ASSERT_THAT(Call(*api().buffer, &v1::BufferService::Stub::DeleteBuffers, remove), IsOk());
  }
  EXPECT_LT(mappings(), before + 200);
  EXPECT_EQ(GetChip(api(), 0).memory_used_bytes(), uint64_t{kBuffers} * 4096);
  ExpectOthersAreServed();
}

TEST_F(MemoryBudgetTest, LogsAndKeptGraphsOfIdleSessionsStayWithinIt) {
  constexpr int kTasks = 20'000;
  const v1::GraphSpec graph = Noops(kTasks);
  for (int s = 0; s < 6; ++s) {
    const std::string session = MakeSession(api());
    for (int i = 0; i < 5; ++i) {
      WaitForRun(api(), Submit(api(), session, graph).name());
    }
  }
  EXPECT_LE(Held(), kTotal + 10 * kMiB);
  EXPECT_LT(daemon_.ResidentBytes(), kTotal + kBeside);
  // They make room for what a client asks for now.
  const std::string session = MakeSession(api());
  EXPECT_THAT(TryBuffer(session, "large", 28 * kMiB), IsOk());
  EXPECT_LE(Held(), kTotal);
  ExpectOthersAreServed();
}

// The finding: they counted for nothing.
TEST_F(MemoryBudgetTest, RegisteredGraphsCount) {
  const std::string session = MakeSession(api());
  // So that fewer graphs are needed.
  ASSERT_THAT(TryBuffer(session, "x", 30 * kMiB), IsOk());
  v1::RegisterGraphRequest request;
  request.set_parent(session);
  *request.mutable_graph() = Noops(30'000);
  absl::Status refused;
  int registered = 0;
  for (; registered < 200; ++registered) {
    request.set_graph_id(absl::StrCat("g", registered));
    refused = Call(*api().run, &v1::RunService::Stub::RegisterGraph, request).status();
    if (!refused.ok()) break;
  }
  EXPECT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_GT(registered, 3);
  EXPECT_LE(Held(), kClient + kMiB);
  EXPECT_LT(daemon_.ResidentBytes(), kTotal + kBeside);
  v1::DeleteGraphRequest remove;
  remove.set_name(absl::StrCat(session, "/graphs/g0"));
  ASSERT_THAT(Call(*api().run, &v1::RunService::Stub::DeleteGraph, remove), IsOk());
  EXPECT_THAT(Call(*api().run, &v1::RunService::Stub::RegisterGraph, request), IsOk());
  DeleteSession(api(), session);
  EXPECT_TRUE(Eventually([&] { return Held() < kMiB; }));
}

// Tensors of an open run stay until it has ended.
TEST_F(MemoryBudgetTest, TensorsOfOpenRunsCount) {
  const std::string session = MakeSession(api());
  ASSERT_THAT(TryBuffer(session, "x", 4096), IsOk());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::Run run;
  const auto stream = api().run->StreamRun(&context, &run);
  v1::StreamRunRequest header;
  header.mutable_header()->set_parent(session);
  header.mutable_header()->set_run_id("open");
  ASSERT_TRUE(stream->Write(header));
  v1::StreamRunRequest lists;
  lists.mutable_block()->add_kernels("noop");
  lists.mutable_block()->add_buffers(session + "/buffers/x");
  v1::Layout& layout = *lists.mutable_block()->add_layouts();
  layout.set_dtype(v1::F32);
  layout.add_shape(1);
  if (!stream->Write(lists)) GTEST_FAIL() << stream->Finish().error_message();
  v1::StreamRunRequest tensors;
  for (int i = 0; i < 50'000; ++i) {
    tensors.mutable_block()->mutable_tensors()->add_buffer(0);
    tensors.mutable_block()->mutable_tensors()->add_layout(0);
    tensors.mutable_block()->mutable_tensors()->add_offset_delta(0);
  }
  int blocks = 0;
  while (blocks < 150 && stream->Write(tensors)) ++blocks;
  stream->WritesDone();
  const absl::Status refused = FromGrpcStatus(stream->Finish());
  EXPECT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_LT(blocks, 150);
  EXPECT_LT(daemon_.ResidentBytes(), kTotal + kBeside);
  ExpectOthersAreServed();
  DeleteSession(api(), session);
  EXPECT_TRUE(Eventually([&] { return Held() < kMiB; }));
}

// Clients that begin graphs and never finish them.
TEST_F(MemoryBudgetTest, UnfinishedPackedGraphsCount) {
  const std::string session = MakeSession(api());
  v1::PackedGraphPart header;
  header.mutable_header()->set_parent(session);
  header.mutable_header()->set_id("g");
  header.mutable_header()->add_chips("chips/0");
  header.mutable_header()->add_buffers(session + "/buffers/x");
  v1::Layout& layout = *header.mutable_header()->add_layouts();
  layout.set_dtype(v1::F32);
  layout.add_shape(1);
  v1::PackedGraphPart tensors;
  for (int i = 0; i < 50'000; ++i) {
    tensors.mutable_tensors()->add_buffer(0);
    tensors.mutable_tensors()->add_layout(0);
    tensors.mutable_tensors()->add_offset_delta(0);
  }
  struct Open {
    grpc::ClientContext context;
    v1::Graph graph;
    std::unique_ptr<grpc::ClientWriter<v1::PackedGraphPart>> stream;
  };
  std::vector<std::unique_ptr<Open>> open;
  absl::Status refused;
  for (int i = 0; i < 40 && refused.ok(); ++i) {
    open.push_back(std::make_unique<Open>());
    Open& one = *open.back();
    one.context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    one.stream = api().run->RegisterPackedGraph(&one.context, &one.graph);
    bool writes = one.stream->Write(header);
    for (int part = 0; part < 4 && writes; ++part) writes = one.stream->Write(tensors);
    // Writing goes ahead of the daemon, so the last one may hear of it only at its end.
    if (!writes || i == 39) refused = FromGrpcStatus(one.stream->Finish());
  }
  EXPECT_THAT(refused, HasReason(reason::kMemoryBudget));
  EXPECT_LE(Held(), kClient + kMiB);
  for (const auto& one : open) one->context.TryCancel();
  for (const auto& one : open) {
    if (one != open.back()) one->stream->Finish();
  }
  EXPECT_TRUE(Eventually([&] { return Held() < kMiB; }));
  ExpectOthersAreServed();
}

// The findings: 600 unread ReadBuffers, and 10,000 unread WatchEvents.
TEST_F(MemoryBudgetTest, StreamsThatNobodyReadsStayWithinIt) {
  const std::string session = MakeSession(api());
  ASSERT_THAT(TryBuffer(session, "x", 8 * kMiB), IsOk());
  WaitForRun(api(), Submit(api(), session, Noops(30'000)).name());
  v1::ReadBufferRequest read;
  read.set_name(session + "/buffers/x");
  v1::WatchEventsRequest watch;
  watch.set_parent(session);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ReadBufferResponse>>> reads;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::EventBatch>>> watches;
  for (int i = 0; i < 80; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    reads.push_back(api().buffer->ReadBuffer(contexts.back().get(), read));
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(api().event->WatchEvents(contexts.back().get(), watch));
  }
  EXPECT_TRUE(Eventually([&] { return Held() > 20 * kMiB; }));
  EXPECT_LE(Held(), kClient + 4 * kMiB);
  EXPECT_LT(daemon_.ResidentBytes(), kTotal + kBeside);
  // What is not read is sent as before, if in smaller pieces.
  v1::EventBatch batch;
  uint64_t through = 0;
  while (through < 30'000 && watches.back()->Read(&batch)) through = batch.through_sequence();
  EXPECT_GE(through, 30'000u);
  v1::ReadBufferResponse response;
  uint64_t bytes = 0;
  while (reads.front()->Read(&response)) bytes += response.data().size();
  EXPECT_EQ(bytes, 8 * kMiB);
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& one : reads) one->Finish();
  for (const auto& one : watches) one->Finish();
  EXPECT_TRUE(Eventually([&] { return Held() < 12 * kMiB; }));
  ExpectOthersAreServed();
}

}  // namespace
}  // namespace pto::testing
