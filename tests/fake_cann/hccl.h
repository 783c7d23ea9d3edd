// Communicators of the fake HCCL: ranks meet in a file of the machine's folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime.h"

namespace fake {

inline constexpr uint32_t kMaxRanks = 64;

// What one rank says of its part of the current operation.
struct RankSlot {
  std::atomic<uint64_t> arrived;  // operations that it has begun
  std::atomic<uint64_t> left;     // operations whose data it has read
  std::atomic<int32_t> pid;       // 0: it has not joined
  int32_t device;
  int32_t command;
  int32_t type;
  int32_t op;
  uint32_t root;
  uint64_t count;
  uint64_t from;  // address on its device
  uint64_t counts[kMaxRanks];
  uint64_t places[kMaxRanks];
  char name[128];
  uint32_t buffer_mib;
};

struct CommFile {
  std::atomic<uint32_t> ranks;
  std::atomic<uint32_t> joined;
  std::atomic<uint32_t> used;  // joining is over: the root information is worth nothing any more
  RankSlot slots[kMaxRanks];
};

struct Communicator {
  uint64_t magic = 0;
  CommFile* file = nullptr;
  uint32_t rank = 0;
  uint32_t ranks = 0;
  Device* device = nullptr;
  uint64_t operations = 0;
  int64_t charged = 0;
  double exec_timeout_s = 1836;
  std::atomic<int> async_error{0};
  std::atomic<uint32_t> pending{0};
  std::string name;
};

// Aborts for a handle that is none: so may the real library.
Communicator& CheckCommunicator(void* comm);

}  // namespace fake
