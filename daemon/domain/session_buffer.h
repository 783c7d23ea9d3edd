#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/domain/domain_ranks.h"
#include "daemon/turn/run_turn.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/allocation.h"
#include "runtime/engine/run/run.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

class DomainUses;

// A buffer of a session, or of a window of one of its domains. Its memory lives as long as anything
// uses it.
struct SessionBuffer {
  // Copy a client's bytes in and out. The range must lie within the buffer.
  absl::Status Write(uint64_t offset, absl::string_view bytes);
  absl::Status Read(uint64_t offset, uint64_t size, std::string* bytes);

  std::string id;  // in a window: its name without the session's
  std::shared_ptr<engine::Allocation> memory;
  // Puts the runs that use it in order. Guarded by the session.
  const std::shared_ptr<BufferQueue> queue = std::make_shared<BufferQueue>();
  // Runs that are queued or running and use it.
  std::atomic<uint32_t> in_use{0};
  // Deleted, or its session has ended: what still holds it must let go. Never taken back.
  std::atomic<bool> removed{false};
  // Held while a client's bytes are copied in or out, and while the memory moves to where a client
  // can map it. Comes after the session's lock.
  Mutex contents;
  // Held during a step of moving the memory: one thread at a time.
  Mutex sharing;
  // Whether these are the signals of a rank, which clients change by notifying only.
  bool signals = false;
};

// The buffers in a graph's slots.
struct BoundSlots {
  // Those of the image, and the windows of domains that tasks name.
  engine::RunSlots slots;
  std::vector<std::shared_ptr<SessionBuffer>> buffers;
  // What a run does with them. Holds none of their memory.
  std::shared_ptr<const RunAccesses> accesses;
  // How the slots overlap, when the graph's image has not all dependencies that come of it.
  engine::SlotPlaces aliases;
  // The domains whose buffers or signals are among them; nullptr when there are none.
  std::shared_ptr<const DomainUses> domains;
  // What a run sets the image's named scalars to that are domains: index and number.
  std::vector<std::pair<uint32_t, uint64_t>> domain_scalars;
  // The ranks of those domains, for messages.
  std::vector<DomainRanks> domain_ranks;
  // For what all this takes, unless it is little.
  HostCharge charge;

  // About how much memory it takes.
  uint64_t bytes() const;

  // The values of the image's named scalars for a run that binds `named`.
  std::vector<uint64_t> NamedScalars(const engine::GraphImage& image,
                                     std::vector<uint64_t> named) const;
};

}  // namespace pto::daemon
