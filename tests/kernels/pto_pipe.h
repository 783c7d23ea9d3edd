// A pipe from the cube core of a cluster to each of its vector cores.
#pragma once

#include <dlfcn.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sim {

constexpr uint64_t kPipeKey = 42;
constexpr uint32_t kSlots = 2;

// As the host gives it: all zero.
struct Pipe {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t pushed;
  uint32_t popped;
  int32_t slots[kSlots];
};

inline Pipe* FindPipe(uint32_t vector_core) {
  using Find = void* (*)(uint64_t, size_t);
  static const Find find =
      reinterpret_cast<Find>(dlsym(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state"));
  return find == nullptr ? nullptr : static_cast<Pipe*>(find(kPipeKey + vector_core, sizeof(Pipe)));
}

inline uint32_t SubBlockOfThread() {
  using Get = uint32_t (*)();
  static const Get get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "pto_sim_get_subblock_id"));
  return get == nullptr ? ~0u : get();
}

inline void Push(Pipe& pipe, int32_t value) {
  std::unique_lock<std::mutex> lock(pipe.mutex);
  while (pipe.pushed - pipe.popped == kSlots) pipe.changed.wait(lock);
  pipe.slots[pipe.pushed++ % kSlots] = value;
  pipe.changed.notify_all();
}

inline int32_t Pop(Pipe& pipe) {
  std::unique_lock<std::mutex> lock(pipe.mutex);
  while (pipe.pushed == pipe.popped) pipe.changed.wait(lock);
  const int32_t value = pipe.slots[pipe.popped++ % kSlots];
  pipe.changed.notify_all();
  return value;
}

}  // namespace sim
