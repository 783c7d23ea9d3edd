#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pto::soak {

// The slope of the straight line through these points (x, y) that misses them least, by squares;
// 0 when there are fewer than two, or all have one x.
inline double Slope(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < 2) return 0;
  double mean_x = 0;
  double mean_y = 0;
  for (const auto& [x, y] : points) {
    mean_x += x / static_cast<double>(points.size());
    mean_y += y / static_cast<double>(points.size());
  }
  double both = 0;
  double square = 0;
  for (const auto& [x, y] : points) {
    both += (x - mean_x) * (y - mean_y);
    square += (x - mean_x) * (x - mean_x);
  }
  return square == 0 ? 0 : both / square;
}

}  // namespace pto::soak
