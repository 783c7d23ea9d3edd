// Kernel binaries and launches of the fake AscendCL. A binary is a shared object for CPU
// simulation.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime.h"
#include "tables.h"

using namespace fake;

namespace {

struct Binary {
  std::string path;
  int32_t device;
};

struct Function {
  Binary* binary;
  std::string name;
};

std::mutex mutex;
// Never destroyed: they are what keeps their elements from being leaks.
std::set<Binary*>& binaries = *new std::set<Binary*>;
std::set<Function*>& functions = *new std::set<Function*>;

bool IsElf(const char* path) {
  char head[4] = {};
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool elf = read(file, head, 4) == 4 && memcmp(head, "\177ELF", 4) == 0;
  close(file);
  return elf;
}

uint64_t FirstWord(const void* args, size_t bytes) {
  uint64_t word = 0;
  if (bytes >= sizeof word) memcpy(&word, args, sizeof word);
  return word;
}

bool Within(uint64_t word, uint64_t address, uint64_t bytes) {
  return word >= address && word < address + bytes;
}

// Whether the payloads of a kernel name the memory: directly, or in what they point to.
bool Names(uint64_t payload, uint32_t blocks, uint64_t address, uint64_t bytes) {
  constexpr uint64_t kPayloadWords = 64;
  constexpr uint64_t kTensorWords = 16;
  if (Within(payload, address, bytes)) return true;
  const uint64_t count = blocks * kPayloadWords;
  const auto* const words = reinterpret_cast<uint64_t*>(TranslateAny(payload, count * 8));
  for (uint64_t i = 0; words != nullptr && i < count; ++i) {
    if (!IsDeviceAddress(words[i])) continue;
    if (Within(words[i], address, bytes)) return true;
    const auto* const inner = reinterpret_cast<uint64_t*>(TranslateAny(words[i], kTensorWords * 8));
    for (uint64_t k = 0; inner != nullptr && k < kTensorWords; ++k) {
      if (Within(inner[k], address, bytes)) return true;
    }
  }
  return false;
}

}  // namespace

FAKE_EXPORT int aclrtBinaryLoadFromFile(const char* path, void* options, void** binary) {
  Call call("aclrtBinaryLoadFromFile", CurrentIndex(), path == nullptr ? "" : path);
  if (const int code = Enter(call, "aclrtBinaryLoadFromFile")) return call.End(code);
  if (path == nullptr || path[0] != '/')
    return call.End(107000, "EE1001: the path is not absolute");
  if (options != nullptr) {
    const auto* const first = table::Field<const char*>(options, table::kLoadOptionsPointer);
    const auto count = table::Field<size_t>(options, table::kLoadOptionsCount);
    for (size_t i = 0; i < count; ++i) {
      const auto type =
          table::Field<int32_t>(first + i * table::kLoadOptionSize, table::kLoadOptionType);
      if (type < 1 || type > 3) return call.End(107000, "EE1001: no such option");
    }
  }
  if (!IsElf(path)) return call.End(107000, "EE1001: the file is not a kernel binary");
  std::lock_guard<std::mutex> lock(mutex);
  auto* const made = new Binary{path, CurrentIndex()};
  binaries.insert(made);
  *binary = made;
  return call.End(0);
}

FAKE_EXPORT int aclrtBinaryGetFunction(void* binary, const char* name, void** function) {
  Call call("aclrtBinaryGetFunction", CurrentIndex(), name);
  if (const int code = Enter(call, "aclrtBinaryGetFunction")) return call.End(code);
  std::lock_guard<std::mutex> lock(mutex);
  auto* const from = static_cast<Binary*>(binary);
  if (binaries.count(from) == 0) return call.End(107017);
  if (CurrentDevice()->npu()->Resolve(from->path, name) != 0) {
    return call.End(107000, std::string("EE1001: the binary has no kernel ") + name);
  }
  auto* const made = new Function{from, name};
  functions.insert(made);
  *function = made;
  return call.End(0);
}

