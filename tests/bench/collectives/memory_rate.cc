#include "tests/bench/collectives/memory_rate.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/bench/samples.h"

namespace pto::bench {

double MemoryRate(int threads, double seconds) {
  // Much more than any cache holds, even per part.
  constexpr size_t kBytes = size_t{128} << 20;
  const size_t part = kBytes / static_cast<size_t>(threads);
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  double best = 0;
  const double until = Seconds() + seconds;
  for (int round = 0; round < 3 || Seconds() < until; ++round) {
    const double start = Seconds();
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) {
      others.emplace_back([&, i] {
        const size_t at = static_cast<size_t>(i) * part;
        std::memcpy(to.data() + at, from.data() + at, part);
      });
    }
    std::memcpy(to.data(), from.data(), part);
    for (std::thread& other : others) other.join();
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / (Seconds() - start));
  }
  return best;
}

}  // namespace pto::bench
