#include "runtime/chip/allocation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

// The chunk size of CopyFrom when it copies through host memory.
constexpr uint64_t kStagingBytes = uint64_t{1} << 20;

bool Contains(uint64_t size, uint64_t offset, uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

absl::Status CannotShare(const Allocation& memory) {
  const std::string chip = absl::StrCat("chips/", memory.chip());
  return Error(reason::kNotAvailable,
               absl::StrCat("this memory of ", chip, " cannot be shared with other processes"))
      .With("chip", chip)
      .Hint("copy the bytes with WriteBuffer and ReadBuffer");
}

class HostPart final : public HostAllocation {
 public:
  HostPart(std::shared_ptr<Allocation> whole, std::byte* data, uint64_t bytes)
      : HostAllocation(whole->chip(), bytes, data), whole_(std::move(whole)) {}

 private:
  const std::shared_ptr<Allocation> whole_;
};

class DevicePart final : public Allocation {
 public:
  DevicePart(std::shared_ptr<Allocation> whole, uint64_t begin, uint64_t bytes)
      : Allocation(whole->chip(), bytes), whole_(std::move(whole)), begin_(begin) {}

  absl::Status Write(uint64_t offset, const void* from, uint64_t bytes) override {
    PTO_CHECK(Contains(this->bytes(), offset, bytes), "a copy lies within its memory");
    return whole_->Write(begin_ + offset, from, bytes);
  }
  absl::Status Read(uint64_t offset, void* to, uint64_t bytes) override {
    PTO_CHECK(Contains(this->bytes(), offset, bytes), "a copy lies within its memory");
    return whole_->Read(begin_ + offset, to, bytes);
  }
  absl::Status Fill(uint64_t offset, uint64_t bytes, std::byte value) override {
    PTO_CHECK(Contains(this->bytes(), offset, bytes), "a fill lies within its memory");
    return whole_->Fill(begin_ + offset, bytes, value);
  }
  absl::Status CopyFrom(uint64_t offset, Allocation& from, uint64_t from_offset,
                        uint64_t bytes) override {
    PTO_CHECK(Contains(this->bytes(), offset, bytes), "a copy lies within its memory");
    return whole_->CopyFrom(begin_ + offset, from, from_offset, bytes);
  }

 private:
  const std::shared_ptr<Allocation> whole_;
  const uint64_t begin_;
};

}  // namespace

std::shared_ptr<Allocation> Allocation::Part(std::shared_ptr<Allocation> whole, uint64_t offset,
                                             uint64_t bytes) {
  PTO_CHECK(Contains(whole->bytes(), offset, bytes), "a part lies within the whole");
  if (const HostAllocation* const host = whole->AsHost(); host != nullptr) {
    std::byte* const data = host->data() + offset;
    return std::make_shared<HostPart>(std::move(whole), data, bytes);
  }
  return std::make_shared<DevicePart>(std::move(whole), offset, bytes);
}

absl::StatusOr<std::shared_ptr<HostAllocation>> Allocation::ToHost(
    const std::shared_ptr<Allocation>& memory) {
  if (HostAllocation* const host = memory->AsHost(); host != nullptr) {
    return std::shared_ptr<HostAllocation>(memory, host);
  }
  const std::string chip = absl::StrCat("chips/", memory->chip());
  return Error(reason::kNotAvailable,
               absl::StrCat("the memory of ", chip, " is not visible to the host"))
      .With("chip", chip)
      .Hint("only copies reach it; use a chip with memory that the host can access");
}

absl::Status Allocation::CopyFrom(uint64_t offset, Allocation& from, uint64_t from_offset,
                                  uint64_t bytes) {
  PTO_CHECK(Contains(this->bytes(), offset, bytes) && Contains(from.bytes(), from_offset, bytes),
            "a copy lies within its memories");
  if (const HostAllocation* const host = from.AsHost(); host != nullptr) {
    return Write(offset, host->data() + from_offset, bytes);
  }
  if (const HostAllocation* const host = AsHost(); host != nullptr) {
    return from.Read(from_offset, host->data() + offset, bytes);
  }
  const auto staging = std::make_unique_for_overwrite<std::byte[]>(std::min(bytes, kStagingBytes));
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(bytes - done, kStagingBytes);
    PTO_RETURN_IF_ERROR(from.Read(from_offset + done, staging.get(), piece));
    PTO_RETURN_IF_ERROR(Write(offset + done, staging.get(), piece));
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status HostAllocation::Write(uint64_t offset, const void* from, uint64_t bytes) {
  PTO_CHECK(Contains(this->bytes(), offset, bytes), "a copy lies within its memory");
  if (bytes > 0) std::memcpy(data_ + offset, from, bytes);
  return absl::OkStatus();
}

absl::Status HostAllocation::Read(uint64_t offset, void* to, uint64_t bytes) {
  PTO_CHECK(Contains(this->bytes(), offset, bytes), "a copy lies within its memory");
  if (bytes > 0) std::memcpy(to, data_ + offset, bytes);
  return absl::OkStatus();
}

absl::Status HostAllocation::Fill(uint64_t offset, uint64_t bytes, std::byte value) {
  PTO_CHECK(Contains(this->bytes(), offset, bytes), "a fill lies within its memory");
  std::memset(data_ + offset, static_cast<int>(value), bytes);
  return absl::OkStatus();
}

absl::Status HostAllocation::PrepareShare(const std::shared_ptr<SharingBudget>&) {
  return CannotShare(*this);
}

absl::StatusOr<bool> HostAllocation::ShareSome() { return CannotShare(*this); }

absl::Status HostAllocation::ShareNew(const std::shared_ptr<SharingBudget>&) {
  return CannotShare(*this);
}

}  // namespace pto::engine
