#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/collectives/reference.h"
#include "runtime/engine/run/run.h"
#include "runtime/graph/builder.h"

namespace pto::testing {

// A graph of random collectives on random chips, and the expected contents of the chips' memory
// after it. Determined by the seed.
//
// Some collectives read what an earlier one wrote; the others are independent and may run at the
// same time, on the same chips.
class RandomGraph {
 public:
  struct Options {
    uint32_t chips = 16;
    uint32_t cases = 25;
    uint32_t max_blocks = 3;
    // If set, all cases use this kernel, and are so long that its output bypasses the caches.
    std::string long_kernel = {};
  };

  RandomGraph(uint64_t seed, const Options& options);

  // The graph, or the builder's error.
  absl::StatusOr<std::shared_ptr<const engine::GraphImage>> Build() { return builder_.Build(); }
  const std::string& refused() const { return refused_; }

  // The initial contents of each chip's slot, in order.
  const std::vector<std::vector<std::byte>>& initial() const { return initial_; }
  // The first difference between the expected and the final contents; empty if there is none.
  std::string Compare(const std::vector<const std::byte*>& memory) const;

 private:
  // Elements in the memory of a chip.
  struct Area {
    uint32_t chip = 0;
    uint32_t dtype = 0;
    uint64_t offset = 0;  // in elements
    int64_t count = 0;
  };
  // A result that is exact only up to rounding.
  struct Rounded {
    Area area;
    std::vector<double> tolerance;
    size_t number = 0;  // of the case
  };
  // A collective under construction.
  struct Case {
    std::string kernel;
    uint32_t dtype = 0;
    std::vector<uint32_t> chips;
    std::vector<int64_t> scalars;
    std::vector<Area> in;
    std::vector<Area> out;
    std::vector<Area> send_counts;
    std::vector<Area> recv_counts;
    uint32_t depth = 0;
    bool exact = true;
  };

  uint64_t Random(uint64_t below) { return random_() % below; }
  bool Chance(uint32_t percent) { return Random(100) < percent; }

  void AddCase();
  Case Choose();
  Case ChooseLong();
  // Some of the chips, in any order.
  std::vector<uint32_t> ChooseChips(uint32_t count);
  // Other collectives may continue with its output.
  bool Continue(const Case& before, Case* next);
  void Place(Case* next, bool reuse_in, int64_t count);
  void PlaceCounts(Case* next, int64_t count);
  Area NewArea(uint32_t chip, uint32_t dtype, int64_t count);
  void FillNumbers(const Area& area);
  // Computes the expected result.
  void Expect(const Case& done);
  absl::Status AddTask(const Case& added);
  uint32_t Tensor(const Area& area);

  const Options options_;
  std::mt19937_64 random_;
  engine::GraphBuilder builder_;
  std::vector<uint32_t> slots_;
  std::vector<std::vector<std::byte>> initial_;
  std::vector<std::vector<std::byte>> expected_;
  std::vector<Rounded> rounded_;
  std::vector<Case> done_;
  std::string refused_;
};

}  // namespace pto::testing
