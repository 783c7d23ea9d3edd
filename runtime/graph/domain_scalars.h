#pragma once

#include <cstdint>
#include <vector>

#include "runtime/graph/image.h"

namespace pto::engine {

// Domains in graphs. A task names a domain by a scalar of the type kDomainScalar, which is one of
// the image's named scalars and has the domain's name. Each run sets it to the number of the domain
// that has the name then. Launches cannot bind it.

// A chip on which tasks use the domain of a scalar.
struct DomainUser {
  uint32_t scalar = 0;  // index in GraphImage::scalar_names
  uint32_t chip = 0;
  uint32_t task = 0;  // the first one
};

// Whether the scalar is a domain.
bool IsDomain(const ImageScalar& scalar);
// All of them, in the order of their first tasks. Looks at all tasks if the image has domains.
std::vector<DomainUser> FindDomainUsers(const GraphImage& image);

}  // namespace pto::engine
