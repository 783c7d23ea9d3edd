// Communicators of the fake HCCL: in libhcomm.so, or before 8.5 in libhccl.so.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "hccl.h"
#include "tables.h"

namespace fake {
namespace {

constexpr uint64_t kMagic = 0x66616b65636f6d6du;
std::mutex mutex;
std::set<Communicator*> communicators;
std::set<std::string> names;

// The root information: 16 random bytes that name the file, and the rest random too, with a sum
// over all of it at a place of our own.
constexpr size_t kNameAt = 1000;
constexpr size_t kSumAt = 3000;

uint64_t SumOf(const unsigned char* bytes) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < table::kRootInfoSize; ++i) {
    if (i >= kSumAt && i < kSumAt + 8) continue;
    sum = (sum ^ bytes[i]) * 1099511628211u;
  }
  return sum;
}

std::string PathOf(const unsigned char* root) {
  static const char* const hex = "0123456789abcdef";
  std::string path = GetSettings().folder + "/comm-";
  for (size_t i = 0; i < 16; ++i) {
    path += hex[root[kNameAt + i] >> 4];
    path += hex[root[kNameAt + i] & 15];
  }
  return path;
}

CommFile* MapFile(const std::string& path, bool create) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
  if (file < 0) return nullptr;
  if (create && ftruncate(file, sizeof(CommFile)) != 0) abort();
  void* const map = mmap(nullptr, sizeof(CommFile), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return map == MAP_FAILED ? nullptr : static_cast<CommFile*>(map);
}

// What a release of CANN knows of the configuration. Before 8.5 all of HCCL was one library.
bool IsRelease81() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&IsRelease81), &info) == 0) return false;
  const std::string path = info.dli_fname;
  return path.size() >= 10 && path.compare(path.size() - 10, 10, "libhccl.so") == 0;
}

struct Config {
  uint32_t buffer_mib = 200;
  double exec_timeout_s = 1836;
  std::string name;
};

// 0, or a code.
int ReadConfig(const void* bytes, Config* config) {
  const auto size = table::Field<uint64_t>(bytes, table::kCfgSize);
  const auto version = table::Field<uint32_t>(bytes, table::kCfgVersion);
  if (table::Field<uint32_t>(bytes, table::kCfgMagic) != table::kCfgMagicValue) {
    SetErrorText("EI0003: the configuration was not initialised");
    return 1;
  }
  if ((version == 5 && size < table::kCfgSizeV5) || (version >= 8 && size < table::kCfgSizeV8)) {
    Violation(-1, "a configuration claims a version that its size does not cover");
    return 1;
  }
  const auto buffer = table::Field<uint32_t>(bytes, table::kCfgBufferSize);
  if (buffer == 0) return 1;
  if (buffer != 0xffffffff) config->buffer_mib = buffer;
  if (version >= 2) {
    const char* const name = static_cast<const char*>(bytes) + table::kCfgName;
    config->name.assign(name, strnlen(name, 128));
  }
  // An older release ignores what it does not know.
  if (version >= 8 && !IsRelease81()) {
    const auto seconds = table::Field<uint32_t>(bytes, table::kCfgExecTimeout);
    if (seconds != 0xffffffff) config->exec_timeout_s = seconds;
  }
  return 0;
}

int Join(Call& call, uint32_t ranks, const void* root, uint32_t rank, const Config& config,
         void** comm) {
  if (call.fault() != 0) return call.End(call.fault());
  if (root == nullptr || comm == nullptr) return call.End(2);
  if (ranks == 0 || ranks > kMaxRanks || rank >= ranks)
    return call.End(1, "EI0003: the rank is out of range");
  Device* const device = CurrentDevice();
  if (device == nullptr) return call.End(15, "EI9999: the thread has no device");
  if (device->poison() != 0) return call.End(15, "EI9999: the device has failed");
  const auto* const bytes = static_cast<const unsigned char*>(root);
  uint64_t sum = 0;
  memcpy(&sum, bytes + kSumAt, sizeof sum);
  if (sum != SumOf(bytes)) return call.End(1, "EI0003: the root information is damaged");
  CommFile* const file = MapFile(PathOf(bytes), false);
  if (file == nullptr || file->used != 0)
    return call.End(1, "EI0015: the root information was used");
  uint32_t none = 0;
  if (!file->ranks.compare_exchange_strong(none, ranks) && none != ranks) {
    return call.End(1, "EI0003: the ranks disagree on their number");
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!config.name.empty() && !names.insert(config.name).second) {
      return call.End(1, "EI0003: a communicator of that name exists");
    }
  }
  const auto forget_name = [&] {
    std::lock_guard<std::mutex> lock(mutex);
    names.erase(config.name);
  };
  const int64_t charge = int64_t{2} * config.buffer_mib << 20;
  if (!device->Charge(charge)) {
    forget_name();
    return call.End(24, "EI0011: the device has no memory for the communicator's buffers");
  }
  RankSlot& slot = file->slots[rank];
  slot.device = device->index();
  snprintf(slot.name, sizeof slot.name, "%s", config.name.c_str());
  slot.buffer_mib = config.buffer_mib;
  slot.pid = getpid();
  file->joined.fetch_add(1);
  const char* const seconds = getenv("HCCL_CONNECT_TIMEOUT");
  const auto until =
      std::chrono::steady_clock::now() + Scaled((seconds == nullptr ? 120 : atof(seconds)) + 20);
  while (file->joined < ranks) {
    if (std::chrono::steady_clock::now() > until) {
      std::string missing;
      for (uint32_t i = 0; i < ranks; ++i) {
        if (file->slots[i].pid == 0) missing += (missing.empty() ? "" : ", ") + std::to_string(i);
      }
      device->Charge(-charge);
      forget_name();
      return call.End(9, "EI0015: these ranks have not come: " + missing);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  file->used = 1;
  for (uint32_t i = 0; i < ranks; ++i) {
    if (file->slots[i].buffer_mib != slot.buffer_mib ||
        strcmp(file->slots[i].name, slot.name) != 0) {
      device->Charge(-charge);
      forget_name();
      return call.End(1, "EI0005: the configurations of the ranks differ");
    }
  }
  auto* const made = new Communicator;
  made->magic = kMagic;
  made->file = file;
  made->rank = rank;
  made->ranks = ranks;
  made->device = device;
  made->charged = charge;
  made->exec_timeout_s = config.exec_timeout_s;
  made->name = config.name;
  std::lock_guard<std::mutex> lock(mutex);
  communicators.insert(made);
  *comm = made;
  return call.End(0);
}

}  // namespace

