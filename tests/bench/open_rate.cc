#include "tests/bench/open_rate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr uint32_t kBlock = 4096;
constexpr uint32_t kCells = 64;

double ResidentMiB(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) / (1 << 20);
}

// The lists: a kernel, and a tensor for each cell of a buffer.
v1::StreamRunRequest Lists() {
  v1::StreamRunRequest request;
  v1::StreamRunBlock& block = *request.mutable_block();
  block.add_kernels("fill");
  block.add_chips("chips/0");
  block.add_buffers("cells");
  block.add_layouts()->set_dtype(v1::F32);
  for (uint32_t i = 0; i < kCells; ++i) {
    block.mutable_tensors()->add_buffer(0);
    block.mutable_tensors()->add_layout(0);
    block.mutable_tensors()->add_offset_delta(i == 0 ? 0 : 1);
  }
  return request;
}

// Each task waits for the previous writer of its cell. All segments are alike except for their
// number, so that the client costs little.
v1::StreamRunRequest Tasks() {
  v1::StreamRunRequest request;
  v1::TaskBlock& block = *request.mutable_block()->mutable_tasks();
  for (uint32_t i = 0; i < kBlock; ++i) {
    block.add_kernel(0);
    block.add_arg_delta(i == 0 ? 0 : i % kCells == 0 ? 1 - int64_t{kCells} : 1);
    block.add_scalar(0);
  }
  return request;
}

}  // namespace

absl::Status MeasureOpenRate(Servers& servers, const Effort& effort, Report& report) {
  PTO_ASSIGN_OR_RETURN(Session session, servers.client().CreateSession());
  PTO_RETURN_IF_ERROR(session.CreateBuffer("cells", 0, kCells * sizeof(float)).status());
  grpc::ClientContext context;
  v1::Run run;
  const auto writer = servers.run().StreamRun(&context, &run);
  v1::StreamRunRequest request;
  request.mutable_header()->set_parent(session.name());
  request.mutable_header()->set_run_id("open");
  request.mutable_header()->mutable_options()->set_event_level(v1::RUN_ONLY);
  writer->Write(request);
  writer->Write(Lists());
  request = Tasks();
  double first = 0;  // after the warm-up
  double most = 0;
  uint64_t sent = 0;
  const double start = Seconds();
  for (bool good = true; good && sent < effort.open_run_tasks; sent += kBlock) {
    request.mutable_block()->mutable_tasks()->set_first_task(sent);
    good = writer->Write(request);
    if (sent / kBlock % 16 != 15) continue;
    double& seen = sent < effort.open_run_tasks / 10 ? first : most;
    seen = std::max(seen, ResidentMiB(servers.daemon_pid()));
  }
  request.mutable_commit()->set_task_count(sent);
  writer->Write(request);
  writer->WritesDone();
  PTO_RETURN_IF_ERROR(CallError("StreamRun", writer->Finish()));
  const double took = Seconds() - start;
  PTO_RETURN_IF_ERROR(CheckSucceeded(run));
  if (run.tasks_done() != sent) return absl::DataLossError("tasks are missing");
  report.Add({.name = "open_run_tasks", .value = static_cast<double>(sent) / took, .unit = "1/s"});
  const double resident = ResidentMiB(servers.daemon_pid());
  report.Add({.name = "open_run_memory",
              .value = std::max(most, resident),
              .unit = "MiB",
              .against = "after a tenth of the tasks",
              .against_value = first > 0 ? first : resident,
              // Data in flight varies by some MiB; memory kept for each task would make it nearly
              // ten.
              .target = Target::AtMost(2)});
  return absl::OkStatus();
}

}  // namespace pto::bench
