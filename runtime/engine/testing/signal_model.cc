#include "runtime/engine/testing/signal_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/comparison.h"

namespace pto::engine::testing {
namespace {

using Kind = ModelTask::Kind;

constexpr size_t kMaxStates = 30'000;

}  // namespace

bool Model::Timed(size_t run, uint32_t task) const {
  const ModelRun& of = runs[run];
  const ModelTask& t = of.tasks[task];
  if (t.kind == Kind::kNotify || t.kind == Kind::kJoin) return false;
  if (t.task_timeout_ns > 0 || of.task_timeout_ns > 0) return true;
  if (t.kind == Kind::kWait) return t.wait_timeout_ns > 0 || of.wait_timeout_ns > 0;
  return of.wait_timeout_ns > 0;
}

std::string Model::Describe() const {
  constexpr const char* kKinds[] = {"plain", "send", "hold", "defer", "wait", "notify", "join"};
  std::string text = absl::StrCat("cores: ", absl::StrJoin(vector_cores, ","), "\n");
  for (size_t r = 0; r < runs.size(); ++r) {
    const ModelRun& run = runs[r];
    absl::StrAppend(&text, "run ", r, " behind {", absl::StrJoin(run.behind, ","), "} segments {",
                    absl::StrJoin(run.segments, ","), "} wait_timeout ", run.wait_timeout_ns,
                    " task_timeout ", run.task_timeout_ns, " timeout ", run.timeout_ns, "\n");
    for (size_t i = 0; i < run.tasks.size(); ++i) {
      const ModelTask& task = run.tasks[i];
      absl::StrAppend(&text, "  ", i, " ", kKinds[static_cast<int>(task.kind)], " after {",
                      absl::StrJoin(task.after, ","), "} word ", task.word, " ",
                      CompareText(task.compare), " ", task.value, " op ", task.op, " wait ",
                      task.wait_timeout_ns, " task ", task.task_timeout_ns, " chips {",
                      absl::StrJoin(task.chips, ","), "} x", task.blocks, task.gang ? " gang" : "",
                      "\n");
    }
  }
  return text;
}

bool ModelState::Ended(size_t run, uint32_t first, uint32_t count) const {
  return std::all_of(tasks[run].begin() + first, tasks[run].begin() + first + count,
                     [](Task task) { return task == kDone || task == kFailed; });
}

uint32_t ModelState::FreeCores(const Model& model, uint32_t chip) const {
  uint32_t free = model.vector_cores[chip];
  for (size_t r = 0; r < model.runs.size(); ++r) {
    for (uint32_t i = 0; i < model.runs[r].tasks.size(); ++i) {
      if (tasks[r][i] != kWaiting) continue;
      const std::vector<uint32_t>& chips = model.runs[r].tasks[i].chips;
      for (size_t c = 0; c < chips.size(); ++c) free -= chips[c] == chip ? blocks[r][i][c] : 0;
    }
  }
  return free;
}

SignalModel::SignalModel(const Model& model, const ModelState& state)
    : model_(model), runs_end_(model.runs.size()) {
  for (const ModelRun& run : model.runs) {
    segments_end_.emplace_back(run.segments.size());
    notifies_.emplace_back(run.tasks.size());
    starts_.emplace_back(run.tasks.size());
  }
  Visit(state);
  while (!stack_.empty()) {
    if (seen_.size() > kMaxStates) {
      complete_ = false;
      return;
    }
    const ModelState next = std::move(stack_.back());
    stack_.pop_back();
    Expand(next);
  }
}

std::string SignalModel::Key(const ModelState& state) {
  std::string key;
  for (const auto& tasks : state.tasks) {
    for (const ModelState::Task task : tasks) key += static_cast<char>('0' + task);
  }
  for (const int64_t word : state.words) absl::StrAppend(&key, ",", word);
  for (const bool stopped : state.stopped) key += stopped ? 's' : '.';
  return key;
}

bool SignalModel::Passed(const ModelState& state, size_t run) const {
  return state.Ended(run) &&
         std::all_of(model_.runs[run].behind.begin(), model_.runs[run].behind.end(),
                     [&](size_t before) { return Passed(state, before); });
}

void SignalModel::Normalize(ModelState* state) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t r = 0; r < model_.runs.size(); ++r) {
      const ModelRun& run = model_.runs[r];
      if (!state->begun[r] && std::all_of(run.behind.begin(), run.behind.end(),
                                          [&](size_t before) { return Passed(*state, before); })) {
        state->begun[r] = true;
        changed = true;
      }
      if (!state->begun[r]) continue;
      for (uint32_t i = 0; i < run.tasks.size(); ++i) {
        ModelState::Task& task = state->tasks[r][i];
        if (task != ModelState::kPending) continue;
        bool all = true, failed = false;
        for (const uint32_t before : run.tasks[i].after) {
          all &= state->tasks[r][before] >= ModelState::kDone;
          failed |= state->tasks[r][before] == ModelState::kFailed;
        }
        if (!all) continue;
        task = failed ? ModelState::kFailed : ModelState::kReady;
        changed = true;
      }
    }
  }
}

