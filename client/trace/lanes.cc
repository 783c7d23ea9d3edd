#include "client/trace/lanes.h"

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace pto::trace {
namespace {

uint32_t ClustersOf(const RunTrace& trace, uint32_t chip) {
  for (const v1::Chip& known : trace.chips) {
    if (known.index() == chip) return known.clusters();
  }
  return 0;
}

std::string NameOf(const RunTrace& trace, const Lane& lane) {
  std::string name;
  switch (lane.kind) {
    case Lane::Kind::kCore: {
      const uint32_t clusters = ClustersOf(trace, lane.chip);
      name = lane.core < clusters ? absl::StrCat("AIC ", lane.core)
                                  : absl::StrCat("AIV ", lane.core - clusters);
      break;
    }
    case Lane::Kind::kSeveral:
      name = "several cores";
      break;
    case Lane::Kind::kControl:
      name = "no core";
      break;
    case Lane::Kind::kUnfinished:
      name = "not ended";
      break;
  }
  if (lane.row > 0) absl::StrAppend(&name, " (", lane.row + 1, ")");
  return name;
}

}  // namespace

Lanes PlaceTasks(const RunTrace& trace) {
  // The end of the last slice in each row.
  using Key = std::tuple<uint32_t, Lane::Kind, uint32_t>;
  std::map<Key, std::vector<int64_t>> rows;
  std::vector<std::pair<Slice, std::pair<Key, uint32_t>>> placed;
  for (uint32_t place = 0; place < trace.tasks.size(); ++place) {
    const Task& task = trace.tasks[place];
    if (!task.shown()) continue;
    const bool several = task.blocks > 1 || task.chips.size() > 1;
    const Lane::Kind kind = !task.ended()  ? Lane::Kind::kUnfinished
                            : task.control ? Lane::Kind::kControl
                            : several      ? Lane::Kind::kSeveral
                                           : Lane::Kind::kCore;
    for (const uint32_t chip : task.chips) {
      const Key key(chip, kind, kind == Lane::Kind::kCore ? task.core : 0);
      std::vector<int64_t>& ends = rows[key];
      uint32_t row = 0;
      while (row < ends.size() && ends[row] > task.start_ns) ++row;
      if (row == ends.size()) ends.push_back(0);
      // A deferred task continues, and needs its own line.
      ends[row] = task.ended() ? task.returned_ns : task.end_ns;
      placed.push_back({Slice{place, chip, 0}, {key, row}});
    }
  }
  Lanes lanes;
  std::map<std::pair<Key, uint32_t>, uint32_t> lane_of;
  for (const auto& [key, ends] : rows) {
    for (uint32_t row = 0; row < ends.size(); ++row) {
      Lane lane{std::get<0>(key), std::get<1>(key), std::get<2>(key), row, ""};
      lane.name = NameOf(trace, lane);
      lane_of[{key, row}] = static_cast<uint32_t>(lanes.lanes.size());
      lanes.lanes.push_back(std::move(lane));
    }
  }
  for (auto& [slice, where] : placed) {
    slice.lane = lane_of[where];
    lanes.slices.push_back(slice);
  }
  return lanes;
}

}  // namespace pto::trace
