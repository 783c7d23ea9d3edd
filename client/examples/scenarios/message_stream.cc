// A client that talks to tasks of a run while it runs: it writes a message, appends the tasks
// that answer it, reads the answer, and goes on with the next.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "client/open_run.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kCount = 16'384;
constexpr int kMessages = 3;

double Message(int round, size_t i) { return round * 0.5 + static_cast<double>(i % 100); }

absl::Status Converse(Scene& scene) {
  Session& session = scene.session();
  const uint32_t chip = scene.chip(0);
  // A place for each message and its answer: what tasks of the run use is theirs until they end.
  std::vector<Tensor<float>> messages;
  std::vector<Tensor<float>> answers;
  PTO_ASSIGN_OR_RETURN(const Tensor<float> sevens, session.CreateTensor<float>(chip, {kCount}));
  PTO_RETURN_IF_ERROR(sevens.Write(std::vector<float>(kCount, 7)));
  for (int round = 0; round < kMessages; ++round) {
    PTO_ASSIGN_OR_RETURN(Tensor<float> message, session.CreateTensor<float>(chip, {kCount}));
    PTO_ASSIGN_OR_RETURN(Tensor<float> answer, session.CreateTensor<float>(chip, {kCount}));
    std::vector<float> numbers(kCount);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(Message(round, i));
    }
    PTO_RETURN_IF_ERROR(message.Write(numbers));
    messages.push_back(message);
    answers.push_back(answer);
  }

  PTO_ASSIGN_OR_RETURN(OpenRun run, session.BeginOpenRun());
  const TensorRef seven = run.graph().Tensor(sevens);
  for (int round = 0; round < kMessages; ++round) {
    const auto at = static_cast<size_t>(round);
    run.graph().Task("add", chip,
                     {run.graph().Tensor(messages[at]), seven, run.graph().Tensor(answers[at])});
    PTO_RETURN_IF_ERROR(run.Flush());
  }
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Finish());
  PTO_RETURN_IF_ERROR(StatusOf(ended));
  for (int round = 0; round < kMessages; ++round) {
    PTO_ASSIGN_OR_RETURN(const std::vector<float> answer,
                         answers[static_cast<size_t>(round)].Read());
    PTO_RETURN_IF_ERROR(Expect(
        absl::StrCat("answer ", round), answer, [&](size_t i) { return Message(round, i) + 7; },
        1e-5));
  }
  for (const std::vector<Tensor<float>>* list : {&messages, &answers}) {
    for (const Tensor<float>& tensor : *list) PTO_RETURN_IF_ERROR(tensor.buffer().Delete());
  }
  return sevens.buffer().Delete();
}

}  // namespace

absl::Status MessageStream(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  for (int i = 0; i < scene.repeat(); ++i) PTO_RETURN_IF_ERROR(Converse(scene));
  return absl::OkStatus();
}

}  // namespace pto::scenarios
