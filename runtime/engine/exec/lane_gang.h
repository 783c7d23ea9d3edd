#pragma once

#include <utility>
#include <vector>

#include "runtime/engine/queue/errand.h"
#include "runtime/engine/run/block_ticket.h"

namespace pto::engine {

// A gang that uses a lane and has all its cores: posts its blocks together. Owns itself.
class LaneGang final : public Errand {
 public:
  LaneGang(Run& run, std::vector<BlockTicket> blocks) : Errand(run), blocks_(std::move(blocks)) {}
  void Do(Worker& worker, Completions& completions) override;

 private:
  std::vector<BlockTicket> blocks_;
};

}  // namespace pto::engine
