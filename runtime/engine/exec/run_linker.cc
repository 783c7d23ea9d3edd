#include "runtime/engine/exec/run_linker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/failure.h"
#include "runtime/engine/run/task_links.h"

namespace pto {
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
  std::vector<Step> steps;
  run->life().Add(run->links().held_roots.size());
  for (const uint32_t root : run->links().held_roots) steps.push_back({run, root, false});
  run->links().waiting.fetch_add(static_cast<int64_t>(steps.size()), std::memory_order_relaxed);
  if (!steps.empty()) Do(std::move(steps));
}

void RunLinker::Release(Run& run, uint32_t task, bool failed) {
  std::vector<Step> steps;
  for (TaskLinks::Waiter& waiter : run.links().waiters->Close(task, EndOf(failed))) {
    steps.push_back({std::move(waiter.run), waiter.task, failed});
  }
  if (!steps.empty()) Do(std::move(steps));
}

void RunLinker::ReleaseRest(Run& run) {
  for (uint32_t task = 0; task < run.image().task_count(); ++task) Release(run, task, true);
}

void RunLinker::Do(std::vector<Step> steps) {
  // A step may end a run, which releases others: one after the other, not one within another.
  thread_local std::vector<Step>* doing = nullptr;
  if (doing != nullptr) {
    std::move(steps.begin(), steps.end(), std::back_inserter(*doing));
    return;
  }
  doing = &steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step step = std::move(steps[i]);
    step.run->links().waiting.fetch_sub(1, std::memory_order_relaxed);
    DoOne(step, &steps);
    scheduler_.Drop(*step.run);
  }
  doing = nullptr;
}

void RunLinker::DoOne(const Step& step, std::vector<Step>* more) {
  Run& run = *step.run;
  const MetDependencies::State state = run.tasks().met(step.task).Add(step.failed);
  if (state == MetDependencies::State::kWaits) return;
  if (state == MetDependencies::State::kPoisoned) {
    Skip(run, step.task, more);
    return;
  }
  // What is stopped begins nothing; those that wait for this task are told at the run's end.
  if (run.stopping()) return;
  Worker(services_).BeginTasks(run, absl::MakeConstSpan(&step.task, 1), false);
}

void RunLinker::Skip(Run& run, uint32_t task, std::vector<Step>* more) {
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
    for (TaskLinks::Waiter& waiter : run.links().waiters->Close(skipped, TaskLinks::End::kFailed)) {
      more->push_back({std::move(waiter.run), waiter.task, true});
    }
  });
  if (run.record_level() == RecordLevel::kNone) return;
  const size_t waiting = run.records().Add(records);
  if (waiting != 0 && run.spec().observer != nullptr) run.spec().observer->OnRecords(run, waiting);
}

}  // namespace pto
