// Memory, copies and signals of the fake AscendCL.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime.h"
#include "tables.h"

using namespace fake;

namespace {

std::mutex pinned_mutex;
std::map<uint64_t, size_t> pinned;

bool IsPinned(const void* pointer, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  std::lock_guard<std::mutex> lock(pinned_mutex);
  auto found = pinned.upper_bound(address);
  if (found == pinned.begin()) return false;
  --found;
  return address + bytes <= found->first + found->second;
}

struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int code = 0;
  bool pageable = false;
};

std::byte* Side(const void* pointer, size_t bytes, bool device, int* code) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (device != IsDeviceAddress(address)) {
    *code = 107000;
    SetErrorText("EE1001: the kind of the copy does not suit its addresses");
    Violation(CurrentIndex(), "a copy of the wrong kind");
    return nullptr;
  }
  if (!device) return const_cast<std::byte*>(static_cast<const std::byte*>(pointer));
  std::byte* const data = TranslateAny(address, bytes);
  if (data == nullptr) {
    *code = 107000;
    Violation(CurrentIndex(), "an address outside of all memory");
  }
  return data;
}

Copy Prepare(void* to, size_t max, const void* from, size_t bytes, int32_t kind) {
  Copy copy;
  if (to == nullptr || from == nullptr || bytes > max || kind < 0 || kind > 3) {
    copy.code = 107000;
    return copy;
  }
  const bool to_device = kind == table::kH2D || kind == table::kD2D;
  const bool from_device = kind == table::kD2H || kind == table::kD2D;
  copy.to = Side(to, bytes, to_device, &copy.code);
  copy.from = Side(from, bytes, from_device, &copy.code);
  copy.pageable = (!to_device && !IsPinned(to, bytes)) || (!from_device && !IsPinned(from, bytes));
  return copy;
}

int AddFill(Stream* stream, void* to, size_t max, int32_t value, size_t bytes) {
  int code = 0;
  if (bytes > max) return 107000;
  std::byte* const data = Side(to, bytes, true, &code);
  if (code != 0) return code;
  stream->Add({"fill",
               [data, value, bytes](const auto&) {
                 std::memset(data, value, bytes);
                 return 0;
               },
               {{reinterpret_cast<uint64_t>(to), bytes}}});
  return 0;
}

}  // namespace

