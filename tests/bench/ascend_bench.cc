// What the backend for Ascend chips costs beyond the calls of CANN that it makes: our own CPU time
// for each task, and uploads against bare staged copies. On the fake, whose calls cost both sides
// the same; says nothing of a real chip.
//
//   LD_LIBRARY_PATH=bazel-bin/tests/fake_cann/cann-9/lib64 bazel-bin/tests/bench/ascend_bench
//   KERNEL.so

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/chip/ascend/cann/loader.h"
#include "runtime/chip/ascend/device/device.h"
#include "runtime/chip/ascend/device/payload.h"

namespace pto::ascend {
namespace {

constexpr int kTasks = 200;
constexpr int kRounds = 40;
constexpr uint32_t kStreams = 8;

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Shape {
  const char* name;
  uint32_t streams;
  uint32_t blocks;
  bool together;
};

class Bench {
 public:
  Bench(Device& device, uint32_t kernel) : device_(device), kernel_(kernel) {}

  // CPU time of this thread for each task, in µs.
  double Ours(const Shape& shape, DeviceAddress out) {
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      int ended = 0;
      const double begin = Seconds(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < kTasks; ++i) Launch(shape, out, static_cast<uint32_t>(i), &ended);
      const double begun = Seconds(CLOCK_THREAD_CPUTIME_ID);
      Rest();
      const double rested = Seconds(CLOCK_THREAD_CPUTIME_ID);
      while (ended < kTasks) device_.Poll();
      rounds.push_back((begun - begin + Seconds(CLOCK_THREAD_CPUTIME_ID) - rested) / kTasks * 1e6);
    }
    return Median(rounds);
  }

  // The same calls of CANN without anything around them.
  double Bare(const Shape& shape, const std::string& path, DeviceAddress out) {
    const cann::Functions& acl = device_.functions();
    void* binary = nullptr;
    void* function = nullptr;
    acl.aclrtBinaryLoadFromFile(path.c_str(), nullptr, &binary);
    acl.aclrtBinaryGetFunction(binary, "kernel_entry", &function);
    const PayloadLayout layout = PayloadLayout::Of(1, shape.blocks);
    const DeviceAddress arena = *device_.Allocate(layout.total_bytes * kTasks);
    void* mirror = nullptr;
    acl.aclrtMallocHost(&mirror, layout.total_bytes * kTasks);
    const host::PtoTensor tensor = Tensor(out);
    for (int i = 0; i < kTasks; ++i) {
      FillPayload({absl::MakeConstSpan(&tensor, 1), {}, shape.blocks, 0, shape.blocks}, layout,
                  arena + static_cast<uint64_t>(i) * layout.total_bytes,
                  static_cast<std::byte*>(mirror) + static_cast<uint64_t>(i) * layout.total_bytes);
    }
    std::vector<void*> streams(shape.streams);
    for (void*& stream : streams) acl.aclrtCreateStream(&stream);
    std::vector<void*> events(kTasks);
    for (void*& event : events) acl.aclrtCreateEventExWithFlag(&event, cann::kEventSync);
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      const double begin = Seconds(CLOCK_THREAD_CPUTIME_ID);
      for (int i = 0; i < kTasks; ++i) {
        void* const stream = streams[static_cast<size_t>(i) % streams.size()];
        const uint64_t at = static_cast<uint64_t>(i) * layout.total_bytes;
        std::byte* const host = static_cast<std::byte*>(mirror) + at;
        uint64_t address = arena + at;
        acl.aclrtMemcpyAsync(reinterpret_cast<void*>(address), layout.total_bytes, host,
                             layout.upload_bytes, cann::kHostToDevice, stream);
        cann::AclLaunchAttr attr = {cann::kSchemMode, {1}};
        cann::AclLaunchConfig config = {&attr, 1};
        acl.aclrtLaunchKernelWithHostArgs(function, shape.blocks, stream,
                                          shape.together ? &config : nullptr, &address,
                                          sizeof address, nullptr, 0);
        acl.aclrtMemcpyAsync(host + layout.headers_offset, layout.headers_bytes,
                             reinterpret_cast<void*>(address + layout.headers_offset),
                             layout.headers_bytes, cann::kDeviceToHost, stream);
        acl.aclrtRecordEvent(events[static_cast<size_t>(i)], stream);
      }
      const double begun = Seconds(CLOCK_THREAD_CPUTIME_ID);
      for (void* const stream : streams) acl.aclrtSynchronizeStreamWithTimeout(stream, 60000);
      const double rested = Seconds(CLOCK_THREAD_CPUTIME_ID);
      int32_t status = 0;
      for (size_t s = 0; s < streams.size(); ++s) {
        acl.aclrtQueryEventStatus(events[kTasks - 1 - s], &status);
      }
      rounds.push_back((begun - begin + Seconds(CLOCK_THREAD_CPUTIME_ID) - rested) / kTasks * 1e6);
    }
    for (void* const stream : streams) acl.aclrtDestroyStream(stream);
    for (void* const event : events) acl.aclrtDestroyEvent(event);
    acl.aclrtFreeHost(mirror);
    (void)device_.Free(arena);
    acl.aclrtBinaryUnLoad(binary);
    return Median(rounds);
  }

