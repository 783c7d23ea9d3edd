#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace pto::bench {

// Seconds since an arbitrary moment; only differences are meaningful.
inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The smallest sample that `percent` of all samples do not exceed. NaN without samples.
inline double Percentile(std::vector<double> samples, double percent) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double rank = std::ceil(percent / 100 * static_cast<double>(samples.size()));
  const auto index =
      static_cast<size_t>(std::clamp(rank - 1, 0.0, static_cast<double>(samples.size() - 1)));
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(index), samples.end());
  return samples[index];
}

inline double Median(std::vector<double> samples) { return Percentile(std::move(samples), 50); }

// One number for each round of a benchmark. Reports the median or the minimum over rounds, so that
// disturbed rounds do not count.
class Rounds {
 public:
  void Add(double value) { values_.push_back(value); }
  double median() const { return Median(values_); }
  double lowest() const { return Percentile(values_, 0); }
  // The median of the ratio to another side in the same round: changes of the machine between
  // rounds affect both sides.
  double median_ratio(const Rounds& other) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(values_.size(), other.values_.size()); ++i) {
      ratios.push_back(values_[i] / other.values_[i]);
    }
    return Median(std::move(ratios));
  }

 private:
  std::vector<double> values_;
};

// p50 and p99 of each round.
class LatencyRounds {
 public:
  // `seconds` are the calls of one round.
  void Add(const std::vector<double>& seconds) {
    p50_.Add(Percentile(seconds, 50) * 1e6);
    p99_.Add(Percentile(seconds, 99) * 1e6);
  }
  double p50_us() const { return p50_.median(); }
  double p99_us() const { return p99_.median(); }

 private:
  Rounds p50_;
  Rounds p99_;
};

}  // namespace pto::bench
