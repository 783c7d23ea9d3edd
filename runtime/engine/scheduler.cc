#include "runtime/engine/scheduler.h"

#include <algorithm>
#include <utility>

namespace pto {

Scheduler::Scheduler(const std::vector<Chip>& chips, const Clock& clock, uint32_t executors,
                     OnRunEnded on_run_ended)
    : clock_(clock), executors_(executors), on_run_ended_(std::move(on_run_ended)) {
  for (const Chip& chip : chips) {
    chips_.push_back(std::make_unique<ChipState>(chip.spec.clusters));
  }
}

void Scheduler::Push(Run& run, absl::Span<const uint32_t> tasks, bool taking_one,
                     std::vector<uint32_t>* scratch) {
  if (tasks.empty()) return;
  const GraphImage& image = run.image();
  uint64_t blocks = 0;
  if (image.chips().size() == 1) {
    blocks = tasks.size();
    for (const uint32_t task : tasks) blocks += image.tasks()[task].block_num - 1;
    queue(image.chips()[0]).Push(run, image.chips()[0], tasks);
  } else {
    // One chip after the other; few of them have any.
    for (const uint32_t chip : image.chips()) {
      for (const uint32_t task : tasks) {
        if (image.tasks()[task].chip != chip) continue;
        scratch->push_back(task);
        blocks += image.tasks()[task].block_num;
      }
      if (scratch->empty()) continue;
      queue(chip).Push(run, chip, *scratch);
      scratch->clear();
    }
  }
  parking_.Wake(taking_one ? blocks - 1 : blocks);
}

uint32_t Scheduler::Share(uint32_t chip, uint32_t max) const {
  return std::clamp<uint32_t>(queue(chip).ready() / (executors_ + 1), 1, max);
}

bool Scheduler::TakeAny(uint32_t max, uint32_t* next_chip, BlockTicket* ticket,
                        std::vector<uint32_t>* more) {
  for (uint32_t i = 0; i < chip_count(); ++i) {
    const uint32_t chip = (*next_chip + i) % chip_count();
    if (!queue(chip).Take(nullptr, chip, Share(chip, max), ticket, more)) continue;
    *next_chip = (chip + 1) % chip_count();
    return true;
  }
  return false;
}

bool Scheduler::TakeOf(Run& run, uint32_t max, BlockTicket* ticket, std::vector<uint32_t>* more) {
  for (const uint32_t chip : run.image().chips()) {
    if (queue(chip).Take(&run, chip, Share(chip, max), ticket, more)) return true;
  }
  return false;
}

bool Scheduler::OthersWait(const Run& run) const {
  return std::any_of(chips_.begin(), chips_.end(),
                     [&run](const auto& chip) { return chip->queue.OthersWait(run); });
}

uint64_t Scheduler::ready() const {
  uint64_t ready = 0;
  for (const auto& chip : chips_) ready += chip->queue.ready();
  return ready;
}

}  // namespace pto
