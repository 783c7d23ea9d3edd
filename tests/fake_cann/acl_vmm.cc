// Virtual memory of the fake AscendCL, and memory shared between processes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime.h"
#include "tables.h"

using namespace fake;

namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20;
constexpr uint32_t kMaxShares = 1024;
constexpr uint32_t kMaxPids = 64;

struct Physical {
  int32_t device;
  uint64_t offset;
  uint64_t bytes;
  bool imported;
  bool exported;
  uint32_t maps;
};

// One entry of the table that all processes of the machine share.
struct Share {
  int32_t used;
  int32_t pid;
  int32_t device;
  uint32_t imports;
  uint32_t any_pid;
  uint32_t pid_count;
  uint64_t offset;
  uint64_t bytes;
  int32_t pids[kMaxPids];
};

std::mutex mutex;
std::set<Physical*> handles;

Share* Shares() {
  static Share* const table = [] {
    const std::string path = GetSettings().folder + "/shares";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Share) * kMaxShares) != 0) abort();
    void* const map =
        mmap(nullptr, sizeof(Share) * kMaxShares, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return static_cast<Share*>(map);
  }();
  return table;
}

Physical* Check(void* handle) {
  auto* const found = static_cast<Physical*>(handle);
  return handles.count(found) != 0 ? found : nullptr;
}

int Export(Physical* physical, uint64_t flags, uint64_t* number) {
  if (physical->exported) return 507899;  // once only
  int code = 207001;
  WithFolderLock([&] {
    for (uint32_t i = 1; i < kMaxShares; ++i) {
      Share& share = Shares()[i];
      if (share.used != 0 && kill(share.pid, 0) == 0) continue;
      share = {};
      share.used = 1;
      share.pid = getpid();
      share.device = physical->device;
      share.offset = physical->offset;
      share.bytes = physical->bytes;
      share.any_pid = (flags & 1) != 0;
      *number = i;
      physical->exported = true;
      code = 0;
      return;
    }
  });
  return code;
}

int Import(uint64_t number, void** handle) {
  int code = 107000;
  WithFolderLock([&] {
    if (number == 0 || number >= kMaxShares) return;
    Share& share = Shares()[number];
    if (share.used == 0 || kill(share.pid, 0) != 0) return;
    if (share.pid == getpid()) {
      SetErrorText("EL0005: import in the process that has exported");
      code = 507899;
      return;
    }
    bool allowed = share.any_pid != 0;
    for (uint32_t i = 0; i < share.pid_count; ++i) allowed = allowed || share.pids[i] == getpid();
    if (!allowed) {
      SetErrorText("EL0005: the process is not in the list of the exporter");
      code = 507899;
      return;
    }
    ++share.imports;
    auto* const made = new Physical{share.device, share.offset, share.bytes, true, true, 0};
    handles.insert(made);
    *handle = made;
    code = 0;
  });
  return code;
}

}  // namespace

FAKE_EXPORT int aclrtMemGetAllocationGranularity(void* prop, int32_t, size_t* bytes) {
  Call call("aclrtMemGetAllocationGranularity", CurrentIndex());
  if (const int code = Enter(call, "aclrtMemGetAllocationGranularity")) return call.End(code);
  const auto id = table::Field<uint32_t>(prop, table::kPropLocation + table::kMemLocationId);
  if (id >= static_cast<uint32_t>(GetSettings().devices)) return call.End(107001);
  *bytes = kGranularity;
  return call.End(0);
}

