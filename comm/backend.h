#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/pto_comm.h"

// The interface of a backend. The C API checks arguments, stores error texts and owns the objects;
// a backend gets arguments that are in range.
namespace pto::comm {

struct JoinSpec {
  std::string name;
  std::string directory;
  uint64_t generation = 0;
  uint32_t rank = 0;
  uint32_t size = 1;
  int64_t deadline = 0;  // ns of CLOCK_MONOTONIC, like all deadlines here
};

struct WindowSpec {
  uint64_t id = 0;
  std::vector<uint32_t> ranks;  // the members' ranks in the job, in the window's order
  uint32_t index = 0;           // this rank's place among them
  uint64_t bytes = 0;
  uint32_t signal_count = 0;
  uint32_t scratch_bytes = 0;
};

class MappedWindow;

// One member's end of a window. Thread-safe. Its communicator outlives it.
class Window {
 public:
  virtual ~Window() = default;

  virtual void* local() const = 0;
  // NOT_SUPPORTED where the peer's memory cannot be mapped.
  virtual absl::StatusOr<void*> Remote(uint32_t peer) const = 0;
  virtual absl::Status Put(uint32_t peer, uint64_t offset, const void* from, uint64_t bytes) = 0;
  virtual absl::Status Get(uint32_t peer, uint64_t offset, void* to, uint64_t bytes) = 0;
  virtual absl::Status Notify(uint32_t peer, uint32_t signal, pto_notify_op op, int64_t value) = 0;
  virtual absl::Status Wait(uint32_t signal, pto_compare compare, int64_t value, int64_t deadline,
                            int64_t* seen) = 0;
  virtual int64_t ReadSignal(uint32_t signal) const = 0;
  virtual absl::Status Barrier(int64_t deadline) = 0;
  // The window, if all its members can see each other's memory; otherwise nullptr.
  virtual MappedWindow* mapped() { return nullptr; }
};

// One rank's membership in a job. Thread-safe. Destroying it leaves the job, without waiting.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual absl::StatusOr<std::unique_ptr<Window>> CreateWindow(const WindowSpec& spec,
                                                               int64_t deadline) = 0;
  virtual absl::Status Barrier(int64_t deadline) = 0;
  virtual void Abort(absl::string_view why) = 0;
};

using JoinFunction = absl::StatusOr<std::unique_ptr<Communicator>> (*)(const JoinSpec& spec);

// The backend's join function; nullptr for an unknown name.
JoinFunction FindBackend(absl::string_view name);

}  // namespace pto::comm
