// A hundred clients at once, each with its own session, connection and data.

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

constexpr int kClients = kAddressSanitizer ? 30 : 100;
constexpr int kRuns = kAddressSanitizer ? 30 : 100;
constexpr uint64_t kElements = 1024;
constexpr uint64_t kFlatBytes = 10 << 20;

// Three tasks on each chip: fill a, fill b, c = a + b.
v1::GraphSpec Sum(uint32_t chip, double a, double b) {
  v1::GraphSpec graph;
  for (const char* name : {"a", "b", "c"}) {
    v1::TensorSpec& tensor = *graph.add_tensors();
    tensor.set_name(name);
    tensor.set_dtype(v1::F32);
    tensor.add_shape(kElements);
  }
  for (const double value : {a, b}) {
    v1::TaskSpec& task = *graph.add_tasks();
    task.set_kernel("fill");
    task.set_chip(absl::StrCat("chips/", chip));
    task.add_args(value == a ? "a" : "b");
    task.add_scalars()->set_f64(value);
  }
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel("add");
  task.set_chip(absl::StrCat("chips/", chip));
  for (const char* name : {"a", "b", "c"}) task.add_args(name);
  task.add_after("0");
  task.add_after("1");
  task.mutable_launch()->set_block_num(2);
  return graph;
}

float ReadLast(Api& api, const std::string& session, const std::string& buffer) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::ReadBufferRequest request;
  request.set_name(absl::StrCat(session, "/buffers/", buffer));
  const auto reader = api.buffer->ReadBuffer(&context, request);
  std::string bytes;
  v1::ReadBufferResponse response;
  while (reader->Read(&response)) bytes += response.data();
  EXPECT_TRUE(reader->Finish().ok());
  float value = -1;
  EXPECT_EQ(bytes.size(), kElements * sizeof value);
  if (bytes.size() >= sizeof value) {
    std::memcpy(&value, bytes.data() + bytes.size() - sizeof value, sizeof value);
  }
  return value;
}

// The work of one client; counts the runs that succeeded.
void Work(const std::string& address, int number, int runs, std::atomic<int>& succeeded) {
  Api api(address);
  const uint32_t chip = number % 2;
  const std::string session = MakeSession(api);
  for (const char* id : {"a", "b", "c"}) {
    MakeBuffer(api, session, id, kElements * sizeof(float), chip);
  }
  for (int i = 1; i <= runs; ++i) {
    v1::SubmitRunRequest request = SubmitRequest(session, Sum(chip, number + 0.5, i));
    request.mutable_wait()->set_seconds(50);
    const auto run = Call(*api.run, &v1::RunService::Stub::SubmitRun, request);
    ASSERT_THAT(run, IsOk());
    ASSERT_EQ(run->state(), v1::Run::SUCCEEDED) << run->error().message();
    ++succeeded;
    // Not the data of another client.
    if (i % 10 == 0) {
      EXPECT_EQ(ReadLast(api, session, "c"), static_cast<float>(number + 0.5 + i));
    }
  }
  DeleteSession(api, session);
}

TEST(ManyClientsTest, AHundredClientsWithAHundredRunsEachAllSucceed) {
  DaemonProcess daemon;
  const uint64_t bytes = daemon.ResidentBytes();
  const size_t files = daemon.OpenFiles();
  std::atomic<int> succeeded{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] { Work(daemon.address(), i, kRuns, succeeded); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(succeeded, kClients * kRuns);

  const v1::Node node = GetNode(daemon.api());
  EXPECT_EQ(node.session_count(), 0u);
  EXPECT_EQ(node.active_run_count(), 0u);
  uint64_t tasks = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    const v1::Chip chip = GetChip(daemon.api(), i);
    EXPECT_EQ(chip.memory_used_bytes(), 0u);
    EXPECT_EQ(chip.busy_cores(), 0u);
    EXPECT_EQ(chip.ready_tasks(), 0u);
    tasks += chip.completed_tasks();
  }
  EXPECT_EQ(tasks, 3u * kClients * kRuns);
  EXPECT_TRUE(daemon.IsServing());
  // Connections are closed when the daemon notices that their clients have gone.
  EXPECT_TRUE(Eventually([&] { return daemon.OpenFiles() <= files + 2; }))
      << daemon.OpenFiles() << " files are open, " << files << " were";
  // A sanitizer keeps freed memory for a while.
  if (kAddressSanitizer) return;
  EXPECT_TRUE(Eventually([&] { return daemon.ResidentBytes() <= bytes + kFlatBytes; }))
      << daemon.ResidentBytes() << " bytes are resident, " << bytes << " were";
}

}  // namespace
}  // namespace pto::testing
