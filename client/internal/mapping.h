#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace pto::internal {

class BrokerLink;

// Identifies a mapping to the daemon, and the link's connection that it belongs to.
struct Region {
  uint64_t number = 0;
  uint64_t connection = 0;
};

// A buffer's memory in this process. The last reference unmaps it and reports that to the daemon.
class Mapping {
 public:
  Mapping(std::shared_ptr<BrokerLink> link, Region region, std::span<std::byte> bytes)
      : link_(std::move(link)), region_(region), bytes_(bytes) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Region region() const { return region_; }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  const std::shared_ptr<BrokerLink> link_;
  const Region region_;
  const std::span<std::byte> bytes_;
};

}  // namespace pto::internal
