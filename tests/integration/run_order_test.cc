// Runs of one session that use the same memory, and launches whose slots overlap.

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "tests/integration/lifecycle.h"

namespace pto::testing {
namespace {

using RunOrderTest = LifecycleTest;
using Stub = v1::RunService::Stub;

constexpr int kCount = 16;  // floats of each tensor

void AddTensor(v1::GraphSpec& graph, const std::string& name, int count = kCount) {
  v1::TensorSpec& tensor = *graph.add_tensors();
  tensor.set_name(name);
  tensor.set_dtype(v1::F32);
  tensor.add_shape(count);
}

v1::TaskSpec& AddTask(v1::GraphSpec& graph, const std::string& kernel,
                      const std::vector<std::string>& args, double scalar) {
  v1::TaskSpec& task = *graph.add_tasks();
  task.set_kernel(kernel);
  task.set_chip("chips/0");
  for (const std::string& arg : args) task.add_args(arg);
  task.add_scalars()->set_f64(scalar);
  return task;
}

// Spins for `time` before it touches memory.
void AddSpin(v1::GraphSpec& graph, absl::Duration time) {
  *graph.add_tasks() = Spin(time).tasks(0);
}

// sum += one, after `time`.
v1::GraphSpec AddOne(absl::Duration time = {}) {
  v1::GraphSpec graph;
  AddTensor(graph, "one");
  AddTensor(graph, "sum");
  if (time > absl::ZeroDuration()) AddSpin(graph, time);
  v1::TaskSpec& task = AddTask(graph, "axpy", {"one", "sum"}, 1);
  if (time > absl::ZeroDuration()) task.add_after("0");
  return graph;
}

class SumTest : public RunOrderTest {
 protected:
  SumTest() {
    for (const char* buffer : {"one", "sum", "other"}) {
      MakeBuffer(api(), session_, buffer, kCount * sizeof(float));
    }
    v1::GraphSpec fill;
    AddTensor(fill, "one");
    AddTask(fill, "fill", {"one"}, 1);
    // All later runs wait for it.
    Submit(api(), session_, fill);
    v1::RegisterGraphRequest request;
    request.set_parent(session_);
    request.set_graph_id("add");
    *request.mutable_graph() = AddOne();
    EXPECT_THAT(Call(*api().run, &Stub::RegisterGraph, request), IsOk());
    launch_.set_graph(Name("graphs", "add"));
  }

  std::vector<float> Sum() { return ReadFloats(api(), Name("buffers", "sum")); }

