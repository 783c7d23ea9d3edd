#include "runtime/chip/ascend/device/payload.h"

#include <cstring>

namespace pto::ascend {
namespace {

// Behind the 50 words, within the 512 bytes.
constexpr uint64_t kLocalOffset = 400;
constexpr uint64_t kGlobalOffset = 448;
static_assert(host::kPtoWords * sizeof(int64_t) <= kLocalOffset);
static_assert(kLocalOffset + sizeof(host::PtoLocalContext) <= kGlobalOffset);
static_assert(kGlobalOffset + sizeof(host::PtoGlobalContext) <= PayloadLayout::kPayloadBytes);

constexpr uint64_t kConditionsBytes =
    uint64_t{host::kPtoMaxConditions} * sizeof(host::PtoConditionEntry);

}  // namespace

PayloadLayout PayloadLayout::Of(size_t tensors, uint32_t blocks) {
  PayloadLayout layout;
  layout.tensors_offset = blocks * kPayloadBytes;
  layout.headers_offset = layout.tensors_offset + tensors * sizeof(host::PtoTensor);
  layout.headers_bytes = blocks * sizeof(BlockHeader);
  layout.upload_bytes = layout.headers_offset + layout.headers_bytes;
  layout.conditions_offset = (layout.upload_bytes + 63) / 64 * 64;
  layout.total_bytes = layout.conditions_offset + blocks * kConditionsBytes;
  return layout;
}

void FillPayload(const KernelCall& call, const PayloadLayout& layout, DeviceAddress address,
                 std::byte* upload) {
  int64_t words[host::kPtoWords] = {};
  size_t next = 0;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    words[next++] =
        static_cast<int64_t>(address + layout.tensors_offset + i * sizeof(host::PtoTensor));
  }
  for (const int64_t scalar : call.scalars) words[next++] = scalar;
  host::PtoLocalContext local = {};
  local.block_count = call.block_count;
  local.capacity = host::kPtoMaxConditions;
  const host::PtoGlobalContext global = {};
  for (uint32_t block = 0; block < call.blocks; ++block) {
    const uint64_t at = block * PayloadLayout::kPayloadBytes;
    const DeviceAddress header = address + layout.headers_offset + block * sizeof(BlockHeader);
    words[host::kPtoLocalWord] = static_cast<int64_t>(address + at + kLocalOffset);
    words[host::kPtoGlobalWord] = static_cast<int64_t>(address + at + kGlobalOffset);
    local.block_index = call.first_block + block;
    local.condition_count = header;
    local.error_code = header + offsetof(BlockHeader, error);
    local.conditions = address + layout.conditions_offset + block * kConditionsBytes;
    local.task_token = 1;
    std::memset(upload + at, 0, PayloadLayout::kPayloadBytes);
    std::memcpy(upload + at, words, sizeof words);
    std::memcpy(upload + at + kLocalOffset, &local, sizeof local);
    std::memcpy(upload + at + kGlobalOffset, &global, sizeof global);
  }
  if (!call.tensors.empty()) {
    std::memcpy(upload + layout.tensors_offset, call.tensors.data(),
                call.tensors.size() * sizeof(host::PtoTensor));
  }
  std::memset(upload + layout.headers_offset, 0, layout.headers_bytes);
}

uint32_t FindEvent(absl::Span<const std::byte> headers, uint32_t blocks, BlockHeader* header) {
  for (uint32_t block = 0; block < blocks; ++block) {
    if (headers.size() < (block + 1) * sizeof *header) break;
    std::memcpy(header, headers.data() + block * sizeof *header, sizeof *header);
    if (header->conditions != 0 || header->error != 0) return block;
  }
  return blocks;
}

}  // namespace pto::ascend
