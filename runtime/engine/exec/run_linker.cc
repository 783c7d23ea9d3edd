#include "runtime/engine/exec/run_linker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/failure.h"
#include "runtime/engine/run/task_links.h"

namespace pto::engine {
namespace {

TaskLinks::End EndOf(bool failed) {
  return failed ? TaskLinks::End::kFailed : TaskLinks::End::kDone;
}

}  // namespace

void RunLinker::Open(Run& run) {
  run.links().waiters = std::make_unique<TaskLinks>(run.image().task_count());
  // The beginning's, from now on: links may be released before it is accepted.
  run.life().Open();
}

void RunLinker::Link(const std::shared_ptr<Run>& run, uint32_t task, Run& before,
                     uint32_t before_task) {
  MetDependencies met = run->tasks().met(task);
  if (run->image().tasks()[task].dependencies == 0 &&
      (run->links().held_roots.empty() || run->links().held_roots.back() != task)) {
    run->links().held_roots.push_back(task);
    met.Expect();  // for the beginning
  }
  met.Expect();
  run->links().waiting.fetch_add(1, std::memory_order_relaxed);
  run->life().Add();
  const TaskLinks::End end = before.links().waiters->Add(before_task, {run, task});
  if (end == TaskLinks::End::kNone) {
    run->links().before.push_back({task, before_task, &before});
    return;
  }
  // It cannot become ready, as the run has not begun.
  met.Take(end == TaskLinks::End::kFailed);
  run->links().waiting.fetch_sub(1, std::memory_order_relaxed);
  run->life().TakeBack();
}

std::vector<uint32_t> RunLinker::FreeRoots(const Run& run) {
  std::vector<uint32_t> roots;
  std::set_difference(run.image().roots().begin(), run.image().roots().end(),
                      run.links().held_roots.begin(), run.links().held_roots.end(),
                      std::back_inserter(roots));
  return roots;
}

void RunLinker::BeginHeld(const std::shared_ptr<Run>& run) {
  Steps steps;
  run->life().Add(run->links().held_roots.size());
  for (const uint32_t root : run->links().held_roots) steps.push_back({run, root, false});
  run->links().waiting.fetch_add(static_cast<int64_t>(steps.size()), std::memory_order_relaxed);
  Do(std::move(steps));
}

void RunLinker::AddSteps(Run& run, uint32_t task, bool failed, Steps* steps) {
  for (TaskLinks::Waiter& waiter : run.links().waiters->Close(task, EndOf(failed))) {
    steps->push_back({std::move(waiter.run), waiter.task, failed});
  }
}

void RunLinker::Release(Run& run, uint32_t task, bool failed) {
  Steps steps;
  AddSteps(run, task, failed, &steps);
  Do(std::move(steps));
}

void RunLinker::ReleaseRest(Run& run) {
  Steps steps;
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    AddSteps(run, task, true, &steps);
  }
  Do(std::move(steps));
}

void RunLinker::Do(Steps steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step step = std::move(steps[i]);
    step.run->links().waiting.fetch_sub(1, std::memory_order_relaxed);
    DoOne(step, &steps);
    Scheduler::Drop(*step.run, completions_);
  }
}

void RunLinker::DoOne(const Step& step, Steps* more) {
  Run& run = *step.run;
  const MetDependencies::State state = run.tasks().met(step.task).Add(step.failed);
  if (state == MetDependencies::State::kWaits) return;
  if (state == MetDependencies::State::kPoisoned) {
    Skip(run, step.task, more);
    return;
  }
  // A stopped run begins nothing. Those that wait for this task are released at the run's end.
  if (run.stopping()) return;
  Worker worker(services_, &completions_);
  for (const auto& [ended, failed] : worker.BeginLinked(run, step.task)) {
    AddSteps(run, ended, failed, more);
  }
}

void RunLinker::Skip(Run& run, uint32_t task, Steps* more) {
  const int64_t now = scheduler_.clock().NowNanos() - run.accepted_ns();
  std::vector<uint32_t> tasks = {task};
  std::vector<TaskRecord> records;
  SkipTasks(run, tasks, [&](uint32_t skipped) {
    TaskRecord record{};
    record.task = skipped;
    record.chip = run.image().tasks()[skipped].chip;
    record.outcome = TaskOutcome::kSkipped;
    record.start_ns = record.end_ns = now;
    records.push_back(record);
    AddSteps(run, skipped, true, more);
  });
  if (run.record_level() == RecordLevel::kNone) return;
  const size_t waiting = run.records().Add(records);
  if (waiting != 0 && run.spec().observer != nullptr) run.spec().observer->OnRecords(run, waiting);
}

}  // namespace pto::engine
