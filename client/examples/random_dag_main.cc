// Runs a random graph of 1,000 tasks on all chips of a node, and checks every task's result.
// `random_dag --job` prints the graph for four chips as a job file instead.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/examples/random_dag.h"
#include "runtime/base/status_macros.h"

namespace pto::examples {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kSteps = 1000;

using Values = std::vector<float>;

// The expected value of a step, computed in program order.
Values Expect(const RandomStep& step, const Values& input, const std::vector<Values>& earlier) {
  const Values& a = step.inputs[0] < 0 ? input : earlier[step.inputs[0]];
  const Values& b = step.inputs.back() < 0 ? input : earlier[step.inputs.back()];
  Values out(a.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = step.kernel == "add"     ? a[i] + b[i]
             : step.kernel == "sub"   ? a[i] - b[i]
             : step.kernel == "scale" ? static_cast<float>(step.factor) * a[i]
                                      : a[i];
  }
  return out;
}

absl::Status RunDag() {
  PTO_ASSIGN_OR_RETURN(Client client, Client::Connect());
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
  const uint32_t chips = client.node().chip_count();
  const std::vector<RandomStep> steps = MakeRandomDag(kSeed, kSteps, chips);

  Values input(kRandomDagElements);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i) / 4 - 1;
  GraphBuilder graph;
  std::vector<Buffer> values;
  std::vector<TensorRef> inputs;
  for (uint32_t chip = 0; chip < chips; ++chip) {
    // One tensor per step would do; one buffer with a view per step is cheaper.
    PTO_ASSIGN_OR_RETURN(
        Buffer buffer, session.CreateBuffer("", chip, kSteps * kRandomDagElements * sizeof(float)));
    values.push_back(buffer);
    PTO_ASSIGN_OR_RETURN(Tensor<float> tensor,
                         session.CreateTensor<float>(chip, {kRandomDagElements}));
    PTO_RETURN_IF_ERROR(tensor.Write(input));
    inputs.push_back(graph.Tensor(tensor));
  }
  std::vector<TensorRef> results;
  std::vector<TaskRef> tasks;
  std::vector<Values> expected;
  for (int i = 0; i < kSteps; ++i) {
    const RandomStep& step = steps[i];
    std::vector<TensorRef> args;
    for (int from : step.inputs) args.push_back(from < 0 ? inputs[step.chip] : results[from]);
    results.push_back(graph.Tensor(absl::StrCat("v", i), values[step.chip], v1::F32,
                                   {kRandomDagElements}, {}, i * kRandomDagElements));
    args.push_back(results.back());
    TaskRef task = graph.Task(step.kernel, step.chip, args);
    if (step.kernel == "scale") task.Scalar(step.factor);
    for (int before : step.after) task.After(tasks[before]);
    tasks.push_back(task);
    expected.push_back(Expect(step, input, expected));
  }

  PTO_ASSIGN_OR_RETURN(const Run run, session.SubmitPacked(graph));
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Wait());
  PTO_RETURN_IF_ERROR(StatusOf(ended));
  for (int i = 0; i < kSteps; ++i) {
    const uint64_t place = i * kRandomDagElements * sizeof(float);
    PTO_ASSIGN_OR_RETURN(const Values actual,
                         values[steps[i].chip].Read<float>(kRandomDagElements, place));
    if (actual != expected[i]) {
      return absl::DataLossError(absl::StrCat("task ", i, " has another result than expected"));
    }
  }
  std::printf("random_dag: ok, %d tasks on %u chips in %.3f ms\n", kSteps, chips,
              static_cast<double>(ended.run_ns()) / 1e6);
  return absl::OkStatus();
}

}  // namespace
}  // namespace pto::examples

int main(int argc, char** argv) {
  using namespace pto::examples;  // NOLINT
  if (argc > 1 && std::string(argv[1]) == "--job") {
    std::fputs(RandomDagJob(MakeRandomDag(kSeed, kSteps, 4), 4).c_str(), stdout);
    return 0;
  }
  const absl::Status status = RunDag();
  if (!status.ok()) std::fprintf(stderr, "random_dag: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
