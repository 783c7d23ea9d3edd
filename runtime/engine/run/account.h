#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/memory_account.h"

namespace pto::engine {

// A party that shares the chips with others, for example a session. Accounts that want more than a
// chip has get core time there by their weights. Unused time goes to the others and is not saved
// up. Immutable, so any thread may use it.
class Account {
 public:
  // `memory` counts what kernels need for themselves; nullptr when nothing does.
  explicit Account(std::string name, uint32_t weight = 1, std::string owner = "",
                   std::shared_ptr<MemoryAccount> memory = nullptr)
      : name_(std::move(name)),
        owner_(std::move(owner)),
        weight_(std::max(weight, 1u)),
        memory_(std::move(memory)) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }
  // Whom it belongs to. The engine does not look at it.
  const std::string& owner() const { return owner_; }
  uint32_t weight() const { return weight_; }
  const std::shared_ptr<MemoryAccount>& memory() const { return memory_; }

 private:
  const std::string name_;
  const std::string owner_;
  const uint32_t weight_;
  const std::shared_ptr<MemoryAccount> memory_;
};

}  // namespace pto::engine
