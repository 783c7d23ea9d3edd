#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pto::kernel_check {

// Where a tensor lies, for a record that outlives its process.
struct GuardedPlace {
  char name[64];
  uint32_t read_only;
  uint64_t mapping_begin;  // with the guard pages
  uint64_t mapping_end;
  uint64_t view_begin;
  uint64_t view_end;

  bool Contains(uint64_t address) const {
    return address >= mapping_begin && address < mapping_end;
  }
  // For example "4 bytes behind the last element of x". Empty if the address is between the first
  // and the last element, or nowhere near.
  std::string Outside(uint64_t address) const;
};

// What a process that crashes leaves in memory that it shares with its parent.
struct CrashRecord {
  static constexpr size_t kMaxPlaces = 128;
  static constexpr size_t kMaxFrames = 32;

  struct Frame {
    uint64_t offset;  // in the object
    char object[64];  // the name of its file, without folders
    char symbol[160];
  };

  // Set by the process while it is well.
  uint32_t place_count;
  GuardedPlace places[kMaxPlaces];

  // Set by its signal handler.
  std::atomic<uint32_t> crashed;
  int32_t signal;
  uint64_t address;
  uint32_t is_write;
  uint32_t member;
  uint32_t block;
  uint32_t frame_count;
  Frame frames[kMaxFrames];
};

// Has crashes of this process recorded, once and for all. The record must stay.
void RecordCrashes(CrashRecord* record);

// Gives the calling thread a stack for the signal handler, so that it can also record that a stack
// overflowed.
class CrashStack {
 public:
  CrashStack();
  ~CrashStack();
  CrashStack(const CrashStack&) = delete;
  CrashStack& operator=(const CrashStack&) = delete;

 private:
  void* memory_;
};

}  // namespace pto::kernel_check