FAKE_EXPORT int aclrtMalloc(void** pointer, size_t bytes, int32_t) {
  Call call("aclrtMalloc", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMalloc")) return call.End(code);
  if (bytes == 0 || pointer == nullptr) return call.End(107000);
  Device& device = *CurrentDevice();
  const uint64_t offset = device.Take(bytes, 64);
  if (offset == 0) return call.End(207018, "EL0004: the device has no more memory");
  *pointer = reinterpret_cast<void*>(device.AddressOf(offset));
  return call.End(0);
}

FAKE_EXPORT int aclrtFree(void* pointer) {
  Call call("aclrtFree", CurrentIndex());
  const int entered = Enter(call, "aclrtFree");
  if (entered != 0 && entered != 507899) return call.End(entered);
  Device& device = *CurrentDevice();
  const uint64_t offset = reinterpret_cast<uint64_t>(pointer) - device.AddressOf(0);
  const uint64_t bytes = device.SizeAt(offset);
  if (bytes == 0) {
    Violation(device.index(), "memory was freed that is not allocated");
    return call.End(107000);
  }
  for (Stream* const stream : device.streams) {
    if (device.poison() == 0 && stream->Uses(reinterpret_cast<uint64_t>(pointer), bytes)) {
      Violation(device.index(), "memory was freed that a stream still uses");
    }
  }
  device.Give(offset);
  return call.End(0);
}

FAKE_EXPORT int aclrtMallocHost(void** pointer, size_t bytes) {
  Call call("aclrtMallocHost", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMallocHost")) return call.End(code);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return call.End(200000);
  std::lock_guard<std::mutex> lock(pinned_mutex);
  pinned[reinterpret_cast<uint64_t>(memory)] = bytes;
  *pointer = memory;
  return call.End(0);
}

FAKE_EXPORT int aclrtFreeHost(void* pointer) {
  Call call("aclrtFreeHost", CurrentIndex());
  CheckThread("aclrtFreeHost");
  std::lock_guard<std::mutex> lock(pinned_mutex);
  const auto found = pinned.find(reinterpret_cast<uint64_t>(pointer));
  if (found == pinned.end()) return call.End(107000);
  munmap(pointer, found->second);
  pinned.erase(found);
  return call.End(0);
}

FAKE_EXPORT int aclrtMemcpy(void* to, size_t max, const void* from, size_t bytes, int32_t kind) {
  Call call("aclrtMemcpy", CurrentIndex(), std::to_string(bytes) + "," + std::to_string(kind));
  if (const int code = Enter(call, "aclrtMemcpy")) return call.End(code);
  const Copy copy = Prepare(to, max, from, bytes, kind);
  if (copy.code != 0) return call.End(copy.code);
  std::memcpy(copy.to, copy.from, bytes);
  if (call.corrupt() && bytes > 0) copy.to[0] ^= std::byte{1};
  return call.End(0);
}

FAKE_EXPORT int aclrtMemcpyAsync(void* to, size_t max, const void* from, size_t bytes, int32_t kind,
                                 void* stream) {
  Call call("aclrtMemcpyAsync", CurrentIndex(), std::to_string(bytes) + "," + std::to_string(kind));
  if (const int code = Enter(call, "aclrtMemcpyAsync")) return call.End(code);
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(107003);
  const Copy copy = Prepare(to, max, from, bytes, kind);
  if (copy.code != 0) return call.End(copy.code);
  const bool corrupt = call.corrupt();
  into->Add({"copy",
             [copy, bytes, corrupt](const auto&) {
               std::memcpy(copy.to, copy.from, bytes);
               if (corrupt && bytes > 0) copy.to[0] ^= std::byte{1};
               return 0;
             },
             {{reinterpret_cast<uint64_t>(to), bytes}, {reinterpret_cast<uint64_t>(from), bytes}}});
  // Memory that is not pinned: the call returns when the copy is done.
  if (copy.pageable) into->Synchronize(-1);
  return call.End(0);
}

FAKE_EXPORT int aclrtMemset(void* to, size_t max, int32_t value, size_t bytes) {
  Call call("aclrtMemset", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMemset")) return call.End(code);
  int code = 0;
  std::byte* const data = bytes > max ? nullptr : Side(to, bytes, true, &code);
  if (data == nullptr) return call.End(107000);
  std::memset(data, value, bytes);
  return call.End(0);
}

FAKE_EXPORT int aclrtMemsetAsync(void* to, size_t max, int32_t value, size_t bytes, void* stream) {
  Call call("aclrtMemsetAsync", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMemsetAsync")) return call.End(code);
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(107003);
  return call.End(AddFill(into, to, max, value, bytes));
}

// ---- signals

FAKE_EXPORT int aclrtValueWrite(void* address, uint64_t value, uint32_t, void* stream) {
  Call call("aclrtValueWrite", CurrentIndex(), std::to_string(value));
  if (const int code = Enter(call, "aclrtValueWrite")) return call.End(code);
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(107003);
  int code = 0;
  std::byte* const data = Side(address, 8, true, &code);
  if (data == nullptr || reinterpret_cast<uint64_t>(address) % 8 != 0) return call.End(107000);
  into->Add({"write",
             [data, value](const auto&) {
               __atomic_store_n(reinterpret_cast<uint64_t*>(data), value, __ATOMIC_RELEASE);
               return 0;
             },
             {{reinterpret_cast<uint64_t>(address), 8}}});
  return call.End(0);
}

FAKE_EXPORT int aclrtValueWait(void* address, uint64_t value, uint32_t compare, void* stream) {
  Call call("aclrtValueWait", CurrentIndex(), std::to_string(value));
  if (const int code = Enter(call, "aclrtValueWait")) return call.End(code);
  Stream* const into = CheckStream(stream);
  if (into == nullptr) return call.End(107003);
  int code = 0;
  std::byte* const data = Side(address, 8, true, &code);
  if (data == nullptr || reinterpret_cast<uint64_t>(address) % 8 != 0 || compare > table::kNor) {
    return call.End(107000);
  }
  into->Add({"wait",
             [data, value, compare](const std::function<bool()>& aborted) {
               while (!aborted()) {
                 const uint64_t seen =
                     __atomic_load_n(reinterpret_cast<uint64_t*>(data), __ATOMIC_ACQUIRE);
                 const bool holds = compare == table::kGeq ? static_cast<int64_t>(seen - value) >= 0
                                    : compare == table::kEq  ? seen == value
                                    : compare == table::kAnd ? (seen & value) != 0
                                                             : ~(seen | value) != 0;
                 if (holds) return 0;
                 std::this_thread::sleep_for(std::chrono::microseconds(50));
               }
               return 107023;
             },
             {{reinterpret_cast<uint64_t>(address), 8}}});
  return call.End(0);
}
