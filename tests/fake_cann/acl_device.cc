// Life, devices, streams and events of the fake AscendCL.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "device.h"
#include "runtime.h"
#include "tables.h"

namespace fake {
namespace {

thread_local int32_t current_device = -1;
std::atomic<bool> initialised{false};

// Two libraries of AscendCL in one process would each have their own idea of the devices.
__attribute__((constructor)) void NoteLoading() {
  if (getenv("FAKE_CANN_RUNTIME_LOADED") != nullptr &&
      atoi(getenv("FAKE_CANN_RUNTIME_LOADED")) == getpid()) {
    Violation(-1, "a second runtime library was loaded");
  }
  setenv("FAKE_CANN_RUNTIME_LOADED", std::to_string(getpid()).c_str(), 1);
  poison_device = [](int32_t device, int code) {
    if (device >= 0) DeviceAt(device).Poison(code);
  };
}

}  // namespace

Device* CurrentDevice() { return current_device < 0 ? nullptr : &DeviceAt(current_device); }
int32_t CurrentIndex() { return current_device; }

int Enter(Call& call, const char* name) {
  if (call.fault() != 0) return call.fault();
  if (!initialised) return 100001;
  Device* const device = CurrentDevice();
  if (device == nullptr) return 107002;
  CheckThread(name);
  return device->poison() != 0 ? 507899 : 0;
}

void CheckThread(const char* name) {
  Device* const device = CurrentDevice();
  if (device == nullptr) return;
  const long thread = syscall(SYS_gettid);
  std::lock_guard<std::mutex> lock(device->mutex);
  if (device->owner_thread == 0) device->owner_thread = thread;
  if (device->owner_thread != thread) {
    Violation(device->index(), std::string(name) + " from a second thread");
  }
}

bool IsInitialised() { return initialised; }

Stream* CheckStream(void* stream) {
  auto* const found = static_cast<Stream*>(stream);
  Device* const device = CurrentDevice();
  std::lock_guard<std::mutex> lock(device->mutex);
  return device->streams.count(found) != 0 ? found : nullptr;
}

Event* CheckEvent(void* event) {
  auto* const found = static_cast<Event*>(event);
  Device* const device = CurrentDevice();
  std::lock_guard<std::mutex> lock(device->mutex);
  return device->events.count(found) != 0 ? found : nullptr;
}

}  // namespace fake

using namespace fake;

FAKE_EXPORT int aclInit(const char*) {
  Call call("aclInit", -1);
  if (call.fault() != 0) return call.End(call.fault());
  return call.End(initialised.exchange(true) ? 100002 : 0);
}

FAKE_EXPORT int aclFinalize() {
  Call call("aclFinalize", -1);
  if (call.fault() != 0) return call.End(call.fault());
  return call.End(initialised.exchange(false) ? 0 : 100037);
}

FAKE_EXPORT int aclsysGetVersionNum(char* package, int32_t* number) {
  Call call("aclsysGetVersionNum", -1, package);
  if (call.fault() != 0) return call.End(call.fault());
  *number = GetSettings().version;
  const char* const hccl = getenv("FAKE_CANN_HCCL_VERSION");
  if (hccl != nullptr && strcmp(package, "hccl") == 0) *number = atoi(hccl);
  return call.End(0);
}

FAKE_EXPORT int aclrtGetDeviceCount(uint32_t* count) {
  Call call("aclrtGetDeviceCount", -1);
  if (call.fault() != 0) return call.End(call.fault());
  *count = static_cast<uint32_t>(GetSettings().devices);
  return call.End(0);
}

FAKE_EXPORT int aclrtSetDevice(int32_t device) {
  Call call("aclrtSetDevice", device, std::to_string(device));
  if (call.fault() != 0) return call.End(call.fault());
  if (!initialised) return call.End(100001);
  if (device < 0 || device >= GetSettings().devices)
    return call.End(107001, "EE1001: no such device");
  current_device = device;
  Device& here = DeviceAt(device);
  here.npu();  // the process is started here, before anything is timed
  std::lock_guard<std::mutex> lock(here.mutex);
  ++here.references;
  return call.End(0);
}

