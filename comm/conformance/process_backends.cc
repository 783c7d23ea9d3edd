#include "comm/conformance/ranks.h"

namespace pto::comm {

std::vector<Backend> Backends() { return {{.name = "shm", .processes = true}}; }

}  // namespace pto::comm