void SignalModel::Visit(ModelState state) {
  Normalize(&state);
  if (!seen_.insert(Key(state)).second) return;
  for (size_t r = 0; r < model_.runs.size(); ++r) {
    if (state.Ended(r)) runs_end_[r] = true;
    uint32_t first = 0;
    for (size_t s = 0; s < model_.runs[r].segments.size(); ++s) {
      const uint32_t count = model_.runs[r].segments[s];
      if (state.Ended(r, first, count)) segments_end_[r][s] = true;
      first += count;
    }
  }
  stack_.push_back(std::move(state));
}

bool SignalModel::HasCores(const ModelState& state, const ModelTask& task) const {
  return std::all_of(task.chips.begin(), task.chips.end(), [&](uint32_t chip) {
    return state.FreeCores(model_, chip) >= (task.gang ? task.blocks : 1);
  });
}

void SignalModel::Notify(ModelState* state, uint32_t word, pto_notify_op op, int64_t value) const {
  int64_t& have = state->words[word];
  have = op == PTO_SET ? value : have + value;
  for (size_t r = 0; r < model_.runs.size(); ++r) {
    for (uint32_t i = 0; i < model_.runs[r].tasks.size(); ++i) {
      const ModelTask& task = model_.runs[r].tasks[i];
      if (state->tasks[r][i] == ModelState::kWaiting && task.word == word &&
          Compares(task.compare, have, task.value)) {
        state->tasks[r][i] = state->doomed[r][i] ? ModelState::kFailed : ModelState::kDone;
      }
    }
  }
}

void SignalModel::Start(const ModelState& state, size_t r, uint32_t i) {
  const ModelTask& task = model_.runs[r].tasks[i];
  if (task.on_cores() && !HasCores(state, task)) return;
  starts_[r][i] = true;
  ModelState next = state;
  if (task.kind == Kind::kWait) {
    const bool holds = Compares(task.compare, state.words[task.word], task.value);
    next.tasks[r][i] = holds ? ModelState::kDone : ModelState::kWaiting;
    Visit(std::move(next));
    return;
  }
  std::vector<ModelState::Task> ends;
  if (!state.doomed[r][i]) ends.push_back(ModelState::kDone);
  if (state.doomed[r][i] || model_.Timed(r, i)) ends.push_back(ModelState::kFailed);
  for (const ModelState::Task end : ends) {
    next = state;
    next.tasks[r][i] = end;
    if (task.kind == Kind::kNotify || task.kind == Kind::kSend) notifies_[r][i] = true;
    if (task.kind == Kind::kNotify) Notify(&next, task.word, task.op, task.value);
    if (task.kind != Kind::kSend) {
      Visit(std::move(next));
      continue;
    }
    for (const int64_t value : model_.word_values[task.word]) {
      ModelState sent = next;
      Notify(&sent, task.word, PTO_SET, value);
      Visit(std::move(sent));
    }
  }
}

void SignalModel::Expand(const ModelState& state) {
  for (size_t r = 0; r < model_.runs.size(); ++r) {
    const ModelRun& run = model_.runs[r];
    for (uint32_t i = 0; i < run.tasks.size(); ++i) {
      if (state.tasks[r][i] == ModelState::kReady) Start(state, r, i);
      if (state.tasks[r][i] == ModelState::kWaiting && model_.Timed(r, i)) {
        ModelState next = state;
        next.tasks[r][i] = ModelState::kFailed;
        Visit(std::move(next));
      }
    }
    if (run.timeout_ns > 0 && !state.Ended(r)) {
      ModelState next = state;
      next.stopped[r] = true;
      for (ModelState::Task& task : next.tasks[r]) {
        if (task < ModelState::kDone) task = ModelState::kFailed;
      }
      Visit(std::move(next));
    }
  }
}

}  // namespace pto::engine::testing