FAKE_EXPORT int aclrtGetDevice(int32_t* device) {
  Call call("aclrtGetDevice", current_device);
  if (current_device < 0) return call.End(107002);
  *device = current_device;
  return call.End(0);
}

namespace {

int Release(Call& call, int32_t device, bool force) {
  if (call.fault() != 0) return call.End(call.fault());
  if (device < 0 || device >= GetSettings().devices) return call.End(107001);
  Device& here = DeviceAt(device);
  {
    std::lock_guard<std::mutex> lock(here.mutex);
    if (here.references == 0) return call.End(507007, "EE9999: the device is not in use");
    here.references = force ? 0 : here.references - 1;
    if (here.references > 0) return call.End(0);
  }
  std::set<Stream*> streams;
  std::set<Event*> events;
  {
    std::lock_guard<std::mutex> lock(here.mutex);
    streams.swap(here.streams);
    events.swap(here.events);
    here.owner_thread = 0;
  }
  if (!force && (!streams.empty() || !events.empty())) {
    Violation(device, "a device was reset with streams or events");
  }
  for (Stream* const stream : streams) delete stream;
  for (Event* const event : events) delete event;
  // A soft reset does not help against a fault.
  const int poison = here.poison();
  here.Reset();
  if (!force && poison != 0) here.Poison(poison);
  if (current_device == device) current_device = -1;
  return call.End(0);
}

}  // namespace

FAKE_EXPORT int aclrtResetDevice(int32_t device) {
  Call call("aclrtResetDevice", device);
  return Release(call, device, false);
}

FAKE_EXPORT int aclrtResetDeviceForce(int32_t device) {
  Call call("aclrtResetDeviceForce", device);
  return Release(call, device, true);
}

FAKE_EXPORT int aclrtQueryDeviceStatus(int32_t device, int32_t* status) {
  Call call("aclrtQueryDeviceStatus", device);
  if (call.corrupt()) {
    *status = table::kAbnormal;
    return call.End(0);
  }
  if (call.fault() != 0) return call.End(call.fault());
  *status = table::kNormal;
  return call.End(0);
}

FAKE_EXPORT const char* aclrtGetSocName() { return "Ascend910B3"; }

FAKE_EXPORT int aclrtGetDeviceInfo(uint32_t device, int32_t attr, int64_t* value) {
  Call call("aclrtGetDeviceInfo", static_cast<int32_t>(device), std::to_string(attr));
  if (call.fault() != 0) return call.End(call.fault());
  switch (attr) {
    case table::kCubeCoreNum:
      *value = 4;
      return call.End(0);
    case table::kVectorCoreNum:
      *value = 8;
      return call.End(0);
    case table::kTotalMem:
      *value = static_cast<int64_t>(GetSettings().hbm_bytes);
      return call.End(0);
    case table::kPhyChip:
      *value = device;
      return call.End(0);
    case table::kVirtual:
      *value = 0;
      return call.End(0);
    case table::kNpuArch:
      *value = 2201;
      return call.End(0);
    default:
      return call.End(107000);
  }
}

FAKE_EXPORT int aclrtGetMemInfo(int32_t attr, size_t* free, size_t* total) {
  Call call("aclrtGetMemInfo", CurrentIndex(), std::to_string(attr));
  if (const int code = Enter(call, "aclrtGetMemInfo")) return call.End(code);
  *total = GetSettings().hbm_bytes;
  *free = CurrentDevice()->free_bytes();
  return call.End(0);
}

FAKE_EXPORT int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logic) {
  Call call("aclrtGetLogicDevIdByUserDevId", user);
  // The two differ, as they do with ASCEND_RT_VISIBLE_DEVICES.
  *logic = user + 100;
  return call.End(call.fault());
}

FAKE_EXPORT int aclrtDeviceGetBareTgid(int32_t* pid) {
  Call call("aclrtDeviceGetBareTgid", CurrentIndex());
  *pid = getpid();
  return call.End(call.fault());
}