  double OurUpload(DeviceAddress to, const std::vector<std::byte>& bytes) {
    std::vector<double> rounds;
    for (int round = 0; round < 9; ++round) {
      bool ended = false;
      const double begin = Seconds(CLOCK_MONOTONIC);
      device_.Write(to, bytes.data(), bytes.size(), [&](const absl::Status&) { ended = true; });
      while (!ended) device_.Poll();
      rounds.push_back(static_cast<double>(bytes.size()) / (Seconds(CLOCK_MONOTONIC) - begin));
    }
    return Median(rounds);
  }

  double BareUpload(DeviceAddress to, const std::vector<std::byte>& bytes, uint64_t chunk) {
    const cann::Functions& acl = device_.functions();
    void* staging[2];
    void* events[2];
    void* stream = nullptr;
    acl.aclrtCreateStream(&stream);
    for (int i = 0; i < 2; ++i) {
      acl.aclrtMallocHost(&staging[i], chunk);
      acl.aclrtCreateEventExWithFlag(&events[i], cann::kEventSync);
    }
    std::vector<double> rounds;
    for (int round = 0; round < 9; ++round) {
      const double begin = Seconds(CLOCK_MONOTONIC);
      int turn = 0;
      for (uint64_t at = 0; at < bytes.size(); at += chunk, turn ^= 1) {
        const uint64_t size = std::min<uint64_t>(chunk, bytes.size() - at);
        int32_t status = cann::kEventNotReady;
        while (acl.aclrtQueryEventStatus(events[turn], &status), status != cann::kEventComplete) {
        }
        std::memcpy(staging[turn], bytes.data() + at, size);
        acl.aclrtMemcpyAsync(reinterpret_cast<void*>(to + at), size, staging[turn], size,
                             cann::kHostToDevice, stream);
        acl.aclrtRecordEvent(events[turn], stream);
      }
      acl.aclrtSynchronizeStreamWithTimeout(stream, 60000);
      rounds.push_back(static_cast<double>(bytes.size()) / (Seconds(CLOCK_MONOTONIC) - begin));
    }
    for (int i = 0; i < 2; ++i) {
      acl.aclrtFreeHost(staging[i]);
      acl.aclrtDestroyEvent(events[i]);
    }
    acl.aclrtDestroyStream(stream);
    return Median(rounds);
  }

 private:
  static host::PtoTensor Tensor(DeviceAddress out) {
    host::PtoTensor tensor = {};
    tensor.buffer_address = out;
    tensor.buffer_bytes = 4096;
    tensor.ndim = 1;
    tensor.dtype = static_cast<uint8_t>(host::PtoType::kI32);
    tensor.shape[0] = 1024;
    tensor.strides[0] = 1;
    tensor.extent = 1024;
    return tensor;
  }