  v1::LaunchGraphRequest launch_;
};

TEST_F(SumTest, AThousandLaunchesWithoutWaiting) {
  Submit(api(), session_, AddOne(absl::Milliseconds(200)));
  std::string last;
  for (int i = 1; i < 1000; ++i) {
    const auto run = Call(*api().run, &Stub::LaunchGraph, launch_);
    ASSERT_THAT(run, IsOk());
    last = run->name();
  }
  EXPECT_EQ(WaitForRun(api(), last).state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(Sum(), std::vector<float>(kCount, 1000.0f));
}

TEST_F(SumTest, AThousandLaunchesOnAStream) {
  Submit(api(), session_, AddOne(absl::Milliseconds(100)));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto stream = api().run->LaunchStream(&context);
  std::thread sender([&] {
    v1::LaunchStreamRequest request;
    *request.mutable_launch() = launch_;
    for (uint64_t tag = 1; tag < 1000; ++tag) {
      request.set_tag(tag);
      ASSERT_TRUE(stream->Write(request));
    }
    ASSERT_TRUE(stream->WritesDone());
  });
  uint64_t completed = 0;
  v1::LaunchCompletion completion;
  while (stream->Read(&completion)) {
    EXPECT_EQ(completion.tag(), ++completed);  // in order
    EXPECT_EQ(completion.state(), v1::Run::SUCCEEDED);
  }
  sender.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(completed, 999u);
  EXPECT_EQ(Sum(), std::vector<float>(kCount, 1000.0f));
}

TEST_F(SumTest, ARunThatWaitsCanBeCancelled) {
  const v1::Run first = Submit(api(), session_, AddOne(absl::Minutes(10)), "first");
  const v1::Run second = Submit(api(), session_, AddOne(), "second");
  const v1::Run third = Submit(api(), session_, AddOne(), "third");
  WaitUntilRunning(api(), first.name());
  EXPECT_EQ(GetRun(api(), second.name()).state(), v1::Run::QUEUED);
  CancelRun(api(), second.name());
  EXPECT_EQ(WaitForRun(api(), second.name()).state(), v1::Run::CANCELLED);
  EXPECT_EQ(GetRun(api(), first.name()).state(), v1::Run::RUNNING);
  EXPECT_EQ(GetRun(api(), third.name()).state(), v1::Run::QUEUED);
  // The timeout of a run also counts while it waits.
  v1::SubmitRunRequest request = SubmitRequest(session_, AddOne(), "late");
  request.mutable_options()->mutable_timeout()->set_nanos(20'000'000);
  const auto late = Call(*api().run, &Stub::SubmitRun, request);
  ASSERT_THAT(late, IsOk());
  const v1::Run ended = WaitForRun(api(), late->name());
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_THAT(ErrorOf(ended), HasReason(reason::kRunDeadline));
  // Whatever the outcome of the first run, the third continues.
  CancelRun(api(), first.name());
  EXPECT_EQ(WaitForRun(api(), third.name()).state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(Sum(), std::vector<float>(kCount, 1.0f));
}

TEST_F(SumTest, ReadersRunAtTheSameTime) {
  const auto reader = [](const std::string& out) {
    v1::GraphSpec graph;
    AddTensor(graph, "one");
    AddTensor(graph, out);
    AddSpin(graph, absl::Minutes(10));
    v1::TaskSpec& task = *graph.add_tasks();
    task.set_kernel("copy");
    task.set_chip("chips/0");
    task.add_args("one");
    task.add_args(out);
    task.add_after("0");
    return graph;
  };
  // Neither ends by itself.
  const v1::Run first = Submit(api(), session_, reader("sum"), "first");
  const v1::Run second = Submit(api(), session_, reader("other"), "second");
  WaitUntilRunning(api(), first.name());
  WaitUntilRunning(api(), second.name());
  const v1::Run writer = Submit(api(), session_, AddOne(), "writer");
  EXPECT_EQ(GetRun(api(), first.name()).state(), v1::Run::RUNNING);
  EXPECT_EQ(GetRun(api(), second.name()).state(), v1::Run::RUNNING);
  EXPECT_EQ(GetRun(api(), writer.name()).state(), v1::Run::QUEUED);
  CancelRun(api(), first.name());
  EXPECT_EQ(WaitForRun(api(), writer.name()).state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(GetRun(api(), second.name()).state(), v1::Run::RUNNING);
  CancelRun(api(), second.name());
}

TEST_F(SumTest, OtherSessionsDoNotWait) {
  const v1::Run first = Submit(api(), session_, AddOne(absl::Minutes(10)), "first");
  const v1::Run second = Submit(api(), session_, AddOne(), "second");
  const std::string other = MakeSession(api());
  for (const char* buffer : {"one", "sum"}) {
    MakeBuffer(api(), other, buffer, kCount * sizeof(float));
  }
  EXPECT_EQ(WaitForRun(api(), Submit(api(), other, AddOne()).name()).state(), v1::Run::SUCCEEDED);
  DeleteSession(api(), other);
  EXPECT_EQ(GetRun(api(), first.name()).state(), v1::Run::RUNNING);
  EXPECT_EQ(GetRun(api(), second.name()).state(), v1::Run::QUEUED);
  CancelRun(api(), first.name());
}

TEST_F(RunOrderTest, SlotsThatOverlapGiveWhatTheProgramSays) {
  constexpr int kSteps = 10;
  constexpr int kLong = 48;  // floats of each slot
  MakeBuffer(api(), session_, "one", kLong * sizeof(float));
  MakeBuffer(api(), session_, "memory", 2 * kLong * sizeof(float));
  v1::RegisterGraphRequest request;
  request.set_parent(session_);
  request.set_graph_id("steps");
  v1::GraphSpec& graph = *request.mutable_graph();
  for (const char* name : {"one", "p", "q"}) AddTensor(graph, name, kLong);
  AddTask(graph, "fill", {"one"}, 1);
  AddTask(graph, "fill", {"p"}, 3);
  AddTask(graph, "fill", {"q"}, 1);
  for (int i = 0; i < kSteps; ++i) {
    AddTask(graph, "scale", {"p", "p"}, 2);
    AddTask(graph, "axpy", {"one", "q"}, 1);
  }
  ASSERT_THAT(Call(*api().run, &Stub::RegisterGraph, request), IsOk());
  v1::LaunchGraphRequest launch;
  launch.set_graph(Name("graphs", "steps"));
  launch.mutable_wait()->set_seconds(50);
  for (const char* slot : {"p", "q"}) {
    v1::BufferBinding& binding = *launch.add_buffers();
    binding.set_slot(slot);
    binding.set_buffer(Name("buffers", "memory"));
  }
  for (int i = 0; i < 200; ++i) {
    const int at = i % 4 * 16;  // of q; at the last one nothing overlaps
    launch.mutable_buffers(1)->set_offset_bytes(at * sizeof(float));
    std::vector<float> expected = ReadFloats(api(), Name("buffers", "memory"));
    for (int e = 0; e < kLong; ++e) expected[e] = 3;
    for (int e = 0; e < kLong; ++e) expected[at + e] = 1;
    for (int step = 0; step < kSteps; ++step) {
      for (int e = 0; e < kLong; ++e) expected[e] *= 2;
      for (int e = 0; e < kLong; ++e) expected[at + e] += 1;
    }
    const auto run = Call(*api().run, &Stub::LaunchGraph, launch);
    ASSERT_THAT(run, IsOk());
    ASSERT_EQ(run->state(), v1::Run::SUCCEEDED);
    ASSERT_EQ(ReadFloats(api(), Name("buffers", "memory")), expected) << i;
  }
}

}  // namespace
}  // namespace pto::testing