// ---- streams

FAKE_EXPORT int aclrtCreateStream(void** stream) {
  Call call("aclrtCreateStream", CurrentIndex());
  if (const int code = Enter(call, "aclrtCreateStream")) return call.End(code);
  Device& device = *CurrentDevice();
  auto* const made = new Stream(device);
  std::lock_guard<std::mutex> lock(device.mutex);
  device.streams.insert(made);
  *stream = made;
  return call.End(0);
}

FAKE_EXPORT int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) {
  return aclrtCreateStream(stream);
}

namespace {

int Destroy(Call& call, const char* name, void* stream, bool force) {
  const int entered = Enter(call, name);
  if (entered != 0 && entered != 507899) return call.End(entered);
  Stream* const found = CheckStream(stream);
  if (found == nullptr) return call.End(107003);
  if (!force && found->busy()) Violation(CurrentIndex(), "a busy stream was destroyed");
  {
    std::lock_guard<std::mutex> lock(CurrentDevice()->mutex);
    CurrentDevice()->streams.erase(found);
  }
  delete found;
  return call.End(0);
}

}  // namespace

FAKE_EXPORT int aclrtDestroyStream(void* stream) {
  Call call("aclrtDestroyStream", CurrentIndex());
  return Destroy(call, "aclrtDestroyStream", stream, false);
}

FAKE_EXPORT int aclrtDestroyStreamForce(void* stream) {
  Call call("aclrtDestroyStreamForce", CurrentIndex());
  return Destroy(call, "aclrtDestroyStreamForce", stream, true);
}

FAKE_EXPORT int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t ms) {
  Call call("aclrtSynchronizeStreamWithTimeout", CurrentIndex(), std::to_string(ms));
  if (call.fault() != 0) return call.End(call.fault());
  if (CurrentDevice() == nullptr) return call.End(107002);
  CheckThread("aclrtSynchronizeStreamWithTimeout");
  Stream* const found = CheckStream(stream);
  if (found == nullptr) return call.End(107003);
  const int code = found->Synchronize(ms);
  const char* const text = code == 0 ? nullptr : aclGetRecentErrMsg();
  return call.End(code, text == nullptr ? "" : text);
}

FAKE_EXPORT int aclrtStreamQuery(void* stream, int32_t* status) {
  Call call("aclrtStreamQuery", CurrentIndex());
  if (call.fault() != 0) return call.End(call.fault());
  if (CurrentDevice() == nullptr) return call.End(107002);
  CheckThread("aclrtStreamQuery");
  Stream* const found = CheckStream(stream);
  if (found == nullptr) return call.End(107003);
  const int code = found->Query();
  *status = code == -1 ? table::kStreamNotReady : table::kStreamComplete;
  const char* const text = code > 0 ? aclGetRecentErrMsg() : nullptr;
  return call.End(code > 0 ? code : 0, text == nullptr ? "" : text);
}

FAKE_EXPORT int aclrtStreamAbort(void* stream) {
  Call call("aclrtStreamAbort", CurrentIndex());
  if (call.fault() != 0) return call.End(call.fault());
  if (CurrentDevice() == nullptr) return call.End(107002);
  CheckThread("aclrtStreamAbort");
  Stream* const found = CheckStream(stream);
  if (found == nullptr) return call.End(107003);
  found->Abort();
  return call.End(0);
}

// ---- events

FAKE_EXPORT int aclrtCreateEventExWithFlag(void** event, uint32_t) {
  Call call("aclrtCreateEventExWithFlag", CurrentIndex());
  if (const int code = Enter(call, "aclrtCreateEventExWithFlag")) return call.End(code);
  Device& device = *CurrentDevice();
  auto* const made = new Event(device);
  std::lock_guard<std::mutex> lock(device.mutex);
  device.events.insert(made);
  *event = made;
  return call.End(0);
}

