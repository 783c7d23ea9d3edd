#include "tests/bench/broker_rate.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kBlocks = 16;
// The size from which the client library uses the broker.
constexpr uint64_t kSmallBytes = 64 << 10;

double MiBPerSecond(uint64_t bytes, double seconds) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB) / seconds;
}

// The times of one round trip.
struct Times {
  double transfer = 0;  // write and read
  double run = 0;
  double all() const { return transfer + run; }
};

// A session with two buffers and a graph that scales one into the other.
class Side {
 public:
  static absl::StatusOr<Side> Make(const std::string& address, ClientOptions::Broker broker,
                                   uint64_t bytes) {
    ClientOptions options;
    options.broker = broker;
    PTO_ASSIGN_OR_RETURN(Client client, Client::Connect(address, options));
    PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
    const std::vector<int64_t> shape = {static_cast<int64_t>(bytes / sizeof(float))};
    PTO_ASSIGN_OR_RETURN(Tensor<float> x, session.CreateTensor<float>(0, shape));
    PTO_ASSIGN_OR_RETURN(Tensor<float> y, session.CreateTensor<float>(0, shape));
    GraphBuilder graph;
    graph.Task("scale", 0, {graph.Tensor(x), graph.Tensor(y)}).Scalar(2.0).Blocks(kBlocks);
    PTO_RETURN_IF_ERROR(session.Register("scale", graph).status());
    return Side(std::move(session), x.buffer(), y.buffer());
  }

  // One round trip: write, run, read.
  absl::StatusOr<Times> RoundTrip(const std::vector<float>& in, std::vector<float>& out) {
    Times times;
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(x_.Write(in));
    const double written = Seconds();
    PTO_RETURN_IF_ERROR(RunOnce());
    const double ran = Seconds();
    PTO_RETURN_IF_ERROR(y_.Read(std::span<float>(out)));
    times.transfer = Seconds() - ran + written - start;
    times.run = ran - written;
    if (out.back() == 2 * in.back()) return times;
    return absl::DataLossError(absl::StrCat(out.back(), " came, not ", 2 * in.back()));
  }

  absl::Status RunOnce() {
    RunOptions until_ended;
    until_ended.wait = absl::Minutes(1);
    PTO_ASSIGN_OR_RETURN(const pto::Run run, session_.Launch("scale", until_ended));
    return run.Wait().status();
  }

  absl::StatusOr<double> WriteMicroseconds(const std::vector<float>& in, int calls) {
    const std::span<const float> part = std::span(in).first(kSmallBytes / sizeof(float));
    std::vector<double> samples;
    for (int i = 0; i < calls; ++i) {
      const double start = Seconds();
      PTO_RETURN_IF_ERROR(x_.Write(part));
      samples.push_back((Seconds() - start) * 1e6);
    }
    return Median(std::move(samples));
  }

  // Milliseconds to map a buffer that has not been shared.
  absl::StatusOr<double> FirstMapMilliseconds(uint64_t bytes) {
    PTO_ASSIGN_OR_RETURN(const Buffer buffer, session_.CreateBuffer("", 0, bytes));
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(buffer.Map().status());
    const double took = (Seconds() - start) * 1e3;
    PTO_RETURN_IF_ERROR(buffer.Delete());
    return took;
  }

 private:
  Side(Session session, Buffer x, Buffer y)
      : session_(std::move(session)), x_(std::move(x)), y_(std::move(y)) {}

  Session session_;
  Buffer x_;
  Buffer y_;
};

double Memcpy(const std::vector<float>& from, std::vector<float>& to) {
  const double start = Seconds();
  std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
  // Prevents the compiler from dropping the copy.
  asm volatile("" : : "r"(to.data()) : "memory");
  return Seconds() - start;
}

}  // namespace

absl::Status MeasureBrokerRate(Servers& servers, const Effort& effort, Report& report) {
  const uint64_t bytes = effort.transfer_bytes;
  const std::string& address = servers.client().address();
  PTO_ASSIGN_OR_RETURN(Side broker, Side::Make(address, ClientOptions::Broker::kAuto, bytes));
  PTO_ASSIGN_OR_RETURN(Side grpc, Side::Make(address, ClientOptions::Broker::kOff, bytes));
  std::vector<float> in(bytes / sizeof(float), 1.5f);
  std::vector<float> out(in.size());
  std::vector<float> middle(in.size());
  Rounds ours, ours_transfer, theirs, copies, copies_and_run, first_map, small, grpc_small;
  // Single transfers over gRPC vary by half; the median of fifteen is stable.
  const int turns = 3 * effort.long_rounds;
  // The first round warms up.
  for (int round = -1; round < turns; ++round) {
    in.back() = static_cast<float>(round);
    PTO_ASSIGN_OR_RETURN(const Times with, broker.RoundTrip(in, out));
    PTO_ASSIGN_OR_RETURN(const Times without, grpc.RoundTrip(in, out));
    const double copied = Memcpy(in, middle) + Memcpy(middle, out);
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(grpc.RunOnce());
    const double run = Seconds() - start;
    PTO_ASSIGN_OR_RETURN(const double small_us, broker.WriteMicroseconds(in, effort.calls / 10));
    PTO_ASSIGN_OR_RETURN(const double grpc_us, grpc.WriteMicroseconds(in, effort.calls / 10));
    if (round < 0) continue;
    ours.Add(MiBPerSecond(2 * bytes, with.all()));
    ours_transfer.Add(MiBPerSecond(2 * bytes, with.transfer));
    theirs.Add(MiBPerSecond(2 * bytes, without.all()));
    copies.Add(MiBPerSecond(2 * bytes, copied));
    copies_and_run.Add(MiBPerSecond(2 * bytes, copied + run));
    small.Add(small_us);
    grpc_small.Add(grpc_us);
  }
  // Separately: the daemon is busy with the pages of a deleted buffer for a while.
  for (int round = 0; round < effort.long_rounds; ++round) {
    PTO_ASSIGN_OR_RETURN(const double mapped, broker.FirstMapMilliseconds(bytes));
    first_map.Add(mapped);
  }
  const auto line = [&report](const char* name, const Rounds& rounds, const char* unit,
                              const char* against, const Rounds& peer,
                              absl::optional<Target> target) {
    report.Add({.name = name,
                .value = rounds.median(),
                .unit = unit,
                .against = against,
                .against_value = peer.median(),
                .target = target});
  };
  line("broker_round_trip", ours, "MiB/s", "grpc_round_trip", theirs, Target::AtLeast(5));
  line("broker_round_trip_beside_memcpy", ours, "MiB/s", "memcpy_run_memcpy", copies_and_run,
       Target::AtLeast(0.7));
  line("broker_transfer", ours_transfer, "MiB/s", "memcpy", copies, Target::AtLeast(0.7));
  line("broker_write_64kib", small, "us", "grpc_write_64kib", grpc_small, {});
  report.Add({.name = "broker_first_map", .value = first_map.median(), .unit = "ms"});
  return absl::OkStatus();
}

}  // namespace pto::bench
