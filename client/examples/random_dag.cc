#include "client/examples/random_dag.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pto::examples {
namespace {

// Splitmix64. The standard library's distributions differ between implementations.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int Below(int bound) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<int>((z ^ (z >> 31)) % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t state_;
};

std::string TensorOf(int step, uint32_t chip) {
  return step < 0 ? absl::StrCat("input-", chip) : absl::StrCat("v", step);
}

}  // namespace

std::vector<RandomStep> MakeRandomDag(uint64_t seed, int steps, uint32_t chips) {
  // How far back a step reads: the smaller, the deeper the graph.
  constexpr int kReach = 24;
  Random random(seed);
  std::vector<RandomStep> dag;
  std::vector<std::vector<int>> on_chip(chips);
  for (int i = 0; i < steps; ++i) {
    RandomStep step;
    step.chip = static_cast<uint32_t>(random.Below(static_cast<int>(chips)));
    std::vector<int>& earlier = on_chip[step.chip];
    auto pick = [&] {
      const int reach = std::min<int>(kReach, static_cast<int>(earlier.size()));
      return reach == 0 ? -1 : earlier[earlier.size() - 1 - random.Below(reach)];
    };
    switch (random.Below(8)) {
      case 0:
        step.kernel = "copy";
        step.inputs = {random.Below(2) == 0 ? -1 : pick()};
        break;
      case 1:
      case 2:
      case 3:
        step.kernel = "scale";
        // Exact in binary; keeps the sums from growing out of range.
        step.factor = random.Below(2) == 0 ? 0.5 : -0.25;
        step.inputs = {pick()};
        break;
      case 4:
      case 5:
        step.kernel = "sub";
        step.inputs = {pick(), pick()};
        break;
      default:
        step.kernel = "add";
        step.inputs = {pick(), pick()};
        break;
    }
    // An edge without data, often to another chip.
    if (i > 0 && random.Below(4) == 0) {
      const int before = i - 1 - random.Below(std::min(i, kReach));
      const auto& inputs = step.inputs;
      if (std::find(inputs.begin(), inputs.end(), before) == inputs.end()) {
        step.after.push_back(before);
      }
    }
    earlier.push_back(i);
    dag.push_back(std::move(step));
  }
  return dag;
}

std::string RandomDagJob(const std::vector<RandomStep>& steps, uint32_t chips) {
  std::vector<int64_t> places;
  std::vector<int64_t> used(chips);
  for (const RandomStep& step : steps) {
    places.push_back(used[step.chip]);
    used[step.chip] += kRandomDagElements;
  }
  std::vector<std::string> buffers, tensors, tasks, checks;
  for (uint32_t chip = 0; chip < chips; ++chip) {
    buffers.push_back(absl::StrCat("    {\"name\": \"input-", chip, "\", \"chip\": ", chip,
                                   ", \"dtype\": \"F32\", \"shape\": [", kRandomDagElements,
                                   "], \"init\": {\"random\": {\"seed\": ", chip,
                                   ", \"low\": -1, \"high\": 1}}}"));
    buffers.push_back(absl::StrCat("    {\"name\": \"values-", chip, "\", \"chip\": ", chip,
                                   ", \"dtype\": \"F32\", \"shape\": [",
                                   std::max(used[chip], kRandomDagElements), "]}"));
    checks.push_back(absl::StrCat("    {\"tensor\": \"values-", chip, "\", \"replay\": true}"));
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const RandomStep& step = steps[i];
    tensors.push_back(absl::StrCat("      {\"name\": \"v", i, "\", \"buffer\": \"values-",
                                   step.chip, "\", \"shape\": [", kRandomDagElements,
                                   "], \"offset\": ", places[i], "}"));
    std::vector<std::string> args, after;
    for (int input : step.inputs) args.push_back(TensorOf(input, step.chip));
    args.push_back(absl::StrCat("v", i));
    for (int earlier : step.after) after.push_back(absl::StrCat("\"t", earlier, "\""));
    tasks.push_back(absl::StrCat(
        "      {\"name\": \"t", i, "\", \"kernel\": \"", step.kernel, "\", \"args\": [\"",
        absl::StrJoin(args, "\", \""), "\"]",
        step.kernel == "scale" ? absl::StrCat(", \"scalars\": [{\"f64\": ", step.factor, "}]") : "",
        after.empty() ? "" : absl::StrCat(", \"after\": [", absl::StrJoin(after, ", "), "]"), "}"));
  }
  return absl::StrCat("{\n  \"chips\": [\"0-", chips - 1, "\"],\n  \"buffers\": [\n",
                      absl::StrJoin(buffers, ",\n"), "\n  ],\n  \"graph\": {\n    \"tensors\": [\n",
                      absl::StrJoin(tensors, ",\n"), "\n    ],\n    \"tasks\": [\n",
                      absl::StrJoin(tasks, ",\n"), "\n    ]\n  },\n  \"checks\": [\n",
                      absl::StrJoin(checks, ",\n"), "\n  ]\n}\n");
}

}  // namespace pto::examples
