#include "client/trace/swimlanes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "client/trace/escape.h"
#include "client/trace/lanes.h"
#include "client/trace/loads.h"

namespace pto::trace {
namespace {

// Dark enough for white text, and distinguishable for most people.
constexpr absl::string_view kColours[] = {"#3366cc", "#109618", "#b36b00", "#990099", "#00808a",
                                          "#a61c3c", "#5a6b00", "#5b3f99", "#8a4b2a", "#4d4d4d"};
constexpr absl::string_view kFailedColour = "#d00000";
constexpr absl::string_view kUnfinishedColour = "#777777";

constexpr double kMargin = 8;
constexpr double kNames = 110;
constexpr double kLaneHeight = 18;
constexpr double kChipGap = 20;
constexpr double kLoadHeight = 60;
constexpr double kHalfPoint = 0.5;
constexpr double kCharacter = 6.2;  // approximate width of a character

std::string TimeText(double ns) {
  if (ns >= 1e9) return absl::StrFormat("%.4g s", ns / 1e9);
  if (ns >= 1e6) return absl::StrFormat("%.4g ms", ns / 1e6);
  if (ns >= 1e3) return absl::StrFormat("%.4g us", ns / 1e3);
  return absl::StrFormat("%.4g ns", ns);
}

class SvgWriter {
 public:
  SvgWriter(const RunTrace& trace, const SwimlaneOptions& options)
      : trace_(trace), options_(options), lanes_(PlaceTasks(trace)) {
    for (const Slice& slice : lanes_.slices) {
      const Task& task = trace_.tasks[slice.task];
      first_ns_ = std::min(first_ns_, task.start_ns);
      last_ns_ = std::max(last_ns_, task.end_ns);
    }
    if (last_ns_ <= first_ns_) {
      first_ns_ = 0;
      last_ns_ = std::max<int64_t>(last_ns_, 1);
    }
    width_ = std::max<double>(options.width, kNames + 200);
  }

  std::string Write() && {
    PlaceLanes();
    std::string body;
    body.swap(out_);
    Title();
    LaneNames();
    Deferred();
    Edges();
    Bars();
    Axis();
    Loads();
    Notes();
    body.swap(out_);
    return absl::StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", Number(width_), "\" height=\"",
        Number(bottom_), "\" viewBox=\"0 0 ", Number(width_), " ", Number(bottom_),
        "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n",
        body, "</svg>\n");
  }

 private:
  static std::string Number(double value) { return absl::StrFormat("%.6g", value); }

  double X(int64_t ns) const {
    const double part =
        static_cast<double>(ns - first_ns_) / static_cast<double>(last_ns_ - first_ns_);
    return kNames + part * (width_ - kNames - kMargin);
  }

  void PlaceLanes() {
    double y = 44;
    for (size_t i = 0; i < lanes_.lanes.size(); ++i) {
      if (i == 0 || lanes_.lanes[i].chip != lanes_.lanes[i - 1].chip) y += kChipGap;
      lane_y_.push_back(y);
      y += kLaneHeight;
    }
    bottom_ = y + 6;
  }

  void Text(double x, double y, absl::string_view text, absl::string_view more = "") {
    absl::StrAppend(&out_, "<text x=\"", Number(x), "\" y=\"", Number(y), "\"", more, ">",
                    XmlText(text), "</text>\n");
  }

  void Title() {
    Text(kMargin, 16,
         absl::StrCat(trace_.run.name(), ": ", v1::Run::State_Name(trace_.run.state()), ", ",
                      trace_.tasks.size(), " tasks in ",
                      TimeText(static_cast<double>(last_ns_ - first_ns_))),
         " font-size=\"13\" font-weight=\"bold\"");
    // Kernels and their colours, the most used first.
    std::map<std::string, uint64_t> uses;
    for (const Slice& slice : lanes_.slices) ++uses[trace_.tasks[slice.task].kernel];
    std::vector<std::pair<uint64_t, std::string>> order;
    for (const auto& [kernel, count] : uses) order.emplace_back(count, kernel);
    std::sort(order.rbegin(), order.rend());
    double x = kMargin;
    for (const auto& [count, kernel] : order) {
      const absl::string_view colour = kColours[colour_of_.size() % std::size(kColours)];
      colour_of_[kernel] = colour;
      const std::string label = kernel.empty() ? "tasks" : kernel;
      const double wide = 22 + kCharacter * static_cast<double>(label.size());
      if (x + wide > width_) continue;
      absl::StrAppend(&out_, "<rect x=\"", Number(x),
                      "\" y=\"26\" width=\"10\" height=\"10\" fill=\"", colour, "\"/>\n");
      Text(x + 14, 35, label);
      x += wide + 8;
    }
  }

