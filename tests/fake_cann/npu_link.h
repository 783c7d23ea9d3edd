// The process that runs the kernels of one device. Only there the device's addresses are memory. A
// kernel that crashes takes it down, which is the device's exception.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace fake {

struct NpuRequest {
  // kAbort: of the launch `id`; no reply.
  enum Kind : uint32_t { kMemory = 1, kMap, kUnmap, kResolve, kLaunch, kAbort };
  uint32_t kind = 0;
  int32_t device = 0;
  uint64_t id = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;
  uint32_t blocks = 0;
  uint32_t argument_bytes = 0;
  char path[512] = {};
  char symbol[128] = {};
  unsigned char arguments[256] = {};
};

struct NpuReply {
  uint64_t id = 0;
  int32_t result = 0;
};

class NpuLink {
 public:
  static constexpr int kGone = -1;     // the process has died
  static constexpr int kTimeout = -2;  // it did not answer in time
  static constexpr int kAborted = -3;

  explicit NpuLink(int32_t device);
  ~NpuLink();

  void Map(uint64_t address, uint64_t bytes, int32_t owner, uint64_t offset);
  void Unmap(uint64_t address, uint64_t bytes);
  // 0: the object has the function.
  int Resolve(const std::string& path, const std::string& symbol);
  // Waits until all blocks have run. `timeout_ns` 0: no limit. Aborting ends this launch only.
  int Launch(const std::string& path, const std::string& symbol, uint32_t blocks,
             const void* arguments, uint32_t bytes, int64_t timeout_ns,
             const std::function<bool()>& aborted);
  void Kill();
  bool dead();

 private:
  int Ask(NpuRequest& request, int64_t timeout_ns, const std::function<bool()>& aborted);
  void Send(const NpuRequest& request);
  void Read();

  const int32_t device_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, int> replies_;
  uint64_t last_id_ = 0;
  bool dead_ = false;
  std::thread reader_;
};

}  // namespace fake
