#include "runtime/engine/exec/lane_gang.h"

#include "runtime/engine/exec/worker.h"

namespace pto::engine {

void LaneGang::Do(Worker& worker, Completions& /*completions*/) {
  worker.PostGang(run(), blocks_);
  delete this;
}

}  // namespace pto::engine
