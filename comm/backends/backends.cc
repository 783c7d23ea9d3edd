#include "comm/backend.h"
#include "comm/local/local_store.h"
#include "comm/shm/shm_store.h"

namespace pto::comm {

JoinFunction FindBackend(absl::string_view name) {
  if (name == "local") return JoinLocal;
  if (name == "shm") return JoinShm;
  return nullptr;
}

}  // namespace pto::comm
