#include "tests/harness/doomed_life.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/launch_stream.h"
#include "client/open_run.h"

namespace pto::testing {
namespace {

constexpr int64_t kOne[] = {1};
constexpr int64_t kSpinMicroseconds = 2000;
// The maximum wait: the point is to be killed.
constexpr absl::Duration kWait = absl::Milliseconds(20);

// A session and its objects.
struct Estate {
  explicit Estate(Session lease) : session(std::move(lease)) {}

  Session session;
  std::vector<Buffer> buffers = {};
  std::vector<MappedBuffer> mappings = {};
  std::vector<Domain> domains = {};
  std::vector<pto::Run> runs = {};
  std::vector<LaunchStream> launches = {};
  std::vector<OpenRun> open_runs = {};
  std::vector<EventStream> events = {};
  bool registered = false;
};

class Life {
 public:
  Life(Client client, uint64_t seed, absl::Duration ttl)
      : client_(std::move(client)), random_(seed), ttl_(ttl) {}

  void Step() {
    if (estates_.empty() || Below(20) == 0) {
      NewSession();
      return;
    }
    Estate& estate = *estates_[Below(estates_.size())];
    switch (Below(16)) {
      case 0:
      case 1:
        NewBuffer(estate);
        break;
      case 2:
      case 3:
        Write(estate);
        break;
      case 4:
        Map(estate);
        break;
      case 5:
        Read(estate);
        break;
      case 6:
        NewDomain(estate);
        break;
      case 7:
        WaitInDomain(estate);
        break;
      case 8:
        SubmitSpin(estate, /*packed=*/Below(2) == 0);
        break;
      case 9:
        FillBuffer(estate);
        break;
      case 10:
        Launch(estate);
        break;
      case 11:
        NewOpenRun(estate);
        break;
      case 12:
        Watch(estate);
        break;
      case 13:
        WaitOrCancel(estate);
        break;
      case 14:
        Lease(estate);
        break;
      default:
        Remove(estate);
        break;
    }
  }

  uint64_t Below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }

 private:
  template <typename T>
  T* Any(std::vector<T>& items) {
    return items.empty() ? nullptr : &items[Below(items.size())];
  }
  uint32_t AnyChip() { return static_cast<uint32_t>(Below(2)); }

