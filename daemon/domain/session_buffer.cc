#include "daemon/domain/session_buffer.h"

namespace pto::daemon {

absl::Status SessionBuffer::Write(uint64_t offset, absl::string_view bytes) {
  MutexLock lock(contents);
  return memory->Write(offset, bytes.data(), bytes.size());
}

absl::Status SessionBuffer::Read(uint64_t offset, uint64_t size, std::string* bytes) {
  MutexLock lock(contents);
  if (const engine::HostAllocation* const host = memory->AsHost(); host != nullptr) {
    // Copies once: resize would write zeros first.
    bytes->assign(reinterpret_cast<const char*>(host->data() + offset), size);
    return absl::OkStatus();
  }
  bytes->resize(size);
  return memory->Read(offset, bytes->data(), size);
}

uint64_t BoundSlots::bytes() const {
  uint64_t bytes = sizeof *this + slots.size() * sizeof slots[0] +
                   buffers.size() * sizeof buffers[0] +
                   domain_scalars.size() * sizeof domain_scalars[0];
  if (accesses != nullptr) bytes += accesses->size() * sizeof(BufferAccess);
  for (const DomainRanks& domain : domain_ranks) {
    bytes += sizeof domain + domain.domain.size() + domain.chips.size() * sizeof domain.chips[0];
  }
  return bytes;
}

std::vector<uint64_t> BoundSlots::NamedScalars(const engine::GraphImage& image,
                                               std::vector<uint64_t> named) const {
  if (domain_scalars.empty()) return named;
  if (named.empty()) {
    const absl::Span<const uint64_t> own = image.scalar_values().first(image.scalar_names().size());
    named.assign(own.begin(), own.end());
  }
  for (const auto& [index, number] : domain_scalars) named[index] = number;
  return named;
}

}  // namespace pto::daemon