  void LaneNames() {
    for (size_t i = 0; i < lanes_.lanes.size(); ++i) {
      const Lane& lane = lanes_.lanes[i];
      if (i == 0 || lane.chip != lanes_.lanes[i - 1].chip) {
        Text(kMargin, lane_y_[i] - 5, absl::StrCat("chip ", lane.chip), " font-weight=\"bold\"");
      }
      Text(kMargin + 8, lane_y_[i] + 13, lane.name, " fill=\"#555\"");
      absl::StrAppend(&out_, "<rect x=\"", Number(kNames), "\" y=\"", Number(lane_y_[i] + 1),
                      "\" width=\"", Number(width_ - kNames - kMargin), "\" height=\"",
                      Number(kLaneHeight - 2), "\" fill=\"#f2f4f7\"/>\n");
    }
  }

  std::string About(const Task& task) const {
    std::string text = absl::StrCat(task.name, "\nindex ", task.index);
    if (!task.kernel.empty()) absl::StrAppend(&text, ", kernel ", task.kernel);
    if (task.blocks > 1) absl::StrAppend(&text, ", ", task.blocks, " blocks");
    if (task.chips.size() > 1) absl::StrAppend(&text, ", ", task.chips.size(), " chips");
    if (task.outcome == v1::TaskEvents::FAILED) absl::StrAppend(&text, ", FAILED");
    if (!task.ended()) {
      absl::StrAppend(&text, "\nNOT ENDED, ", PhaseName(task.phase), " for at least ",
                      TimeText(static_cast<double>(task.end_ns - task.start_ns)), "\n",
                      task.waits_for);
      if (task.stands_for > 1) absl::StrAppend(&text, "\n", task.stands_for, " tasks");
      return text;
    }
    if (task.ready_ns >= 0) {
      absl::StrAppend(&text, "\nready at ", TimeText(static_cast<double>(task.ready_ns)));
    }
    absl::StrAppend(&text, "\nstarted at ", TimeText(static_cast<double>(task.start_ns)), ", ran ",
                    TimeText(static_cast<double>(task.returned_ns - task.start_ns)));
    if (task.end_ns > task.returned_ns) {
      absl::StrAppend(&text, ", deferred ",
                      TimeText(static_cast<double>(task.end_ns - task.returned_ns)));
    }
    return text;
  }

  void Bar(uint32_t lane, double x, double wide, absl::string_view colour, absl::string_view about,
           absl::string_view label) {
    const double y = lane_y_[lane];
    absl::StrAppend(&out_, "<g class=\"bar\"><title>", XmlText(about), "</title><rect x=\"",
                    Number(x), "\" y=\"", Number(y + 2), "\" width=\"",
                    Number(std::max(wide, kHalfPoint)), "\" height=\"", Number(kLaneHeight - 4),
                    "\" fill=\"", colour, "\"/>");
    const auto fits = static_cast<size_t>(std::max(0.0, (wide - 6) / kCharacter));
    if (fits >= std::min<size_t>(label.size(), 4) && !label.empty()) {
      absl::StrAppend(&out_, "<text x=\"", Number(x + 3), "\" y=\"", Number(y + 13),
                      "\" fill=\"white\">", XmlText(label.substr(0, fits)), "</text>");
    }
    absl::StrAppend(&out_, "</g>\n");
  }

