// Two clients whose domains share chips, each executing many runs at the same time.

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/launch_stream.h"
#include "gtest/gtest.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

constexpr int kRuns = kAddressSanitizer ? 1'000 : 10'000;
constexpr int kInFlight = 32;
constexpr int64_t kCount = 37;
// Each run is bound to a different number; their sums stay exact.
constexpr const char* kNumber = "number";

TensorRef Window(GraphBuilder& graph, const Domain& domain, uint32_t rank, const char* name) {
  return graph.Tensor(absl::StrCat(name, rank), *domain.Window(rank, name), v1::I64, {kCount});
}

// Rank r contributes number * (r + 1), and the sum over all ranks is added to every rank's total. A
// signal goes round the ring, and rank 0 counts a lap only when the signal is back: a stale signal
// would arrive too early, and count twice.
void Describe(GraphBuilder& graph, const Domain& domain, const std::vector<uint32_t>& chips) {
  const ScalarRef number = graph.Scalar(kNumber, 0.0);
  const auto ranks = static_cast<uint32_t>(chips.size());
  std::vector<GroupMember> members;
  for (uint32_t r = 0; r < ranks; ++r) {
    const TensorRef x = Window(graph, domain, r, "x");
    graph.Task("fill", chips[r], {x}).Scalar(number);
    graph.Task("scale", chips[r], {x, x}).Scalar(r + 1.0);
    members.push_back({chips[r], {x, Window(graph, domain, r, "sum")}});
  }
  graph.Group("all_reduce", members).Scalar(1).Scalar(0).Scalar(0);
  std::vector<TensorRef> signals;
  for (uint32_t r = 0; r < ranks; ++r) {
    signals.push_back(graph.Tensor(absl::StrCat("signal", r), *domain.Signals(r), v1::I64, {1}));
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    const TensorRef total = Window(graph, domain, r, "total");
    const TaskRef added = graph.Task("add", chips[r], {total, members[r].args[1], total});
    graph.Notify(signals[(r + 1) % ranks], 1, v1::ADD).After(added);
  }
  const TaskRef arrived = graph.WaitFor(signals[0], v1::EQ, 1);
  const TensorRef laps = Window(graph, domain, 0, "laps");
  graph.Task("add", chips[0], {laps, Window(graph, domain, 0, "ones"), laps}).After(arrived);
}

v1::LaunchGraphRequest Launch(const std::string& graph, int number) {
  v1::LaunchGraphRequest request;
  request.set_graph(graph);
  v1::ScalarSpec& scalar = *request.add_scalars();
  scalar.set_name(kNumber);
  scalar.mutable_value()->set_f64(number);
  return request;
}

absl::Status TakeOne(LaunchStream& stream) {
  PTO_ASSIGN_OR_RETURN(const v1::LaunchCompletion completion, stream.Next());
  return StatusOf(completion);
}

absl::Status ExpectAll(const Domain& domain, uint32_t rank, const char* buffer, int64_t want) {
  PTO_ASSIGN_OR_RETURN(const Buffer window, domain.Window(rank, buffer));
  PTO_ASSIGN_OR_RETURN(const std::vector<int64_t> have, window.Read<int64_t>(kCount));
  EXPECT_EQ(have, std::vector<int64_t>(kCount, want)) << buffer << " of rank " << rank;
  return absl::OkStatus();
}

// All runs of one client. Some are always in flight, so that the runs of both clients interleave.
absl::Status Work(const std::string& address, const std::vector<uint32_t>& chips) {
  PTO_ASSIGN_OR_RETURN(Client client, Client::Connect(address));
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
  DomainSpec spec{.chips = chips, .signal_count = 1};
  for (const char* name : {"x", "sum", "total", "laps", "ones"}) {
    spec.buffers.push_back({name, v1::I64, kCount});
  }
  PTO_ASSIGN_OR_RETURN(const Domain domain, session.CreateDomain(spec));
  PTO_ASSIGN_OR_RETURN(Buffer ones, domain.Window(0, "ones"));
  PTO_RETURN_IF_ERROR(ones.Write(std::vector<int64_t>(kCount, 1)));
  GraphBuilder graph;
  Describe(graph, domain, chips);
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered, session.Register("round", graph));
  PTO_ASSIGN_OR_RETURN(LaunchStream stream, session.OpenLaunchStream());
  for (int number = 1; number <= kRuns; ++number) {
    PTO_RETURN_IF_ERROR(stream.Launch(Launch(registered.name(), number)).status());
    if (number > kInFlight) PTO_RETURN_IF_ERROR(TakeOne(stream));
  }
  for (int left = kInFlight; left > 0; --left) PTO_RETURN_IF_ERROR(TakeOne(stream));

  const auto ranks = static_cast<int64_t>(chips.size());
  const int64_t numbers = int64_t{kRuns} * (kRuns + 1) / 2;
  for (uint32_t r = 0; r < ranks; ++r) {
    PTO_RETURN_IF_ERROR(ExpectAll(domain, r, "total", numbers * ranks * (ranks + 1) / 2));
  }
  return ExpectAll(domain, 0, "laps", kRuns);
}

TEST(OverlappingDomains, ManyRunsOfTwoClients) {
  DaemonProcess daemon({"--sim-chips=4"});
  absl::Status left;
  absl::Status right;
  {
    // The shared chips are in a different order, so that neither can be first everywhere.
    std::jthread first([&] { left = Work(daemon.address(), {0, 1, 2}); });
    std::jthread second([&] { right = Work(daemon.address(), {3, 2, 1}); });
  }
  EXPECT_THAT(left, IsOk());
  EXPECT_THAT(right, IsOk());
}

}  // namespace
}  // namespace pto::testing
