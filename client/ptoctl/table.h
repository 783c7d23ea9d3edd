#pragma once

#include <string>
#include <vector>

namespace pto::ptoctl {

// Text in aligned columns, two blanks between, under a header.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // As many cells as the header. An empty one is shown as `-`.
  void Add(std::vector<std::string> row);

  // Lines without trailing blanks.
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace pto::ptoctl