Communicator& CheckCommunicator(void* comm) {
  std::lock_guard<std::mutex> lock(mutex);
  auto* const found = static_cast<Communicator*>(comm);
  if (communicators.count(found) == 0 || found->magic != kMagic) {
    Violation(-1, "a handle that is no communicator");
    abort();
  }
  return *found;
}

}  // namespace fake

using namespace fake;

FAKE_EXPORT int HcclGetRootInfo(void* root) {
  Call call("HcclGetRootInfo", CurrentIndex());
  CheckThread("HcclGetRootInfo");
  if (call.fault() != 0) return call.End(call.fault());
  if (root == nullptr) return call.End(2);
  if (CurrentDevice() == nullptr) return call.End(15, "EI9999: the thread has no device");
  auto* const bytes = static_cast<unsigned char*>(root);
  for (size_t at = 0; at < table::kRootInfoSize; at += 256) {
    const size_t size = std::min<size_t>(256, table::kRootInfoSize - at);
    if (getrandom(bytes + at, size, 0) != static_cast<ssize_t>(size)) abort();
  }
  memset(bytes + 100, 0, 32);  // zeros are not the end
  const uint64_t sum = SumOf(bytes);
  memcpy(bytes + kSumAt, &sum, sizeof sum);
  return call.End(MapFile(PathOf(bytes), true) == nullptr ? 4 : 0);
}

FAKE_EXPORT int HcclCommInitRootInfo(uint32_t ranks, const void* root, uint32_t rank, void** comm) {
  Call call("HcclCommInitRootInfo", CurrentIndex(), std::to_string(rank));
  CheckThread("HcclCommInitRootInfo");
  return Join(call, ranks, root, rank, Config(), comm);
}

FAKE_EXPORT int HcclCommInitRootInfoConfig(uint32_t ranks, const void* root, uint32_t rank,
                                           const void* config, void** comm) {
  Call call("HcclCommInitRootInfoConfig", CurrentIndex(), std::to_string(rank));
  CheckThread("HcclCommInitRootInfoConfig");
  Config wanted;
  if (config == nullptr) return call.End(2);
  if (const int code = ReadConfig(config, &wanted)) return call.End(code);
  return Join(call, ranks, root, rank, wanted, comm);
}

FAKE_EXPORT int HcclCommDestroy(void* comm) {
  Call call("HcclCommDestroy", CurrentIndex());
  CheckThread("HcclCommDestroy");
  if (call.fault() != 0) return call.End(call.fault());
  if (comm == nullptr) return call.End(0);
  Communicator& found = CheckCommunicator(comm);
  if (found.pending != 0) return call.End(20);
  found.device->Charge(-found.charged);
  std::lock_guard<std::mutex> lock(mutex);
  names.erase(found.name);
  communicators.erase(&found);
  munmap(found.file, sizeof(CommFile));
  delete &found;
  return call.End(0);
}

FAKE_EXPORT int HcclGetRankId(void* comm, uint32_t* rank) {
  CheckThread("HcclGetRankId");
  *rank = CheckCommunicator(comm).rank;
  return 0;
}

FAKE_EXPORT int HcclGetRankSize(void* comm, uint32_t* size) {
  CheckThread("HcclGetRankSize");
  *size = CheckCommunicator(comm).ranks;
  return 0;
}

FAKE_EXPORT int HcclGetCommAsyncError(void* comm, int* error) {
  Call call("HcclGetCommAsyncError", CurrentIndex());
  CheckThread("HcclGetCommAsyncError");
  *error = call.fault() != 0 ? call.fault() : CheckCommunicator(comm).async_error.load();
  return call.End(0);
}

FAKE_EXPORT const char* HcclGetErrorString(int code) {
  static const char* const kTexts[] = {"no error",     "parameter error", "empty pointer",
                                       "memory error", "internal error",  "not support feature"};
  return code >= 0 && code < 6 ? kTexts[code] : "unknown error";
}

FAKE_EXPORT uint32_t HcclGetCommConfigCapability() { return IsRelease81() ? 5 : 12; }