  void NewSession() {
    absl::StatusOr<Session> session = client_.CreateSession({.ttl = ttl_});
    if (session.ok()) estates_.push_back(std::make_unique<Estate>(*std::move(session)));
  }
  void NewBuffer(Estate& estate) {
    // Half of the buffers are large enough to be mapped.
    const uint64_t bytes = Below(2) == 0 ? 4096 : 256 << 10;
    absl::StatusOr<Buffer> buffer = estate.session.CreateBuffer("", AnyChip(), bytes);
    if (buffer.ok()) estate.buffers.push_back(*std::move(buffer));
  }
  void Write(Estate& estate) {
    if (const Buffer* buffer = Any(estate.buffers)) {
      (void)buffer->Write(std::vector<char>(buffer->bytes(), 'x'));
    }
  }
  void Read(Estate& estate) {
    if (const Buffer* buffer = Any(estate.buffers)) (void)buffer->Read<char>(buffer->bytes());
  }
  void Map(Estate& estate) {
    const Buffer* buffer = Any(estate.buffers);
    if (buffer == nullptr) return;
    absl::StatusOr<MappedBuffer> mapping = buffer->Map();
    if (!mapping.ok()) return;
    std::ranges::fill(mapping->bytes(), std::byte{1});
    estate.mappings.push_back(*std::move(mapping));
  }
  void NewDomain(Estate& estate) {
    DomainSpec spec;
    spec.chips = {0, 1};
    spec.buffers = {{"x", v1::F32, 1024}};
    spec.signal_count = 2;
    absl::StatusOr<Domain> domain = estate.session.CreateDomain(spec);
    if (domain.ok()) estate.domains.push_back(*std::move(domain));
  }
  void Keep(Estate& estate, absl::StatusOr<pto::Run> run) {
    if (run.ok()) estate.runs.push_back(*std::move(run));
  }
  // A run that never continues: kernels that sleep on cores of both chips, and a waiting task.
  void WaitInDomain(Estate& estate) {
    const Domain* domain = Any(estate.domains);
    if (domain == nullptr) return;
    GraphBuilder graph;
    std::vector<GroupMember> members;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const TensorRef signal =
          graph.Tensor(absl::StrCat("signal", rank), domain->Signals(rank).value(), v1::I64, kOne);
      members.push_back({rank, {signal}});
      graph.WaitFor(signal, v1::GE, 1);
    }
    graph.Group("hold", members).Scalar(1).Blocks(2).SyncStart();
    Keep(estate, estate.session.Submit(graph));
  }
  void SubmitSpin(Estate& estate, bool packed) {
    GraphBuilder graph;
    for (int i = 0; i < 8; ++i) graph.Task("spin", AnyChip(), {}).Scalar(kSpinMicroseconds);
    Keep(estate, packed ? estate.session.SubmitPacked(graph) : estate.session.Submit(graph));
  }
  void FillBuffer(Estate& estate) {
    const Buffer* buffer = Any(estate.buffers);
    if (buffer == nullptr) return;
    GraphBuilder graph;
    const auto count = static_cast<int64_t>(buffer->bytes() / sizeof(float));
    graph.Task("fill", buffer->chip(), {graph.Tensor("out", *buffer, v1::F32, {count})})
        .Scalar(1.0)
        .Blocks(4);
    Keep(estate, estate.session.Submit(graph));
  }
  void Launch(Estate& estate) {
    if (!estate.registered) {
      GraphBuilder graph;
      graph.Task("noop", 0, {});
      graph.Task("spin", 1, {}).Scalar(kSpinMicroseconds);
      estate.registered = estate.session.Register("graph", graph).ok();
      return;
    }
    if (Below(2) == 0) {
      Keep(estate, estate.session.Launch("graph"));
      return;
    }
    if (estate.launches.empty()) {
      absl::StatusOr<LaunchStream> opened = estate.session.OpenLaunchStream();
      if (!opened.ok()) return;
      estate.launches.push_back(*std::move(opened));
    }
    v1::LaunchGraphRequest request;
    request.set_graph(estate.session.name() + "/graphs/graph");
    for (int i = 0; i < 5; ++i) (void)estate.launches.front().Launch(request, kWait);
  }
  void NewOpenRun(Estate& estate) {
    if (estate.open_runs.empty() || Below(2) == 0) {
      absl::StatusOr<OpenRun> run = estate.session.BeginOpenRun();
      if (!run.ok()) return;
      estate.open_runs.push_back(*std::move(run));
    }
    OpenRun& run = estate.open_runs.back();
    for (int i = 0; i < 20; ++i) run.graph().Task("noop", AnyChip(), {});
    (void)run.Flush(kWait);
    if (Below(4) == 0) (void)run.Finish(kWait);
  }
  void Watch(Estate& estate) {
    if (estate.events.empty()) {
      absl::StatusOr<EventStream> events = estate.session.Watch();
      if (!events.ok()) return;
      estate.events.push_back(*std::move(events));
    }
    (void)estate.events.front().Next(kWait);
  }
  void WaitOrCancel(Estate& estate) {
    const pto::Run* run = Any(estate.runs);
    if (run == nullptr) return;
    if (Below(2) == 0) {
      (void)run->Cancel("no longer wanted");
    } else {
      (void)run->Wait(kWait);
    }
  }
  void Lease(Estate& estate) {
    // Rarely: other clients are refused meanwhile.
    if (Below(16) == 0) (void)estate.session.LeaseChips(1, kWait);
  }
  void Remove(Estate& estate) {
    switch (Below(4)) {
      case 0:
        if (const Buffer* buffer = Any(estate.buffers)) (void)buffer->Delete();
        break;
      case 1:
        if (const Domain* domain = Any(estate.domains)) (void)domain->Delete();
        break;
      case 2:
        if (estate.registered) (void)estate.session.DeleteGraph("graph");
        estate.registered = false;
        break;
      default:
        (void)estate.session.Close();
        estates_.clear();
        break;
    }
  }

  Client client_;
  std::mt19937_64 random_;
  const absl::Duration ttl_;
  std::vector<std::unique_ptr<Estate>> estates_;
};

}  // namespace

void LiveUntilKilled(const std::string& address, uint64_t seed, absl::Duration ttl,
                     std::atomic<uint64_t>& steps) {
  constexpr uint64_t kMostSteps = 100;
  absl::StatusOr<Client> client = Client::Connect(address);
  if (client.ok()) {
    Life life(*std::move(client), seed, ttl);
    for (uint64_t left = life.Below(kMostSteps); left > 0; --left) {
      ++steps;
      life.Step();
    }
    raise(SIGKILL);  // before anything is closed cleanly
  }
  // The daemon may be restarting.
  raise(SIGKILL);
  _exit(1);
}

}  // namespace pto::testing