FAKE_EXPORT int aclrtMallocPhysical(void** handle, size_t bytes, const void* prop, uint64_t flags) {
  Call call("aclrtMallocPhysical", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMallocPhysical")) return call.End(code);
  const auto id = table::Field<uint32_t>(prop, table::kPropLocation + table::kMemLocationId);
  const auto type = table::Field<uint32_t>(prop, table::kPropLocation + table::kMemLocationType);
  if (id >= static_cast<uint32_t>(GetSettings().devices)) return call.End(107001);
  if (type != 1 || flags != 0 || bytes == 0 || bytes % kGranularity != 0 ||
      table::Field<uint64_t>(prop, table::kPropReserve) != 0) {
    return call.End(107000);
  }
  Device& device = *CurrentDevice();
  const uint64_t offset = device.Take(bytes, kGranularity);
  if (offset == 0) return call.End(207018, "EL0004: the device has no more memory");
  std::lock_guard<std::mutex> lock(mutex);
  auto* const made = new Physical{device.index(), offset, bytes, false, false, 0};
  handles.insert(made);
  *handle = made;
  return call.End(0);
}

FAKE_EXPORT int aclrtFreePhysical(void* handle) {
  Call call("aclrtFreePhysical", CurrentIndex());
  const int entered = Enter(call, "aclrtFreePhysical");
  if (entered != 0 && entered != 507899) return call.End(entered);
  std::lock_guard<std::mutex> lock(mutex);
  Physical* const found = Check(handle);
  if (found == nullptr) return call.End(107017);
  if (found->maps != 0) Violation(CurrentIndex(), "physical memory was freed while it is mapped");
  WithFolderLock([&] {
    for (uint32_t i = 1; i < kMaxShares; ++i) {
      Share& share = Shares()[i];
      if (share.used == 0 || share.device != found->device || share.offset != found->offset)
        continue;
      if (found->imported) {
        if (share.imports > 0) --share.imports;
      } else if (share.pid == getpid()) {
        if (share.imports != 0)
          Violation(CurrentIndex(), "an exporter has closed before importers");
        share.used = 0;
      }
    }
  });
  if (!found->imported) DeviceAt(found->device).Give(found->offset);
  handles.erase(found);
  delete found;
  return call.End(0);
}

FAKE_EXPORT int aclrtReserveMemAddress(void** pointer, size_t bytes, size_t, void*, uint64_t) {
  Call call("aclrtReserveMemAddress", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtReserveMemAddress")) return call.End(code);
  if (bytes == 0 || bytes % kGranularity != 0) return call.End(107000);
  *pointer = reinterpret_cast<void*>(CurrentDevice()->Reserve(bytes));
  return call.End(*pointer == nullptr ? 207001 : 0);
}

FAKE_EXPORT int aclrtReleaseMemAddress(void* pointer) {
  Call call("aclrtReleaseMemAddress", CurrentIndex());
  const int entered = Enter(call, "aclrtReleaseMemAddress");
  if (entered != 0 && entered != 507899) return call.End(entered);
  return call.End(CurrentDevice()->Release(reinterpret_cast<uint64_t>(pointer)) ? 0 : 107000);
}

FAKE_EXPORT int aclrtMapMem(void* pointer, size_t bytes, size_t offset, void* handle, uint64_t) {
  Call call("aclrtMapMem", CurrentIndex(), std::to_string(bytes));
  if (const int code = Enter(call, "aclrtMapMem")) return call.End(code);
  std::lock_guard<std::mutex> lock(mutex);
  Physical* const found = Check(handle);
  if (found == nullptr) return call.End(107017);
  if (offset != 0 || bytes != found->bytes)
    return call.End(107000, "EE1001: all of it must be mapped");
  Mapping mapping;
  mapping.bytes = bytes;
  mapping.owner = found->device;
  mapping.offset = found->offset;
  // Own memory can be used without more.
  mapping.access = !found->imported;
  if (!CurrentDevice()->Map(reinterpret_cast<uint64_t>(pointer), mapping)) return call.End(107000);
  ++found->maps;
  return call.End(0);
}

FAKE_EXPORT int aclrtUnmapMem(void* pointer) {
  Call call("aclrtUnmapMem", CurrentIndex());
  const int entered = Enter(call, "aclrtUnmapMem");
  if (entered != 0 && entered != 507899) return call.End(entered);
  Device& device = *CurrentDevice();
  Mapping* const mapping = device.FindMapping(reinterpret_cast<uint64_t>(pointer));
  if (mapping == nullptr) return call.End(107000);
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Physical* const physical : handles) {
      if (physical->device == mapping->owner && physical->offset == mapping->offset &&
          physical->maps > 0) {
        --physical->maps;
        break;
      }
    }
  }
  return call.End(device.Unmap(reinterpret_cast<uint64_t>(pointer)) ? 0 : 107000);
}

