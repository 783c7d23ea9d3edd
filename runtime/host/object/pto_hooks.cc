#include "runtime/host/object/pto_hooks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"
#include "runtime/host/object/inspect.h"

namespace pto::host {
namespace {

constexpr char kSubBlockHook[] = "pto_sim_get_subblock_id";
constexpr char kPipeHook[] = "pto_sim_get_pipe_shared_state";
// A simulated L0C cache of this size is large enough for all kernels. With less, some write past
// its end.
constexpr char kL0cVariable[] = "PTO_CPU_SIM_L0C_BYTES";
constexpr char kL0cBytes[] = "262144";

thread_local PtoPlace place;

// The memory of all pipes.
class Pipes {
 public:
  static Pipes& Instance() {
    static auto* const pipes = new Pipes;
    return *pipes;
  }

  void* Get(uint64_t key, size_t bytes) {
    MutexLock lock(mutex_);
    Memory& memory = memory_[{place.run, place.chip, place.cluster, key}];
    if (memory.data == nullptr) {
      constexpr std::align_val_t kAlign{64};
      memory.data.reset(static_cast<char*>(::operator new(bytes, kAlign, std::nothrow)));
      if (memory.data == nullptr) return nullptr;
      std::memset(memory.data.get(), 0, bytes);
      memory.bytes = bytes;
      bytes_ += bytes;
    }
    return memory.bytes == bytes ? memory.data.get() : nullptr;
  }

  void EndRun(uint64_t run) {
    MutexLock lock(mutex_);
    const auto first = memory_.lower_bound({run, 0, 0, 0});
    auto last = first;
    for (; last != memory_.end() && std::get<0>(last->first) == run; ++last) {
      bytes_ -= last->second.bytes;
    }
    memory_.erase(first, last);
  }

  size_t bytes() {
    MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  struct Free {
    void operator()(char* data) const { ::operator delete(data, std::align_val_t{64}); }
  };
  struct Memory {
    std::unique_ptr<char, Free> data;
    size_t bytes = 0;
  };
  using Key = std::tuple<uint64_t, uint32_t, uint32_t, uint64_t>;  // run, chip, cluster, key

  Mutex mutex_;
  std::map<Key, Memory> memory_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

PtoPlaceScope::PtoPlaceScope(const PtoPlace& now) : before_(std::exchange(place, now)) {}

PtoPlaceScope::~PtoPlaceScope() { place = before_; }

void EndPtoRun(uint64_t run) { Pipes::Instance().EndRun(run); }

size_t PtoPipeBytes() { return Pipes::Instance().bytes(); }

void SetPtoEnvironment() {
  setenv(kWaitLooksVariable, "0", 1);
  setenv(kL0cVariable, kL0cBytes, 1);
}

bool PtoWaitsAreEndless() {
  const char* const looks = getenv(kWaitLooksVariable);
  return looks != nullptr && std::strcmp(looks, "0") == 0;
}

absl::Status CheckPtoEnvironment() {
  if (!PtoWaitsAreEndless()) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the process does not set ", kWaitLooksVariable,
                              "=0, so a wait of a kernel could give up and count as satisfied"))
        .At("environment");
  }
  const std::pair<const char*, const void*> hooks[] = {
      {kSubBlockHook, reinterpret_cast<const void*>(&pto_sim_get_subblock_id)},
      {kPipeHook, reinterpret_cast<const void*>(&pto_sim_get_pipe_shared_state)}};
  for (const auto& [name, function] : hooks) {
    if (dlsym(RTLD_DEFAULT, name) == function) continue;
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the process does not export ", name, ", which kernels look for"))
        .At("environment");
  }
  return absl::OkStatus();
}

}  // namespace pto::host

uint32_t pto_sim_get_subblock_id(void) { return pto::host::place.sub_block; }

void* pto_sim_get_pipe_shared_state(uint64_t key, size_t bytes) {
  return pto::host::Pipes::Instance().Get(key, bytes);
}
