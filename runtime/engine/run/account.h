#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace pto::engine {

// A party that shares the chips with others, for example a session. Accounts that want more than a
// chip has get core time there by their weights. Unused time goes to the others and is not saved
// up. Immutable, so any thread may use it.
class Account {
 public:
  explicit Account(std::string name, uint32_t weight = 1)
      : name_(std::move(name)), weight_(std::max(weight, 1u)) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }
  uint32_t weight() const { return weight_; }

 private:
  const std::string name_;
  const uint32_t weight_;
};

}  // namespace pto::engine
