#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pto::soak {

// The slope of the least-squares line through the points (x, y); 0 if there are fewer than two
// points, or all have the same x.
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
