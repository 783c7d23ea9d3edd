#include "runtime/graph/domain_scalars.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "kernels/domain_scalar.h"

namespace pto::engine {

bool IsDomain(const ImageScalar& scalar) { return scalar.type == kDomainScalar; }

std::vector<DomainUser> FindDomainUsers(const GraphImage& image) {
  std::vector<DomainUser> users;
  const absl::Span<const ImageScalar> names = image.scalar_names();
  if (std::none_of(names.begin(), names.end(), IsDomain)) return users;
  absl::flat_hash_set<uint64_t> seen;
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    for (const uint32_t scalar : image.scalar_refs(task)) {
      if (scalar >= names.size() || !IsDomain(names[scalar])) continue;
      const auto add = [&](uint32_t chip) {
        if (seen.insert(uint64_t{scalar} << 32 | chip).second) {
          users.push_back({scalar, chip, task});
        }
      };
      const ImageDetail* const detail = image.detail(task);
      if (detail == nullptr || detail->member_count < 2) {
        add(image.tasks()[task].chip);
      } else {
        for (const uint32_t chip : image.members(*detail)) add(chip);
      }
    }
  }
  return users;
}

}  // namespace pto::engine
