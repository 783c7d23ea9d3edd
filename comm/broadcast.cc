#include <algorithm>
#include <cstring>

#include "comm/collective_steps.h"
#include "runtime/base/long_copy.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

constexpr uint64_t kPieces = 4;

// The root's buffer is in the window: all members copy it from there. With only one other member,
// the root would be idle, so it copies the second half if it can.
absl::Status FromWindow(CollectiveSteps& steps, std::byte* buffer) {
  const CollectiveCall& call = steps.call();
  const bool stream = call.count * steps.count() >= kStreamBytes;
  uint64_t taken = call.count;
  if (steps.count() == 2) {
    const uint32_t other = 1 - call.root;
    if (steps.me() == call.root) {
      PTO_RETURN_IF_ERROR(steps.AwaitCall(other));
    }
    const uint64_t to = steps.me() == call.root ? steps.CallOf(other).output : call.output;
    if (to != CollectiveCall::kPrivate) {
      taken = call.count / 2 / 64 * 64;
      if (steps.me() == call.root) {
        LongCopy(steps.window().data(other) + to + taken, buffer + taken, call.count - taken,
                 stream);
      }
    }
  }
  if (steps.me() != call.root) {
    LongCopy(buffer, steps.window().data(call.root) + steps.CallOf(call.root).input, taken, stream);
  }
  steps.Publish();
  // Until then the root's buffer is read, and with two members the other's buffer is written.
  if (steps.me() == call.root) return steps.AwaitAll();
  return taken == call.count ? absl::OkStatus() : steps.Await(call.root);
}

// The root fills pieces of its scratch in turn; the others copy them out.
absl::Status ThroughScratch(CollectiveSteps& steps, std::byte* buffer) {
  const CollectiveCall& call = steps.call();
  MappedWindow& window = steps.window();
  const uint64_t piece = window.staging_bytes() / kPieces / 64 * 64;
  // Until all members have entered, some may still read data of the previous collective there.
  if (steps.me() == call.root) {
    PTO_RETURN_IF_ERROR(steps.AwaitCalls());
  }
  uint64_t done = 0;
  for (uint64_t i = 0; done < call.count; ++i) {
    const uint64_t bytes = std::min(piece, call.count - done);
    std::byte* place = window.staging(call.root) + i % kPieces * piece;
    if (steps.me() == call.root) {
      if (i >= kPieces) {
        PTO_RETURN_IF_ERROR(steps.AwaitAll(1 - static_cast<int64_t>(kPieces)));
      }
      std::memcpy(place, buffer + done, bytes);
      steps.Publish();
    } else {
      PTO_RETURN_IF_ERROR(steps.Await(call.root, 1));
      std::memcpy(buffer + done, place, bytes);
      steps.Publish();
    }
    done += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Broadcast(CollectiveSteps& steps, void* buffer) {
  const CollectiveCall& call = steps.call();
  auto* bytes = static_cast<std::byte*>(buffer);
  const bool root = steps.me() == call.root;
  const bool small = call.count <= CallSlot::kMessageBytes;
  PTO_ASSIGN_OR_RETURN(std::byte * slot, steps.MessageSlot());
  if (small && root) std::memcpy(slot, bytes, call.count);
  steps.Enter();
  if (!root) {
    PTO_RETURN_IF_ERROR(steps.AwaitCall(call.root));
  }
  if (small) {
    if (!root) std::memcpy(bytes, steps.MessageOf(call.root), call.count);
    return absl::OkStatus();
  }
  if (steps.CallOf(call.root).input != CollectiveCall::kPrivate) return FromWindow(steps, bytes);
  return ThroughScratch(steps, bytes);
}

}  // namespace pto::comm