FAKE_EXPORT int aclrtMemSetAccess(void* pointer, size_t bytes, void* descs, size_t count) {
  Call call("aclrtMemSetAccess", CurrentIndex());
  if (const int code = Enter(call, "aclrtMemSetAccess")) return call.End(code);
  if (count != 1) return call.End(107000);
  const auto flags = table::Field<int32_t>(descs, table::kAccessFlags);
  const auto id = table::Field<uint32_t>(descs, table::kAccessLocation + table::kMemLocationId);
  // Here the id is that of the driver, not that of the user.
  if (id != static_cast<uint32_t>(CurrentIndex()) + 100) {
    return call.End(507899, "EL0005: the driver does not know the device");
  }
  Mapping* const mapping = CurrentDevice()->FindMapping(reinterpret_cast<uint64_t>(pointer));
  if (mapping == nullptr || mapping->bytes != bytes) return call.End(107000);
  mapping->access = flags == 3;
  return call.End(0);
}

FAKE_EXPORT int aclrtMemExportToShareableHandle(void* handle, int32_t type, uint64_t flags,
                                                uint64_t* out) {
  Call call("aclrtMemExportToShareableHandle", CurrentIndex());
  if (const int code = Enter(call, "aclrtMemExportToShareableHandle")) return call.End(code);
  if (type != 0) return call.End(107000);
  std::lock_guard<std::mutex> lock(mutex);
  Physical* const found = Check(handle);
  if (found == nullptr) return call.End(107017);
  uint64_t number = 0;
  const int code = Export(found, flags, &number);
  *out = 0xabcd000000000000u + number;
  return call.End(code);
}

FAKE_EXPORT int aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device,
                                                  void** handle) {
  Call call("aclrtMemImportFromShareableHandle", CurrentIndex());
  if (const int code = Enter(call, "aclrtMemImportFromShareableHandle")) return call.End(code);
  if (device != CurrentIndex()) return call.End(107001);
  std::lock_guard<std::mutex> lock(mutex);
  return call.End(Import(shareable - 0xabcd000000000000u, handle));
}

FAKE_EXPORT int aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t* pids, size_t count) {
  Call call("aclrtMemSetPidToShareableHandle", CurrentIndex(), std::to_string(count));
  if (const int code = Enter(call, "aclrtMemSetPidToShareableHandle")) return call.End(code);
  const uint64_t number = shareable - 0xabcd000000000000u;
  if (number == 0 || number >= kMaxShares || count > kMaxPids) return call.End(107000);
  WithFolderLock([&] {
    Share& share = Shares()[number];
    share.pid_count = static_cast<uint32_t>(count);
    memcpy(share.pids, pids, count * sizeof(int32_t));
  });
  return call.End(0);
}

FAKE_EXPORT int aclrtMemExportToShareableHandleV2(void* handle, uint64_t flags, int32_t type,
                                                  void* out) {
  Call call("aclrtMemExportToShareableHandleV2", CurrentIndex(), std::to_string(type));
  if (const int code = Enter(call, "aclrtMemExportToShareableHandleV2")) return call.End(code);
  if (type == 2 && !GetSettings().fabric) {
    return call.End(207000, "EL0005: fabric handles are not supported");
  }
  std::lock_guard<std::mutex> lock(mutex);
  Physical* const found = Check(handle);
  if (found == nullptr) return call.End(107017);
  uint64_t number = 0;
  const int code = Export(found, flags, &number);
  if (code != 0) return call.End(code);
  memset(out, 0x5a, table::kFabricHandleSize);
  memcpy(static_cast<char*>(out) + 120, &number, sizeof number);
  return call.End(0);
}

FAKE_EXPORT int aclrtMemImportFromShareableHandleV2(void* in, int32_t type, uint64_t,
                                                    void** handle) {
  Call call("aclrtMemImportFromShareableHandleV2", CurrentIndex(), std::to_string(type));
  if (const int code = Enter(call, "aclrtMemImportFromShareableHandleV2")) return call.End(code);
  if (type == 2 && !GetSettings().fabric) return call.End(207000);
  uint64_t number = 0;
  memcpy(&number, static_cast<char*>(in) + 120, sizeof number);
  std::lock_guard<std::mutex> lock(mutex);
  return call.End(Import(number, handle));
}

FAKE_EXPORT int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  Call call("aclrtDeviceEnablePeerAccess", CurrentIndex(), std::to_string(peer));
  if (const int code = Enter(call, "aclrtDeviceEnablePeerAccess")) return call.End(code);
  return call.End(flags != 0 || peer < 0 || peer >= GetSettings().devices ? 107000 : 0);
}

FAKE_EXPORT int aclrtDevicePeerAccessStatus(int32_t, int32_t, int32_t* status) {
  Call call("aclrtDevicePeerAccessStatus", CurrentIndex());
  *status = 1;
  return call.End(call.fault());
}