FAKE_EXPORT int aclrtBinaryUnLoad(void* binary) {
  Call call("aclrtBinaryUnLoad", CurrentIndex());
  const int entered = Enter(call, "aclrtBinaryUnLoad");
  if (entered != 0 && entered != 507899) return call.End(entered);
  // Kept: functions refer to it.
  static auto* const kept = new std::set<Binary*>;
  std::lock_guard<std::mutex> lock(mutex);
  auto* const found = static_cast<Binary*>(binary);
  if (binaries.erase(found) == 0) return call.End(107017);
  kept->insert(found);
  return call.End(0);
}

FAKE_EXPORT int aclrtLaunchKernelWithHostArgs(void* function, uint32_t blocks, void* stream,
                                              void* config, void* args, size_t bytes, void* holders,
                                              size_t holder_count) {
  Call call("aclrtLaunchKernelWithHostArgs", CurrentIndex(), std::to_string(blocks));
  if (const int code = Enter(call, "aclrtLaunchKernelWithHostArgs")) return call.End(code);
  const int64_t cost = GetSettings().launch_us;
  if (cost > 0) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(cost);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(107003);
  if (blocks == 0 || args == nullptr || bytes > sizeof(NpuRequest::arguments) ||
      holders != nullptr || holder_count != 0) {
    return call.End(107000);
  }
  Function kernel;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto* const wanted = static_cast<Function*>(function);
    if (functions.count(wanted) == 0) return call.End(107017);
    // What an operation that timed out leaves behind.
    if (binaries.count(wanted->binary) == 0) return call.End(207001);
    kernel = *wanted;
  }
  int64_t timeout_ns = 0;
  if (config != nullptr) {
    const auto* const first = table::Field<const char*>(config, table::kLaunchCfgPointer);
    const auto count = table::Field<size_t>(config, table::kLaunchCfgCount);
    for (size_t i = 0; i < count; ++i) {
      const char* const attr = first + i * table::kLaunchAttrSize;
      const auto id = table::Field<int32_t>(attr, table::kLaunchAttrId);
      if (id == table::kSchemMode) {
        const auto mode = table::Field<uint8_t>(attr, table::kLaunchAttrValue);
        if (mode > 1) return call.End(107000, "EE1001: no such mode");
        // In batch mode all blocks must find a core.
        if (mode == 1 && blocks > 8) return call.End(107000, "EE1001: more blocks than cores");
      } else if (id == table::kTimeout) {
        timeout_ns = Scaled(table::Field<uint16_t>(attr, table::kLaunchAttrValue)).count();
      } else {
        return call.End(107000, "EE1001: no such attribute");
      }
    }
  }
  std::string arguments(static_cast<const char*>(args), bytes);
  into->Add({"kernel",
             [kernel, path = kernel.binary->path, blocks, arguments = std::move(arguments),
              timeout_ns, &device = into->device()](const std::function<bool()>& aborted) {
               const std::shared_ptr<NpuLink> npu = device.npu();
               const int result =
                   npu->Launch(path, kernel.name, blocks, arguments.data(),
                               static_cast<uint32_t>(arguments.size()), timeout_ns, aborted);
               switch (result) {
                 case 0:
                   return 0;
                 case NpuLink::kTimeout:
                   npu->Kill();
                   SetErrorText("EZ9999: the aicore execution times out, kernel " + kernel.name);
                   return 507014;
                 case NpuLink::kAborted:
                   return 107023;
                 default:
                   SetErrorText("EZ9999: the aicore execution is abnormal, kernel " + kernel.name);
                   return 507015;
               }
             },
             {},
             nullptr,
             [payload = FirstWord(args, bytes), blocks](uint64_t address, uint64_t size) {
               return Names(payload, blocks, address, size);
             }});
  return call.End(0);
}
