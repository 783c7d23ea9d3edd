#include "comm/conformance/ranks.h"

namespace pto::comm {

std::vector<Backend> Backends() {
  return {{.name = "local", .processes = false}, {.name = "shm", .processes = false}};
}

}  // namespace pto::comm