  void Launch(const Shape& shape, DeviceAddress out, uint32_t number, int* ended) {
    const PayloadLayout layout = PayloadLayout::Of(1, shape.blocks);
    const host::PtoTensor tensor = Tensor(out);
    LaunchSpec spec;
    spec.kernel = kernel_;
    spec.blocks = shape.blocks;
    spec.together = shape.together;
    spec.stream = number % shape.streams;
    spec.upload_bytes = layout.upload_bytes;
    spec.total_bytes = layout.total_bytes;
    spec.fill = [&](DeviceAddress address, std::byte* upload) {
      FillPayload({absl::MakeConstSpan(&tensor, 1), {}, shape.blocks, 0, shape.blocks}, layout,
                  address, upload);
    };
    spec.readback_offset = layout.headers_offset;
    spec.readback_bytes = layout.headers_bytes;
    spec.done = [ended](const absl::Status&, absl::Span<const std::byte>) { ++*ended; };
    if (!device_.Launch(std::move(spec)).ok()) std::abort();
  }

  // Lets the device finish without looking at it.
  void Rest() { usleep(30'000); }

  Device& device_;
  const uint32_t kernel_;
};

int Main(int argc, char** argv) {
  const char* const library_path = getenv("LD_LIBRARY_PATH");
  if (argc < 2 || library_path == nullptr) {
    std::fprintf(stderr, "usage: LD_LIBRARY_PATH=FOLDER ascend_bench KERNEL.so\n");
    return 2;
  }
  char folder[] = "/tmp/ascend_bench.XXXXXX";
  setenv("FAKE_CANN_DIR", mkdtemp(folder), 0);
  setenv("FAKE_CANN_LAUNCH_US", "2", 0);
  cann::SearchInput input;
  input.explicit_path = library_path;
  const absl::StatusOr<cann::Cann> cann = cann::LoadCann(cann::FindCann(input));
  if (!cann.ok()) {
    std::fprintf(stderr, "%s\n", cann.status().ToString().c_str());
    return 1;
  }
  DeviceOptions options;
  options.streams = kStreams;
  auto device = Device::Open(*cann, options);
  char* const path = realpath(argv[1], nullptr);
  if (!device.ok() || path == nullptr) return 1;
  const absl::StatusOr<uint32_t> kernel = (*device)->LoadKernel(path, "kernel_entry");
  if (!kernel.ok()) return 1;
  Bench bench(**device, *kernel);
  const DeviceAddress out = *(*device)->Allocate(4096);
  std::printf("%-12s %12s %12s %12s\n", "tasks", "bare µs", "ours µs", "beyond µs");
  for (const Shape& shape : {Shape{"chain", 1, 1, false}, Shape{"independent", kStreams, 1, false},
                             Shape{"gang of 4", 1, 4, true}}) {
    const double bare = bench.Bare(shape, path, out);
    const double ours = bench.Ours(shape, out);
    std::printf("%-12s %12.2f %12.2f %12.2f\n", shape.name, bare, ours, ours - bare);
  }
  const std::vector<std::byte> bytes(uint64_t{64} << 20, std::byte{3});
  const DeviceAddress to = *(*device)->Allocate(bytes.size());
  const double bare = bench.BareUpload(to, bytes, options.staging_bytes);
  const double ours = bench.OurUpload(to, bytes);
  std::printf("upload: bare %.2f GB/s, ours %.2f GB/s: %.2f\n", bare / 1e9, ours / 1e9,
              ours / bare);
  return system(absl::StrCat("rm -rf ", folder).c_str());
}

}  // namespace
}  // namespace pto::ascend

int main(int argc, char** argv) { return pto::ascend::Main(argc, argv); }
