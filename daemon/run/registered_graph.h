#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/names/digest.h"
#include "daemon/run/aliased_images.h"
#include "runtime/base/memory_account.h"
#include "runtime/graph/domain_scalars.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

// About how much memory an image takes.
inline uint64_t ImageBytes(const engine::GraphImage& image) {
  constexpr uint64_t kObjects = 1024;
  return image.bytes() + kObjects;
}

// A compiled graph that a session launches many times.
struct RegisteredGraph {
  std::string id;
  std::shared_ptr<const std::string> name;
  Digest digest;
  std::shared_ptr<const engine::GraphImage> image;
  std::vector<engine::DomainUser> domain_users;  // of the image
  HostCharge charge;                             // for the image
  absl::Time create_time;
  std::atomic<uint64_t> launch_count{0};
  // How long its last run took, in ns; 0 before the first one has ended. A graph that has shown
  // to be short is run by the thread that launches it.
  std::atomic<int64_t> last_run_ns{0};
  // The longest time that a task of it has for itself, in ns; -1 while nobody has looked.
  std::atomic<int64_t> longest_task_ns{-1};
  // How long its longest task takes at least, in ns; -1 while nobody has looked.
  std::atomic<double> longest_estimate_ns{-1};
  // A caller that keeps the graph beyond a lookup by name must check this first.
  std::atomic<bool> removed{false};
  // The buffers of a launch that binds none itself, found once. Guarded by the session.
  std::shared_ptr<const BoundSlots> own_slots;
  // For launches whose slots overlap. Guarded by the session.
  AliasedImages aliased;
};

}  // namespace pto::daemon
