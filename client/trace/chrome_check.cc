#include "client/trace/chrome_check.h"

#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/job/json_tree.h"
#include "runtime/base/status_macros.h"

namespace pto::trace {
namespace {

using job::JsonNode;
using Kind = JsonNode::Kind;

const JsonNode* Find(const JsonNode& object, absl::string_view key) {
  for (const JsonNode::Member& member : object.members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

class Checker {
 public:
  explicit Checker(ChromeContents* contents) : contents_(*contents) {}

  absl::Status Check(absl::string_view text) {
    JsonNode root;
    job::JsonFault fault;
    if (!job::ParseJson(text, &root, &fault)) {
      return absl::InvalidArgumentError(absl::StrCat("at ", fault.offset, ": ", fault.message));
    }
    const JsonNode* const events = root.kind == Kind::kObject ? Find(root, "traceEvents") : nullptr;
    if (events == nullptr || events->kind != Kind::kArray) {
      return absl::InvalidArgumentError("there is no array traceEvents");
    }
    for (const JsonNode& event : events->items) {
      PTO_RETURN_IF_ERROR(CheckEvent(event));
      ++index_;
    }
    return CheckAll();
  }

 private:
  using Thread = std::pair<int64_t, int64_t>;
  // Times in ns.
  struct Span {
    int64_t start = 0;
    int64_t end = 0;
  };
  struct Place {
    Thread thread;
    int64_t time = 0;
  };

  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("event ", index_, ": ", what));
  }

  absl::Status Text(const JsonNode& event, absl::string_view key, std::string* value) const {
    const JsonNode* const node = Find(event, key);
    if (node == nullptr || node->kind != Kind::kString) {
      return Wrong(absl::StrCat("no string ", key));
    }
    *value = node->text;
    return absl::OkStatus();
  }

  absl::Status Number(const JsonNode& event, absl::string_view key, double* value) const {
    const JsonNode* const node = Find(event, key);
    if (node == nullptr || node->kind != Kind::kNumber || !absl::SimpleAtod(node->text, value)) {
      return Wrong(absl::StrCat("no number ", key));
    }
    return absl::OkStatus();
  }

  absl::Status Nanos(const JsonNode& event, absl::string_view key, int64_t* ns) const {
    double micros = 0;
    PTO_RETURN_IF_ERROR(Number(event, key, &micros));
    if (micros < 0) return Wrong(absl::StrCat(key, " is negative"));
    *ns = std::llround(micros * 1000);
    return absl::OkStatus();
  }

  absl::Status Arguments(const JsonNode& event, const JsonNode** args) const {
    *args = Find(event, "args");
    if (*args == nullptr || (*args)->kind != Kind::kObject) return Wrong("no object args");
    return absl::OkStatus();
  }

  // An id is a string or a number.
  absl::Status Id(const JsonNode& event, std::string* id) const {
    const JsonNode* const node = Find(event, "id");
    if (node == nullptr || (node->kind != Kind::kString && node->kind != Kind::kNumber)) {
      return Wrong("no id");
    }
    std::string category;
    PTO_RETURN_IF_ERROR(Text(event, "cat", &category));
    *id = absl::StrCat(category, "/", node->text);
    return absl::OkStatus();
  }

  absl::Status CheckEvent(const JsonNode& event) {
    if (event.kind != Kind::kObject) return Wrong("not an object");
    std::string phase, name, id;
    double pid = 0, tid = 0;
    int64_t time = 0;
    PTO_RETURN_IF_ERROR(Text(event, "ph", &phase));
    PTO_RETURN_IF_ERROR(Text(event, "name", &name));
    PTO_RETURN_IF_ERROR(Number(event, "pid", &pid));
    PTO_RETURN_IF_ERROR(Number(event, "tid", &tid));
    PTO_RETURN_IF_ERROR(Nanos(event, "ts", &time));
    const Thread thread(static_cast<int64_t>(pid), static_cast<int64_t>(tid));
    const JsonNode* args = nullptr;
    if (phase == "M") {
      PTO_RETURN_IF_ERROR(Arguments(event, &args));
      if (name == "process_name") named_processes_.insert(thread.first);
      if (name == "thread_name") named_threads_.insert(thread);
      return absl::OkStatus();
    }
    if (phase == "X") {
      int64_t duration = 0;
      PTO_RETURN_IF_ERROR(Nanos(event, "dur", &duration));
      PTO_RETURN_IF_ERROR(Arguments(event, &args));
      spans_[thread].push_back({time, time + duration});
      ++contents_.slices;
      return absl::OkStatus();
    }
    if (phase == "C") {
      PTO_RETURN_IF_ERROR(Arguments(event, &args));
      for (const JsonNode::Member& value : args->members) {
        if (value.value.kind != Kind::kNumber) return Wrong("a counter is a number");
      }
      ++contents_.counters;
      return absl::OkStatus();
    }
    PTO_RETURN_IF_ERROR(Id(event, &id));
    if (phase == "s" || phase == "f") {
      if (phase == "f") {
        std::string point;
        PTO_RETURN_IF_ERROR(Text(event, "bp", &point));
        if (point != "e") return Wrong("a flow must end in the slice around it");
      }
      if (!(phase == "s" ? begins_ : ends_).emplace(id, Place{thread, time}).second) {
        return Wrong(absl::StrCat("flow ", id, " comes twice"));
      }
      ++contents_.flows;
      return absl::OkStatus();
    }
    if (phase == "b" || phase == "e") {
      const std::string key = absl::StrCat(thread.first, "/", id);
      if (phase == "b") {
        if (!open_.emplace(key, time).second) return Wrong(absl::StrCat(key, " begins twice"));
        ++contents_.async;
        return absl::OkStatus();
      }
      const auto begun = open_.find(key);
      if (begun == open_.end()) return Wrong(absl::StrCat(key, " ends but did not begin"));
      if (begun->second > time) return Wrong(absl::StrCat(key, " ends before it begins"));
      open_.erase(begun);
      return absl::OkStatus();
    }
    return Wrong(absl::StrCat("unknown phase ", phase));
  }

  absl::Status CheckAll() {
    if (!open_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(open_.begin()->first, " never ends"));
    }
    for (auto& [thread, spans] : spans_) {
      if (named_threads_.count(thread) == 0 || named_processes_.count(thread.first) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("thread ", thread.first, "/", thread.second, " has no name"));
      }
      int64_t last = 0;
      for (const Span& span : spans) {
        if (span.start < last) {
          return absl::InvalidArgumentError(absl::StrCat("slices of thread ", thread.first, "/",
                                                         thread.second, " overlap at ", span.start,
                                                         " ns"));
        }
        last = span.end;
      }
    }
    contents_.processes = named_processes_.size();
    contents_.threads = named_threads_.size();
    if (begins_.size() != ends_.size()) {
      return absl::InvalidArgumentError("there are flows without a beginning or an end");
    }
    for (const auto& [id, begin] : begins_) {
      const auto end = ends_.find(id);
      if (end == ends_.end()) {
        return absl::InvalidArgumentError(absl::StrCat("flow ", id, " has no end"));
      }
      for (const Place& place : {begin, end->second}) {
        if (InSlice(place)) continue;
        return absl::InvalidArgumentError(absl::StrCat("flow ", id, " is at ", place.time,
                                                       " ns, where thread ", place.thread.first,
                                                       "/", place.thread.second, " has no slice"));
      }
    }
    return absl::OkStatus();
  }

  bool InSlice(const Place& place) const {
    const auto spans = spans_.find(place.thread);
    if (spans == spans_.end()) return false;
    for (const Span& span : spans->second) {
      if (span.start <= place.time && place.time <= span.end) return true;
    }
    return false;
  }

  ChromeContents& contents_;
  size_t index_ = 0;
  std::set<int64_t> named_processes_;
  std::set<Thread> named_threads_;
  std::map<Thread, std::vector<Span>> spans_;
  std::map<std::string, Place> begins_;
  std::map<std::string, Place> ends_;
  std::map<std::string, int64_t> open_;
};

}  // namespace

absl::Status CheckChromeTrace(absl::string_view text, ChromeContents* contents) {
  return Checker(contents).Check(text);
}

}  // namespace pto::trace
