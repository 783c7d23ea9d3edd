#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

// What kernels of the PTO ABI look for in the process that runs them.
//
// They find two functions with dlsym(RTLD_DEFAULT, …), so the executable exports them; its target
// depends on :pto_hooks, which sees to that. A kernel that does not find them hangs in its first
// pipe.
extern "C" {
// 1 on the second vector core of a cluster, otherwise 0. Of the calling thread.
uint32_t pto_sim_get_subblock_id(void);
// Memory that the cores of a cluster share: the same for the same key, zeroed when it is first
// asked for, aligned to 64 bytes. nullptr if there is none, or if another size was asked for first.
void* pto_sim_get_pipe_shared_state(uint64_t key, size_t bytes);
}

namespace pto::host {

// The place of a block. Kernels that share a pipe run on one cluster, in one run.
struct PtoPlace {
  uint64_t run = 0;
  uint32_t chip = 0;
  uint32_t cluster = 0;  // unlike that of any other block that runs at the same time on the chip
  uint32_t sub_block = 0;
};

// While it exists, the calling thread is at this place. Places may be nested.
class PtoPlaceScope {
 public:
  explicit PtoPlaceScope(const PtoPlace& place);
  ~PtoPlaceScope();
  PtoPlaceScope(const PtoPlaceScope&) = delete;
  PtoPlaceScope& operator=(const PtoPlaceScope&) = delete;

 private:
  const PtoPlace before_;
};

// Frees the memory of the pipes of a run. None of its blocks may run any more.
void EndPtoRun(uint64_t run);

// How many bytes the pipes of all runs have.
size_t PtoPipeBytes();

// Sets the environment that kernels of the PTO ABI read. Call it once in main, before threads
// start.
//
// The most important variable forbids waits to give up: by default they return after a while as if
// they had been satisfied, and their kernel goes on with wrong data. The host bounds waits instead.
void SetPtoEnvironment();
// FIELD_INVALID if waits may give up, or if kernels cannot find the functions above. Kernels run in
// the same process and could change either, so the calls of kernels check it too.
absl::Status CheckPtoEnvironment();
// Only whether waits never give up. Cheap.
bool PtoWaitsAreEndless();

}  // namespace pto::host
