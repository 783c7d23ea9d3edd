#pragma once

#include <string>
#include <vector>

#include "runtime/chip/ascend/cann/loader.h"

namespace pto::ascend::testing {

// CANN as this test process was started with it: LD_LIBRARY_PATH names the folder of a layout.
// Opened once. The environment of the fake is set before, in a folder of its own.
const cann::Cann& FakeCann();

// Replaces the fault plan of this process (tests/fake_cann/world.h); empty: no faults.
void SetPlan(const std::string& plan);

// What the trace says against the rules since the last call: violations, calls of a second thread,
// calls after the end, and resources that were not given back. `lost`: a reset took what was left.
std::vector<std::string> TakeBreaches(bool lost = false);

// How often a function was called since the last TakeBreaches.
int CountCalls(const std::string& function);
// The same for lines of the trace that contain the text.
int CountLines(const std::string& text);

}  // namespace pto::ascend::testing