FAKE_EXPORT int aclrtDestroyEvent(void* event) {
  Call call("aclrtDestroyEvent", CurrentIndex());
  const int entered = Enter(call, "aclrtDestroyEvent");
  if (entered != 0 && entered != 507899) return call.End(entered);
  Event* const found = CheckEvent(event);
  if (found == nullptr) return call.End(107017);
  {
    std::lock_guard<std::mutex> lock(found->mutex);
    const bool held = found->done != found->recorded && found->dropped != found->recorded;
    if (held && CurrentDevice()->poison() == 0) {
      Violation(CurrentIndex(), "an event was destroyed that a stream has not reached");
    }
  }
  // Kept: a stream may still reach it.
  static auto* const kept = new std::vector<Event*>;
  std::lock_guard<std::mutex> lock(CurrentDevice()->mutex);
  CurrentDevice()->events.erase(found);
  kept->push_back(found);
  return call.End(0);
}

FAKE_EXPORT int aclrtRecordEvent(void* event, void* stream) {
  Call call("aclrtRecordEvent", CurrentIndex());
  if (const int code = Enter(call, "aclrtRecordEvent")) return call.End(code);
  Event* const recorded = CheckEvent(event);
  Stream* const into = CheckStream(stream);
  if (recorded == nullptr) return call.End(107017);
  if (into == nullptr) return call.End(107003);
  uint64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(recorded->mutex);
    number = ++recorded->recorded;
  }
  into->Add({"event",
             [recorded, number](const auto&) {
               std::lock_guard<std::mutex> lock(recorded->mutex);
               if (recorded->done < number) recorded->done = number;
               recorded->changed.notify_all();
               return 0;
             },
             {},
             [recorded, number] {
               std::lock_guard<std::mutex> lock(recorded->mutex);
               if (recorded->dropped < number) recorded->dropped = number;
             }});
  return call.End(0);
}

FAKE_EXPORT int aclrtQueryEventStatus(void* event, int32_t* status) {
  Call call("aclrtQueryEventStatus", CurrentIndex());
  if (call.fault() != 0) return call.End(call.fault());
  if (CurrentDevice() == nullptr) return call.End(107002);
  CheckThread("aclrtQueryEventStatus");
  if (CurrentDevice()->poison() != 0) return call.End(507899);
  Event* const found = CheckEvent(event);
  if (found == nullptr) return call.End(107017);
  std::lock_guard<std::mutex> lock(found->mutex);
  *status = found->done == found->recorded ? table::kRecordComplete : table::kRecordNotReady;
  return call.End(0);
}

FAKE_EXPORT int aclrtSynchronizeEventWithTimeout(void* event, int32_t ms) {
  Call call("aclrtSynchronizeEventWithTimeout", CurrentIndex());
  if (const int code = Enter(call, "aclrtSynchronizeEventWithTimeout")) return call.End(code);
  Event* const found = CheckEvent(event);
  if (found == nullptr) return call.End(107017);
  std::unique_lock<std::mutex> lock(found->mutex);
  const bool reached = found->changed.wait_for(lock, std::chrono::milliseconds(ms),
                                               [&] { return found->done == found->recorded; });
  return call.End(reached ? 0 : 507047);
}

FAKE_EXPORT int aclrtStreamWaitEvent(void* stream, void* event) {
  Call call("aclrtStreamWaitEvent", CurrentIndex());
  if (const int code = Enter(call, "aclrtStreamWaitEvent")) return call.End(code);
  Event* const awaited = CheckEvent(event);
  Stream* const waiter = CheckStream(stream);
  if (awaited == nullptr) return call.End(107017);
  if (waiter == nullptr) return call.End(107003);
  uint64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(awaited->mutex);
    number = awaited->recorded;
  }
  waiter->Add({"wait_event",
               [awaited, number](const std::function<bool()>& aborted) {
                 std::unique_lock<std::mutex> lock(awaited->mutex);
                 while (awaited->done < number && !aborted()) {
                   awaited->changed.wait_for(lock, std::chrono::milliseconds(1));
                 }
                 return 0;
               },
               {}});
  return call.End(0);
}