  void Bars() {
    // For each lane: narrow bars that were not drawn yet.
    struct Together {
      uint64_t count = 0;
      uint32_t first = 0;
      double begin = 0;
      double end = 0;
    };
    std::vector<Together> narrow(lanes_.lanes.size());
    const auto draw = [&](uint32_t lane) {
      Together& group = narrow[lane];
      if (group.count == 0) return;
      const Task& first = trace_.tasks[group.first];
      Bar(lane, group.begin, group.end - group.begin, ColourOf(first),
          group.count == 1 ? About(first) : absl::StrCat(group.count, " tasks from ", first.name),
          group.count == 1 ? absl::string_view() : absl::StrCat(group.count, " tasks"));
      group = {};
    };
    for (const Slice& slice : lanes_.slices) {
      const Task& task = trace_.tasks[slice.task];
      const double begin = X(task.start_ns);
      const double end = X(task.returned_ns);
      Together& group = narrow[slice.lane];
      if (end - begin >= 2 * kHalfPoint) {
        draw(slice.lane);
        Bar(slice.lane, begin, end - begin, ColourOf(task), About(task), task.name);
        continue;
      }
      if (group.count > 0 && begin - group.end > kHalfPoint) draw(slice.lane);
      if (group.count++ == 0) {
        group.first = slice.task;
        group.begin = begin;
      }
      group.end = std::max(group.end, std::max(end, begin + kHalfPoint));
    }
    for (uint32_t lane = 0; lane < narrow.size(); ++lane) draw(lane);
  }

  absl::string_view ColourOf(const Task& task) const {
    if (!task.ended()) return kUnfinishedColour;
    return task.outcome == v1::TaskEvents::FAILED ? kFailedColour : colour_of_.at(task.kernel);
  }

  void Deferred() {
    for (const Slice& slice : lanes_.slices) {
      const Task& task = trace_.tasks[slice.task];
      if (task.end_ns <= task.returned_ns) continue;
      const double y = lane_y_[slice.lane] + kLaneHeight / 2;
      absl::StrAppend(&out_, "<g class=\"deferred\"><title>", XmlText(About(task)),
                      "</title><line x1=\"", Number(X(task.returned_ns)), "\" y1=\"", Number(y),
                      "\" x2=\"", Number(X(task.end_ns)), "\" y2=\"", Number(y),
                      "\" stroke=\"#888\" stroke-width=\"3\" stroke-dasharray=\"4 2\"/></g>\n");
    }
  }

  void Edges() {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> lane_of;
    for (const Slice& slice : lanes_.slices) lane_of[{slice.task, slice.chip}] = slice.lane;
    const auto middle = [&](uint32_t task, uint32_t other) {
      auto near = lane_of.find({task, trace_.tasks[other].chips[0]});
      if (near == lane_of.end()) near = lane_of.find({task, trace_.tasks[task].chips[0]});
      return lane_y_[near->second] + kLaneHeight / 2;
    };
    uint32_t drawn = 0;
    for (const auto& [from, to] : trace_.edges) {
      const Task& before = trace_.tasks[from];
      const Task& after = trace_.tasks[to];
      if (!before.shown() || !after.shown()) continue;
      if (drawn++ == options_.max_edges) break;
      absl::StrAppend(&out_, "<line class=\"edge\" x1=\"", Number(X(before.end_ns)), "\" y1=\"",
                      Number(middle(from, to)), "\" x2=\"", Number(X(after.start_ns)), "\" y2=\"",
                      Number(middle(to, from)), "\" stroke=\"#bbb\" stroke-width=\"0.8\"/>\n");
    }
  }

  void Axis() {
    const double y = bottom_ + 4;
    constexpr int kTicks = 8;
    for (int i = 0; i <= kTicks; ++i) {
      const int64_t ns = first_ns_ + (last_ns_ - first_ns_) * i / kTicks;
      absl::StrAppend(&out_, "<line x1=\"", Number(X(ns)), "\" y1=\"44\" x2=\"", Number(X(ns)),
                      "\" y2=\"", Number(y), "\" stroke=\"#ddd\" stroke-width=\"0.5\"/>\n");
      Text(X(ns), y + 11, TimeText(static_cast<double>(ns)),
           i == 0        ? " fill=\"#555\""
           : i == kTicks ? " fill=\"#555\" text-anchor=\"end\""
                         : " fill=\"#555\" text-anchor=\"middle\"");
    }
    bottom_ = y + 20;
  }

