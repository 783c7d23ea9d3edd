// The devices of the fake as a process sees them. An address of a device is one of a reservation
// that nobody may touch: real bytes are in a file that is mapped elsewhere. So a program that
// dereferences one dies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "npu_link.h"
#include "world.h"

namespace fake {

class Device;

// What a stream does, one after the other, in a thread of its own.
struct Operation {
  std::string name;
  // Returns a code. Asks `aborted` while it waits.
  std::function<int(const std::function<bool()>& aborted)> run;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // addresses and bytes that it uses
  // Called instead of `run`, or after it was aborted. May be empty.
  std::function<void()> dropped = nullptr;
  // Whether it uses more than the ranges, while it runs. May be empty.
  std::function<bool(uint64_t address, uint64_t bytes)> uses = nullptr;
};

class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();
  Device& device() const { return device_; }
  void Add(Operation operation);
  // 0: all has been done, or the first error; -1: it is busy.
  int Query();
  int Synchronize(int32_t ms);
  void Abort();
  bool Uses(uint64_t address, uint64_t bytes);
  bool busy();

 private:
  void Work();
  static void Drop(const Operation& operation) {
    if (operation.dropped) operation.dropped();
  }

  Device& device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  Operation* running_ = nullptr;
  bool stop_ = false;
  std::atomic<bool> aborted_{false};
  int error_ = 0;
  std::string text_;  // the message of the error, for the thread that asks
  uint64_t random_ = 88172645463325252u;
  std::thread thread_;
};

struct Event {
  explicit Event(Device& device) : device(device) {}
  Device& device;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;  // how often it was put into a stream
  uint64_t done = 0;      // the last of these that a stream has reached
  uint64_t dropped = 0;   // the last that a stream will never reach
};

struct Mapping {
  uint64_t bytes = 0;
  int32_t owner = 0;    // the device that has the memory
  uint64_t offset = 0;  // there
  bool access = false;
};

class Device {
 public:
  explicit Device(int32_t index);
  int32_t index() const { return index_; }

  // ---- memory. Offsets are in the file.
  // Returns 0, if there is no room.
  uint64_t Take(uint64_t bytes, uint64_t align);
  bool Give(uint64_t offset);
  uint64_t free_bytes();
  uint64_t SizeAt(uint64_t offset);
  uint64_t AddressOf(uint64_t offset) const;
  std::byte* Bytes(uint64_t offset);
  // The bytes of an address; nullptr, if they are not all of one piece of memory.
  std::byte* Translate(uint64_t address, uint64_t bytes);
  // Charges memory that is not at an address, of a communicator.
  bool Charge(int64_t bytes);

  // ---- virtual memory
  uint64_t Reserve(uint64_t bytes);
  bool Release(uint64_t address);
  bool Map(uint64_t address, const Mapping& mapping);
  bool Unmap(uint64_t address);
  Mapping* FindMapping(uint64_t address);

  // ---- health
  int poison() const { return poison_.load(); }
  void Poison(int code) {
    int none = 0;
    poison_.compare_exchange_strong(none, code);
  }
  void Reset();

  std::shared_ptr<NpuLink> npu();

  std::mutex mutex;
  int references = 0;
  long owner_thread = 0;
  std::set<Stream*> streams;
  std::set<Event*> events;

 private:
  const int32_t index_;
  std::byte* data_ = nullptr;
  std::map<uint64_t, uint64_t> taken_;  // offset and bytes
  int64_t charged_ = 0;
  uint64_t next_reserve_ = 0;
  std::map<uint64_t, uint64_t> reserved_;
  std::map<uint64_t, Mapping> mappings_;
  std::atomic<int> poison_{0};
  std::shared_ptr<NpuLink> npu_;
};

// All devices; those that were not used are cheap.
Device& DeviceAt(int32_t index);
// The device of this thread, or nullptr.
Device* CurrentDevice();
// The bytes of an address of any device; nullptr: it is none.
std::byte* TranslateAny(uint64_t address, uint64_t bytes);
bool IsDeviceAddress(uint64_t address);
// The memory of a device as a file of the machine, mapped here.
std::byte* MapMemoryOf(int32_t device);

inline constexpr uint64_t kArena = 0x200000000000;         // linear memory
inline constexpr uint64_t kVirtualArena = 0x280000000000;  // reserved addresses
inline constexpr uint64_t kArenaStride = uint64_t{1} << 36;
// Offset 0 is no memory.
inline constexpr uint64_t kFirstOffset = 4096;

}  // namespace fake
