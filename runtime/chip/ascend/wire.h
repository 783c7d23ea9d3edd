#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/host/object/pto_layout.h"

// What the daemon and a chip host say to each other, in the rings that they share. Each side copies
// a message out before it looks at it, and believes no number in it.
namespace pto::ascend {

inline constexpr size_t kMaxWireText = 1024;
// Of one launch.
inline constexpr uint32_t kMaxWireBlocks = 4096;
// The memory through which bytes go between the two: chunks of one size.
inline constexpr uint64_t kSlotBytes = uint64_t{1} << 20;
inline constexpr uint32_t kSlots = 8;

struct Request {
  enum Kind : uint32_t {
    kAllocate = 1,  // bytes
    kFree,          // address
    kWrite,         // address, bytes, slot: from the slot
    kRead,          // address, bytes, slot: to the slot
    kFill,          // address, bytes, slot: the value
    kCopy,          // address, bytes, from
    kLoadKernel,    // text: path, then '\n', then entry
    kUnloadKernel,  // kernel
    kLaunch,  // kernel, blocks, first_block, block_count, together, timeout_ns, tensors, scalars
    kCancel,  // target: ends that launch, and nothing else. NOT_AVAILABLE: the release cannot
    kProbe,
    kReset,  // epoch: of what comes behind it
    kStop,   // gives the device back and ends; no reply
    kLast = kStop,
  };

  uint32_t kind = 0;
  uint32_t slot = 0;
  uint64_t id = 0;     // of the reply
  uint64_t epoch = 0;  // of the memory and the kernels that it names
  uint64_t target = 0;
  uint64_t address = 0;
  uint64_t from = 0;
  uint64_t bytes = 0;
  int64_t timeout_ns = 0;  // 0: none
  uint32_t kernel = 0;
  uint32_t blocks = 1;
  uint32_t first_block = 0;
  uint32_t block_count = 1;
  uint32_t together = 0;
  std::vector<host::PtoTensor> tensors;
  std::vector<int64_t> scalars;
  std::string text;
};

struct Reply {
  enum Kind : uint32_t {
    kDone = 1,  // the answer to a request
    kReady,     // the first message: `shape`
    kRefused,   // the first message, if the device cannot be opened: `status`, `device_count`
    kFailed,    // the device has failed: `status` is its first error
    kLast = kFailed,
  };

  uint32_t kind = kDone;
  uint64_t id = 0;
  uint64_t value = 0;  // an address, a kernel, the epoch
  absl::Status status;
  // Of kReady.
  uint32_t device_count = 0;  // 0: it is not known
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  uint64_t memory_bytes = 0;
  std::string text;  // of the chip: its model
};

void Encode(const Request& request, std::vector<std::byte>* bytes);
void Encode(const Reply& reply, std::vector<std::byte>* bytes);
// HOST_LOST for what is malformed.
absl::StatusOr<Request> ParseRequest(absl::Span<const std::byte> bytes);
absl::StatusOr<Reply> ParseReply(absl::Span<const std::byte> bytes);

// What the daemon sends over the lifeline first, with the memory of the slots.
struct StartMessage {
  static constexpr uint32_t kMagic = 0x70746f63;
  uint32_t magic = kMagic;
  int32_t device = 0;
  uint64_t epoch = 0;
};

}  // namespace pto::ascend