  void Loads() {
    const std::vector<Load> loads = CountLoads(trace_, static_cast<size_t>(width_));
    int64_t most = 1;
    for (const Load& load : loads) most = std::max({most, load.ready, load.running, load.deferred});
    const double top = bottom_;
    const auto y = [&](int64_t count) {
      return top + kLoadHeight * (1 - static_cast<double>(count) / static_cast<double>(most));
    };
    Text(kMargin, top + 10, "tasks", " font-weight=\"bold\"");
    Text(kMargin + 8, top + 24, absl::StrCat("running, of ", most), " fill=\"#3366cc\"");
    Text(kMargin + 8, top + 38, "ready", " fill=\"#b36b00\"");
    Text(kMargin + 8, top + 52, "deferred", " fill=\"#888\"");
    const auto curve = [&](absl::string_view colour, int64_t Load::* count) {
      absl::StrAppend(&out_, "<polyline fill=\"none\" stroke=\"", colour, "\" points=\"");
      double level = y(0);
      for (const Load& load : loads) {
        const double x = X(std::clamp(load.time_ns, first_ns_, last_ns_));
        absl::StrAppend(&out_, Number(x), ",", Number(level), " ");
        level = y(load.*count);
        absl::StrAppend(&out_, Number(x), ",", Number(level), " ");
      }
      absl::StrAppend(&out_, "\"/>\n");
    };
    curve("#888", &Load::deferred);
    curve("#b36b00", &Load::ready);
    curve("#3366cc", &Load::running);
    bottom_ = top + kLoadHeight + 8;
  }

  void Notes() {
    for (const std::string& note : trace_.notes) {
      Text(kMargin, bottom_ + 11, absl::StrCat("Note: ", note), " fill=\"#a00\"");
      bottom_ += 15;
    }
    bottom_ += 4;
  }

  const RunTrace& trace_;
  const SwimlaneOptions& options_;
  const Lanes lanes_;
  int64_t first_ns_ = INT64_MAX;
  int64_t last_ns_ = 0;
  double width_ = 0;
  double bottom_ = 0;
  std::vector<double> lane_y_;
  std::map<std::string, absl::string_view> colour_of_;
  std::string out_;
};

// Wheel: zoom in time. Drag: move. Bars keep their height and text its size.
constexpr absl::string_view kScript = R"(
const svg = document.querySelector('svg'), tip = document.getElementById('tip');
const box = svg.viewBox.baseVal, whole = {x: box.x, width: box.width};
svg.setAttribute('preserveAspectRatio', 'none');
svg.addEventListener('wheel', e => {
  e.preventDefault();
  const at = box.x + box.width * e.offsetX / svg.clientWidth;
  const width = Math.min(whole.width, box.width * (e.deltaY < 0 ? 0.8 : 1.25));
  box.x = Math.max(0, Math.min(whole.width - width, at - (at - box.x) * width / box.width));
  box.width = width;
}, {passive: false});
let from = null;
svg.addEventListener('mousedown', e => { from = e.clientX; });
window.addEventListener('mouseup', () => { from = null; });
svg.addEventListener('mousemove', e => {
  if (from !== null) {
    const by = (from - e.clientX) * box.width / svg.clientWidth;
    box.x = Math.max(0, Math.min(whole.width - box.width, box.x + by));
    from = e.clientX;
  }
  const bar = e.target.closest('g'), title = bar && bar.querySelector('title');
  tip.textContent = title ? title.textContent : '';
  tip.style.display = title ? 'block' : 'none';
  tip.style.left = Math.min(e.clientX + 12, innerWidth - 300) + 'px';
  tip.style.top = (e.clientY + 12) + 'px';
});
)";

}  // namespace

std::string FormatSvg(const RunTrace& trace, const SwimlaneOptions& options) {
  return SvgWriter(trace, options).Write();
}

std::string FormatHtml(const RunTrace& trace, const SwimlaneOptions& options) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
      XmlText(trace.run.name()),
      "</title><style>body{margin:0;font-family:sans-serif}svg{width:100%}"
      "#tip{position:fixed;display:none;white-space:pre;background:#222;color:#fff;padding:6px 8px;"
      "border-radius:4px;font-size:12px;pointer-events:none}</style></head><body>\n"
      "<div id=\"tip\"></div>\n",
      FormatSvg(trace, options), "<script>", kScript, "</script></body></html>\n");
}

}  // namespace pto::trace
