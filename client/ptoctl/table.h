#pragma once

#include <string>
#include <vector>

namespace pto::ptoctl {

// Formats text in aligned columns with a header. Two spaces separate the columns.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // `row` has as many cells as the header. An empty cell is shown as `-`.
  void Add(std::vector<std::string> row);

  // The lines have no trailing spaces.
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace pto::ptoctl
