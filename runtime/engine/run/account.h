#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/core_time.h"
#include "runtime/base/memory_account.h"

namespace pto::engine {

// A party that shares the chips with others, for example a session. Accounts that want more than a
// chip has get core time there by their weights. Unused time goes to the others and is not saved
// up. Thread-safe: only what it counts in changes.
class Account {
 public:
  // `memory` counts what kernels need for themselves, `core_time` how long runs have had cores;
  // nullptr when nothing does.
  explicit Account(std::string name, uint32_t weight = 1, std::string owner = "",
                   std::shared_ptr<MemoryAccount> memory = nullptr,
                   std::shared_ptr<CoreTime> core_time = nullptr)
      : name_(std::move(name)),
        owner_(std::move(owner)),
        weight_(std::max(weight, 1u)),
        memory_(std::move(memory)),
        core_time_(std::move(core_time)) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }
  // Whom it belongs to. The engine does not look at it.
  const std::string& owner() const { return owner_; }
  uint32_t weight() const { return weight_; }
  const std::shared_ptr<MemoryAccount>& memory() const { return memory_; }
  CoreTime* core_time() const { return core_time_.get(); }

 private:
  const std::string name_;
  const std::string owner_;
  const uint32_t weight_;
  const std::shared_ptr<MemoryAccount> memory_;
  const std::shared_ptr<CoreTime> core_time_;
};

}  // namespace pto::engine
