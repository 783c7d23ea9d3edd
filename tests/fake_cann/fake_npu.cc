// The processor of one device of the fake: maps the device's memory at its addresses and calls the
// `kernel_entry` of objects for CPU simulation, with one payload of 64 words for each block.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "npu_link.h"

namespace {

constexpr int kSocket = 3;
constexpr uint64_t kPayloadBytes = 512;

using Entry = void (*)(int64_t*);

std::string folder;

void Map(int32_t owner, uint64_t address, uint64_t bytes, uint64_t offset) {
  const std::string path = folder + "/hbm-" + std::to_string(owner);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const wanted = reinterpret_cast<void*>(address);
  if (file < 0 ||
      mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
           static_cast<off_t>(offset)) != wanted) {
    fprintf(stderr, "fake NPU: cannot map device %d\n", owner);
    _exit(3);
  }
  close(file);
}

Entry Find(const char* path, const char* symbol) {
  static std::map<std::string, void*> libraries;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  void*& library = libraries[path];
  if (library == nullptr) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "fake NPU: %s\n", dlerror());
    return nullptr;
  }
  return reinterpret_cast<Entry>(dlsym(library, symbol));
}

// Threads that are kept: each block needs one while it runs.
class Cores {
 public:
  void Run(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    if (idle_ < queue_.size()) std::thread([this] { Work(); }).detach();
    changed_.notify_one();
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this] { return !queue_.empty(); });
      --idle_;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;
};

void Reply(uint64_t id, int result) {
  fake::NpuReply reply;
  reply.id = id;
  reply.result = result;
  (void)!send(kSocket, &reply, sizeof reply, MSG_NOSIGNAL);
}

struct Launch {
  std::atomic<uint32_t> left{0};
  std::atomic<bool> aborted{false};
  uint64_t id = 0;
  std::mutex mutex;
  std::set<pthread_t> threads;  // that run a block
};

std::mutex launches_mutex;
std::map<uint64_t, std::shared_ptr<Launch>> launches;

thread_local Launch* running = nullptr;

// A kernel cannot be ended, but its threads can be kept from going on.
void Park(int) {
  if (running == nullptr || !running->aborted) return;
  while (true) pause();
}

void Run(const std::shared_ptr<Launch>& launch, Entry entry, uint64_t payload) {
  {
    std::lock_guard<std::mutex> lock(launch->mutex);
    if (launch->aborted) return;
    running = launch.get();
    launch->threads.insert(pthread_self());
  }
  entry(reinterpret_cast<int64_t*>(payload));
  {
    std::lock_guard<std::mutex> lock(launch->mutex);
    launch->threads.erase(pthread_self());
    running = nullptr;
  }
  if (launch->left.fetch_sub(1) != 1) return;
  Reply(launch->id, 0);
  std::lock_guard<std::mutex> lock(launches_mutex);
  launches.erase(launch->id);
}

void Abort(uint64_t id) {
  std::shared_ptr<Launch> launch;
  {
    std::lock_guard<std::mutex> lock(launches_mutex);
    const auto found = launches.find(id);
    if (found == launches.end()) return;
    // Kept: threads that are parked refer to it.
    launch = found->second;
  }
  std::lock_guard<std::mutex> lock(launch->mutex);
  launch->aborted = true;
  for (const pthread_t thread : launch->threads) pthread_kill(thread, SIGUSR1);
}

void Start(Cores& cores, const fake::NpuRequest& request) {
  const Entry entry = Find(request.path, request.symbol);
  if (entry == nullptr || request.argument_bytes < sizeof(uint64_t)) return Reply(request.id, 1);
  uint64_t payloads = 0;
  memcpy(&payloads, request.arguments, sizeof payloads);
  auto launch = std::make_shared<Launch>();
  launch->left = request.blocks;
  launch->id = request.id;
  {
    std::lock_guard<std::mutex> lock(launches_mutex);
    launches[launch->id] = launch;
  }
  for (uint32_t block = 0; block < request.blocks; ++block) {
    cores.Run([entry, launch, payload = payloads + block * kPayloadBytes] {
      Run(launch, entry, payload);
    });
  }
}

}  // namespace

// What kernels for CPU simulation look for.
extern "C" __attribute__((visibility("default"))) uint32_t pto_sim_get_subblock_id() { return 0; }
extern "C" __attribute__((visibility("default"))) void* pto_sim_get_pipe_shared_state(
    uint64_t key, size_t bytes) {
  static std::mutex mutex;
  static std::map<uint64_t, void*> states;
  std::lock_guard<std::mutex> lock(mutex);
  void*& state = states[key];
  if (state == nullptr) {
    state = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(state, 0, (bytes + 63) / 64 * 64);
  }
  return state;
}

int main(int argc, char** argv) {
  setenv("PTO_CPU_SIM_TWAIT_MAX_SPINS", "0", 1);
  setenv("PTO_CPU_SIM_L0C_BYTES", "262144", 1);
  const int32_t device = argc > 1 ? atoi(argv[1]) : 0;
  signal(SIGUSR1, Park);
  Cores cores;
  fake::NpuRequest request;
  while (recv(kSocket, &request, sizeof request, 0) == sizeof request) {
    switch (request.kind) {
      case fake::NpuRequest::kMemory:
        folder = request.path;
        Map(device, fake::kArena + static_cast<uint64_t>(device) * fake::kArenaStride,
            request.bytes, 0);
        break;
      case fake::NpuRequest::kMap:
        Map(request.device, request.address, request.bytes, request.offset);
        Reply(request.id, 0);
        break;
      case fake::NpuRequest::kUnmap:
        munmap(reinterpret_cast<void*>(request.address), request.bytes);
        Reply(request.id, 0);
        break;
      case fake::NpuRequest::kResolve:
        Reply(request.id, Find(request.path, request.symbol) == nullptr ? 1 : 0);
        break;
      case fake::NpuRequest::kLaunch:
        Start(cores, request);
        break;
      case fake::NpuRequest::kAbort:
        Abort(request.id);
        break;
    }
  }
  _exit(0);
}
