// A client that communicates with tasks of a running run: it writes a message, appends the tasks
// that answer it, reads the answer, and derives the next message from it.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/event_stream.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "client/open_run.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kCount = 16'384;
constexpr int kRounds = 3;

// Returns when the task has ended.
absl::Status AwaitTask(EventStream& events, uint32_t task) {
  while (true) {
    PTO_ASSIGN_OR_RETURN(const absl::optional<v1::EventBatch> batch, events.Next());
    if (!batch.has_value()) return absl::DataLossError("the run has ended while it was open");
    for (const v1::Event& event : batch->events()) {
      if (absl::c_linear_search(event.tasks().task(), task)) return absl::OkStatus();
    }
  }
}

class Conversation {
 public:
  static absl::StatusOr<Conversation> Create(Scene& scene) {
    Session& session = scene.session();
    const uint32_t chip = scene.chip(0);
    PTO_ASSIGN_OR_RETURN(Tensor<float> sevens, session.CreateTensor<float>(chip, {kCount}));
    PTO_ASSIGN_OR_RETURN(Tensor<float> message, session.CreateTensor<float>(chip, {kCount}));
    PTO_ASSIGN_OR_RETURN(Tensor<float> answer, session.CreateTensor<float>(chip, {kCount}));
    PTO_RETURN_IF_ERROR(sevens.Write(std::vector<float>(kCount, 7)));
    // A separate run fetches the answer: its turn comes after the tasks that produce it, and when
    // it has ended, neither tensor is in use.
    GraphBuilder fetch;
    fetch.Task("copy", chip, {fetch.Tensor(answer), fetch.Tensor(message)});
    PTO_RETURN_IF_ERROR(session.Register("fetch", fetch).status());
    return Conversation(scene, std::move(sevens), std::move(message), std::move(answer));
  }

  // One run: the first message and, in each round, half of the last answer.
  absl::Status Hold(int repetition) {
    PTO_ASSIGN_OR_RETURN(OpenRun run, scene_->session().BeginOpenRun());
    PTO_ASSIGN_OR_RETURN(EventStream events, Watch(run));
    const TensorRef message = run.graph().Tensor(message_);
    const TensorRef seven = run.graph().Tensor(sevens_);
    const TensorRef answer = run.graph().Tensor(answer_);
    std::vector<double> said(kCount);
    for (size_t i = 0; i < said.size(); ++i) {
      said[i] = static_cast<double>((i + static_cast<size_t>(repetition)) % 100);
    }
    std::vector<float> next(said.begin(), said.end());
    for (int round = 0; round < kRounds; ++round) {
      PTO_RETURN_IF_ERROR(message_.Write(next));
      const TaskRef answers = run.graph().Task("add", scene_->chip(0), {message, seven, answer});
      PTO_RETURN_IF_ERROR(run.Flush());
      PTO_RETURN_IF_ERROR(AwaitTask(events, answers.index()));
      PTO_ASSIGN_OR_RETURN(next, Answer());
      PTO_RETURN_IF_ERROR(
          Expect(absl::StrCat("answer ", round), next, [&](size_t i) { return said[i] + 7; }));
      for (double& number : said) number = (number + 7) / 2;
      for (float& number : next) number /= 2;
    }
    PTO_RETURN_IF_ERROR(ExpectRunning(run));
    PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Finish());
    PTO_RETURN_IF_ERROR(scene_->AfterRun(run.name()));
    return StatusOf(ended);
  }

 private:
  Conversation(Scene& scene, Tensor<float> sevens, Tensor<float> message, Tensor<float> answer)
      : scene_(&scene),
        sevens_(std::move(sevens)),
        message_(std::move(message)),
        answer_(std::move(answer)) {}

  absl::StatusOr<EventStream> Watch(const OpenRun& run) {
    WatchOptions options;
    options.runs = {run.name()};
    options.until_run_ends = run.name();
    options.max_linger = absl::Microseconds(100);
    return scene_->session().Watch(options);
  }

  absl::StatusOr<std::vector<float>> Answer() {
    PTO_ASSIGN_OR_RETURN(const Run fetched, scene_->session().Launch("fetch"));
    PTO_ASSIGN_OR_RETURN(const v1::Run ended, fetched.Wait());
    PTO_RETURN_IF_ERROR(StatusOf(ended));
    return message_.Read();
  }

  // Everything was sent and answered before the run ended.
  absl::Status ExpectRunning(const OpenRun& run) {
    PTO_ASSIGN_OR_RETURN(const v1::Run now, scene_->session().GetRun(run.name()).Get());
    if (now.state() == v1::Run::RUNNING) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(run.name(), " is ", v1::Run::State_Name(now.state()), " and not RUNNING"));
  }

  Scene* scene_;
  Tensor<float> sevens_;
  Tensor<float> message_;
  Tensor<float> answer_;
};

}  // namespace

absl::Status MessageStream(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Create(scene));
  return scene.Repeat([&](int repetition) { return conversation.Hold(repetition); });
}

}  // namespace pto::scenarios
