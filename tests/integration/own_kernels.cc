#include "tests/integration/own_kernels.h"

#include <signal.h>

#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "tests/harness/runfile.h"

namespace pto::testing {

Client ConnectTo(const DaemonProcess& daemon) {
  absl::StatusOr<Client> client = Client::Connect(daemon.address());
  PTO_CHECK(client.ok(), client.status().ToString().c_str());
  return *std::move(client);
}

std::string Object(absl::string_view name) {
  return Runfile(absl::StrCat("tests/kernels/", name, ".so"));
}

std::string TestKernels(absl::string_view name) {
  return Runfile(absl::StrCat("runtime/host/testing/kernels/", name, ".so"));
}

absl::StatusOr<v1::Kernel> RegisterTestKernel(Session& session, const std::string& entry) {
  KernelOptions options;
  options.entry = entry;
  return session.RegisterKernel(TestKernels(), options);
}

absl::Status AddWith(Session& session, const std::string& kernel, uint32_t chip) {
  constexpr int64_t kElements = 1000;
  std::vector<Tensor<float>> tensors;
  for (int i = 0; i < 3; ++i) {
    PTO_ASSIGN_OR_RETURN(Tensor<float> tensor, session.CreateTensor<float>(chip, {kElements}));
    PTO_RETURN_IF_ERROR(tensor.Write(std::vector<float>(kElements, static_cast<float>(i + 1))));
    tensors.push_back(std::move(tensor));
  }
  GraphBuilder graph;
  graph
      .Task(kernel, chip,
            {graph.Tensor(tensors[0]), graph.Tensor(tensors[1]), graph.Tensor(tensors[2])})
      .Blocks(7);
  PTO_RETURN_IF_ERROR(RunToEnd(session, graph));
  std::vector<float> sum(kElements);
  PTO_RETURN_IF_ERROR(tensors[2].Read(std::span<float>(sum)));
  for (const float value : sum) {
    if (value != 3) return Error(reason::kCheckFailed, absl::StrCat("1 + 2 is not ", value));
  }
  const Buffer buffers[] = {tensors[0].buffer(), tensors[1].buffer(), tensors[2].buffer()};
  return session.DeleteBuffers(buffers);
}

absl::Status RunToEnd(Session& session, const GraphBuilder& graph, const RunOptions& options) {
  PTO_ASSIGN_OR_RETURN(Run run, session.Submit(graph, options));
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Wait());
  return StatusOf(ended);
}

bool ProcessExists(int64_t pid) { return kill(static_cast<pid_t>(pid), 0) == 0; }

}  // namespace pto::testing
