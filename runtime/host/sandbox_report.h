#pragma once

#include <cstddef>
#include <cstdint>

namespace pto::host {

// Which restrictions are in force in a host. Fixed layout, because hosts send it.
struct SandboxReport {
  struct Item {
    char name[24];
    uint32_t provided;  // 1: the restriction is in force
    char detail[100];   // what it does, or why it is not there
  };
  static constexpr size_t kMaxItems = 10;

  uint32_t count = 0;
  Item items[kMaxItems] = {};
};

}  // namespace pto::host
