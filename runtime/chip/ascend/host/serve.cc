#include "runtime/chip/ascend/host/serve.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/cann/library_search.h"
#include "runtime/chip/ascend/cann/loader.h"
#include "runtime/chip/ascend/device/device.h"
#include "runtime/chip/ascend/host/device_server.h"
#include "runtime/chip/ascend/wire.h"
#include "runtime/host/control_block.h"
#include "runtime/host/lifeline.h"

namespace pto::ascend {
namespace {

int Fail(const std::string& what) {
  const std::string line = absl::StrCat("chip host: ", what, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
  return 2;
}

host::ControlBlock* MapControl() {
  struct stat file = {};
  if (fstat(host::kControlDescriptor, &file) != 0 ||
      static_cast<uint64_t>(file.st_size) != sizeof(host::ControlBlock)) {
    return nullptr;
  }
  void* const data = mmap(nullptr, sizeof(host::ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED,
                          host::kControlDescriptor, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* const control = static_cast<host::ControlBlock*>(data);
  return control->GuardsHold() ? control : nullptr;
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& cann_path, int32_t number,
                                                   uint32_t* count) {
  PTO_ASSIGN_OR_RETURN(
      const cann::Cann cann,
      cann::LoadCann(cann::FindCann(cann::SearchInput::FromEnvironment(cann_path))));
  // Copies work all the same, so it is only said: the daemon logs what a host prints.
  if (const absl::Status versions = cann::CheckVersions(cann); !versions.ok()) {
    (void)Fail(std::string(versions.message()));
  }
  DeviceOptions options;
  options.device = number;
  return Device::Open(cann, options, count);
}

// What CANN says of a missing driver or of rights that are missing does not name them.
absl::Status WithDriver(const absl::Status& why) {
  if (ReasonOf(why) != reason::kCannUnusable.name) return why;
  const cann::SearchInput usual;
  const absl::Status driver = cann::CheckDriver(usual.driver_root, "/dev");
  if (driver.ok()) return why;
  return Error(reason::kCannUnusable,
               absl::StrCat(std::string(why.message()), "; ", std::string(driver.message())))
      .Hint(GetErrorDetail(driver)->hint);
}

}  // namespace

int ServeChip(const std::string& cann_path) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail("PR_SET_PDEATHSIG");
  host::ControlBlock* const control = MapControl();
  if (control == nullptr) return Fail("it was not started by a daemon of this build");
  std::vector<std::byte> bytes;
  FileDescriptor memory;
  if (host::ReceiveMessage(host::kLifelineDescriptor, sizeof(StartMessage), /*wait=*/true, &bytes,
                           &memory) != host::LifelineResult::kDone) {
    return 0;
  }
  StartMessage start;
  if (bytes.size() != sizeof start || !memory.valid()) return Fail("a malformed start");
  std::memcpy(&start, bytes.data(), sizeof start);
  if (start.magic != StartMessage::kMagic) return Fail("a malformed start");
  void* const slots =
      mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (slots == MAP_FAILED) return Fail("the memory for copies cannot be mapped");
  // The daemon sends nothing else. When it ends, or wants this process to end, the line breaks; a
  // call of CANN that hangs does not keep the process.
  std::thread([] {
    std::vector<std::byte> ignored;
    FileDescriptor unwanted;
    while (host::ReceiveMessage(host::kLifelineDescriptor, 1, /*wait=*/true, &ignored, &unwanted) ==
           host::LifelineResult::kDone) {
    }
    _exit(0);
  }).detach();
  DeviceServer server(*control, host::kDoorbellDescriptor,
                      absl::MakeSpan(static_cast<std::byte*>(slots), kSlots * kSlotBytes),
                      start.epoch);
  uint32_t count = 0;
  absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(cann_path, start.device, &count);
  if (!device.ok()) {
    server.Refuse(WithDriver(device.status()), count);
    // Not the usual end: what the vendor's libraries do in it is not known, and may hang.
    _exit(0);
  }
  server.Serve(*std::move(device), count);
}

}  // namespace pto::ascend
