#include "runtime/engine/exec/run_linker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_links.h"

namespace pto {
namespace {

TaskLinks::End EndOf(bool failed) {
  return failed ? TaskLinks::End::kFailed : TaskLinks::End::kDone;
}

}  // namespace

void RunLinker::Open(Run& run) {
  run.links_ = std::make_unique<TaskLinks>(run.image().task_count());
  // The beginning's, from now on: links may be released before it is accepted.
  run.outstanding_.store(1, std::memory_order_release);
}

void RunLinker::Link(const std::shared_ptr<Run>& run, uint32_t task, Run& before,
                     uint32_t before_task) {
  MetDependencies met = run->met(task);
  if (run->image().tasks()[task].dependencies == 0 &&
      (run->held_roots_.empty() || run->held_roots_.back() != task)) {
    run->held_roots_.push_back(task);
    met.Expect();  // for the beginning
  }
  met.Expect();
  run->links_waiting_.fetch_add(1, std::memory_order_relaxed);
  run->outstanding_.fetch_add(1, std::memory_order_acq_rel);
  const TaskLinks::End end = before.links_->Add(before_task, {run, task});
  if (end == TaskLinks::End::kNone) {
    run->links_before_.push_back({task, before_task, &before});
    return;
  }
  // It cannot become ready, as the run has not begun.
  met.Take(end == TaskLinks::End::kFailed);
  run->links_waiting_.fetch_sub(1, std::memory_order_relaxed);
  run->outstanding_.fetch_sub(1, std::memory_order_acq_rel);
}

std::vector<uint32_t> RunLinker::FreeRoots(const Run& run) {
  std::vector<uint32_t> roots;
  std::set_difference(run.image().roots().begin(), run.image().roots().end(),
                      run.held_roots_.begin(), run.held_roots_.end(), std::back_inserter(roots));
  return roots;
}

void RunLinker::BeginHeld(const std::shared_ptr<Run>& run) {
  std::vector<Step> steps;
  run->outstanding_.fetch_add(static_cast<int64_t>(run->held_roots_.size()),
                              std::memory_order_acq_rel);
  for (const uint32_t root : run->held_roots_) steps.push_back({run, root, false});
  run->links_waiting_.fetch_add(static_cast<int64_t>(steps.size()), std::memory_order_relaxed);
  if (!steps.empty()) Do(std::move(steps));
}

void RunLinker::Release(Run& run, uint32_t task, bool failed) {
  std::vector<Step> steps;
  for (TaskLinks::Waiter& waiter : run.links_->Close(task, EndOf(failed))) {
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
    step.run->links_waiting_.fetch_sub(1, std::memory_order_relaxed);
    DoOne(step, &steps);
    scheduler_.Drop(*step.run);
  }
  doing = nullptr;
}

void RunLinker::DoOne(const Step& step, std::vector<Step>* more) {
  Run& run = *step.run;
  const MetDependencies::State state = run.met(step.task).Add(step.failed);
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
  std::vector<uint32_t> skipped = {task};
  std::vector<TaskRecord> records;
  for (size_t i = 0; i < skipped.size(); ++i) {
    const uint32_t own = skipped[i];
    run.skipped_.fetch_add(1, std::memory_order_relaxed);
    TaskRecord record{};
    record.task = own;
    record.chip = run.image().tasks()[own].chip;
    record.outcome = TaskOutcome::kSkipped;
    record.start_ns = record.end_ns = now;
    records.push_back(record);
    for (const uint32_t successor : run.image().successors(own)) {
      if (run.met(successor).Add(true) == MetDependencies::State::kPoisoned) {
        skipped.push_back(successor);
      }
    }
    for (TaskLinks::Waiter& waiter : run.links_->Close(own, TaskLinks::End::kFailed)) {
      more->push_back({std::move(waiter.run), waiter.task, true});
    }
  }
  if (run.spec_.record_level == RecordLevel::kNone) return;
  const size_t waiting = run.records_.Add(records);
  if (waiting != 0 && run.spec_.observer != nullptr) run.spec_.observer->OnRecords(run, waiting);
}

}  // namespace pto
