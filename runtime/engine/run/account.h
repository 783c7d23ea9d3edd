#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace pto {

// Whoever shares the chips with others: a session, say. Accounts that want more than a chip has
// get core time there by their weights. What one leaves unused is for the others, and is not
// saved up. Never changed, so any thread may use it.
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

}  // namespace pto
