#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/chip/ascend/device/device.h"
#include "runtime/host/object/pto_layout.h"

namespace pto::ascend {

// A call of a kernel of the PTO ABI, for all of its blocks.
struct KernelCall {
  absl::Span<const host::PtoTensor> tensors;  // with addresses of the device
  absl::Span<const int64_t> scalars;
  uint32_t blocks = 1;       // of this launch
  uint32_t first_block = 0;  // its number in the task
  uint32_t block_count = 1;  // of the task
};

// What a launch puts into the device's memory, in this order: a payload of 512 bytes for each
// block, with the 50 words and both contexts; the tensors; for each block how many conditions it
// has registered, and its error code; and, not uploaded, room for the conditions.
struct PayloadLayout {
  static constexpr uint64_t kPayloadBytes = 512;

  uint64_t tensors_offset = 0;
  uint64_t headers_offset = 0;
  uint64_t headers_bytes = 0;
  uint64_t conditions_offset = 0;
  uint64_t upload_bytes = 0;
  uint64_t total_bytes = 0;

  static PayloadLayout Of(size_t tensors, uint32_t blocks);
};

// Writes all that is uploaded. `address` is where the device sees it.
void FillPayload(const KernelCall& call, const PayloadLayout& layout, DeviceAddress address,
                 std::byte* upload);

// What a block has said, as it is read back.
struct BlockHeader {
  uint32_t conditions = 0;
  int32_t error = 0;
};
static_assert(sizeof(BlockHeader) == 8);

// The first block that reports an error or a condition. Returns its number, or `blocks`.
uint32_t FindEvent(absl::Span<const std::byte> headers, uint32_t blocks, BlockHeader* header);

}  // namespace pto::ascend
