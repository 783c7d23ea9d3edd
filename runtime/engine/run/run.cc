#include "runtime/engine/run/run.h"

#include <utility>

namespace pto::engine {

Run::Run(RunSpec spec, int64_t accepted_ns)
    : spec_(std::move(spec)), accepted_ns_(accepted_ns), tasks_(*spec_.image, *this) {}

Run::~Run() = default;

}  // namespace pto::engine
