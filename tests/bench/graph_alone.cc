// graph_alone FILE ROUNDS: the cost of a packed graph without a daemon. FILE contains its chunks,
// each preceded by its length. Prints the seconds to decode and to run it, for the round with the
// smallest sum. A separate program, because the engine and the client library have classes with the
// same names.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/graph/packed_decoder.h"
#include "kernels/builtin_kernels.h"
#include "pto/v1/graph.pb.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/engine/engine.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr uint32_t kClusters = 24;
constexpr uint32_t kMaxBlockTasks = 65'536;

// Takes the records like the daemon, and drops them.
class Taker final : public engine::RunObserver {
 public:
  std::string name() const override { return "alone"; }
  void OnStarted(engine::Run&) override {}
  void OnRecords(engine::Run& run, size_t) override { run.TakeRecords(); }
  void OnFinished(engine::Run& run, engine::Completions&) override { run.TakeRecords(); }
};

absl::StatusOr<std::vector<std::string>> ReadParts(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> parts;
  uint32_t size = 0;
  while (file.read(reinterpret_cast<char*>(&size), sizeof size)) {
    std::string part(size, '\0');
    if (!file.read(part.data(), size)) return absl::DataLossError("the file breaks off");
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return absl::NotFoundError("the file cannot be read, or is empty");
  return parts;
}

absl::StatusOr<std::shared_ptr<const engine::GraphImage>> Decode(
    const std::vector<std::string>& parts) {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {kClusters};
  daemon::PackedDecoder decoder(target, kMaxBlockTasks);
  v1::PackedGraphPart part;
  for (const std::string& bytes : parts) {
    if (!part.ParseFromString(bytes)) return absl::DataLossError("a part is no message");
    PTO_RETURN_IF_ERROR(decoder.Add(part));
  }
  PTO_ASSIGN_OR_RETURN(daemon::DecodedGraph graph, decoder.Finish());
  return std::move(graph.image);
}

absl::Status Measure(const char* path, int rounds) {
  PTO_ASSIGN_OR_RETURN(const std::vector<std::string> parts, ReadParts(path));
  TimerQueue timers(Clock::Real());
  engine::Engine::Options options;
  options.chips.push_back(engine::SimChip::Create(0, kClusters));
  options.timers = &timers;
  options.executors = std::thread::hardware_concurrency();
  engine::Engine engine(std::move(options));
  double decode = 0;
  double run = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = Seconds();
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::GraphImage> image, Decode(parts));
    const double decoded = Seconds();
    engine::RunSpec spec;
    spec.image = image;
    spec.record_level = engine::RecordLevel::kAll;
    spec.observer = std::make_shared<Taker>();
    const std::shared_ptr<engine::Run> running = engine.Prepare(std::move(spec));
    engine.Start(running);
    while (!engine.WaitIdle(absl::Seconds(60))) {
    }
    const double ended = Seconds();
    if (running->state() != engine::RunState::kSucceeded)
      return absl::InternalError("the run failed");
    if (round == 0 || ended - start < decode + run) {
      decode = decoded - start;
      run = ended - decoded;
    }
  }
  std::printf("%.6f %.6f\n", decode, run);
  return absl::OkStatus();
}

}  // namespace
}  // namespace pto::bench

int main(int argc, char** argv) {
  if (argc != 3 || std::atoi(argv[2]) < 1) {
    std::fprintf(stderr, "usage: graph_alone FILE ROUNDS\n");
    return 2;
  }
  const absl::Status status = pto::bench::Measure(argv[1], std::atoi(argv[2]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "graph_alone: %s\n", status.ToString().c_str());
  return 1;
}
