#include "runtime/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace pto::failpoint {

std::atomic<bool> any_set{false};

namespace {

// The interval at which a held thread checks for its file.
constexpr auto kLook = std::chrono::milliseconds(5);

struct Point {
  enum class What { kDrop, kError, kDelay, kHold, kCrash };
  What what = What::kDrop;
  absl::Duration delay;
  std::string path;
  int64_t pass = 0;
  int64_t left = std::numeric_limits<int64_t>::max();
  double percent = 100;
  int hits = 0;
};

struct Points {
  Mutex mutex;
  std::map<std::string, Point, std::less<>> by_name ABSL_GUARDED_BY(mutex);
  std::minstd_rand random ABSL_GUARDED_BY(mutex);
};

Points& All() {
  static Points* const points = new Points;
  return *points;
}

absl::Status Wrong(absl::string_view entry, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("failpoint '", entry, "': ", what));
}

// Removes `mark` and the number behind it from the text. Returns false if it is not a number.
template <typename Number, typename Parse>
bool CutNumber(char mark, absl::string_view* text, Number* number, Parse parse) {
  const size_t at = text->rfind(mark);
  if (at == absl::string_view::npos) return true;
  const bool good = parse(text->substr(at + 1), number);
  *text = text->substr(0, at);
  return good && *number >= 0;
}

absl::Status ParseWhat(absl::string_view entry, absl::string_view text, Point* point) {
  const auto whole = [](absl::string_view digits, int64_t* to) {
    return absl::SimpleAtoi(digits, to);
  };
  if (!CutNumber('%', &text, &point->percent, &absl::SimpleAtod) ||
      !CutNumber('*', &text, &point->left, whole) || !CutNumber('@', &text, &point->pass, whole)) {
    return Wrong(entry, "after @, * and % comes a number");
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto& [what, argument] = parts;
  if (what == "drop") {
    point->what = Point::What::kDrop;
  } else if (what == "error") {
    point->what = Point::What::kError;
  } else if (what == "crash") {
    point->what = Point::What::kCrash;
  } else if (what == "hold") {
    point->what = Point::What::kHold;
    point->path = std::string(argument);
  } else if (what == "delay") {
    point->what = Point::What::kDelay;
    if (!absl::ParseDuration(argument, &point->delay)) {
      return Wrong(entry, "delay takes a time, as in delay:20ms");
    }
  } else {
    return Wrong(entry, "it can drop, error, delay:TIME, hold:PATH or crash");
  }
  return absl::OkStatus();
}

void WaitForFile(absl::string_view name, const std::string& path) {
  PTO_LOG(kWarning, "held by a failpoint", {{"failpoint", name}, {"until", path}});
  while (path.empty() || access(path.c_str(), F_OK) != 0) std::this_thread::sleep_for(kLook);
}

}  // namespace

absl::Status Set(absl::string_view text) {
  std::map<std::string, Point, std::less<>> points;
  for (const absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == absl::string_view::npos) {
      return Wrong(entry, "it looks like NAME=drop");
    }
    Point point;
    const absl::Status good = ParseWhat(entry, entry.substr(equals + 1), &point);
    if (!good.ok()) return good;
    points.insert_or_assign(std::string(entry.substr(0, equals)), std::move(point));
  }
  if (!kHasFailpoints && !points.empty()) {
    return absl::UnimplementedError("a release build has no failpoints");
  }
  Points& all = All();
  MutexLock lock(all.mutex);
  all.by_name = std::move(points);
  any_set.store(!all.by_name.empty(), std::memory_order_relaxed);
  return absl::OkStatus();
}

int Hits(absl::string_view name) {
  Points& all = All();
  MutexLock lock(all.mutex);
  const auto found = all.by_name.find(name);
  return found == all.by_name.end() ? 0 : found->second.hits;
}

FailAction Hit(absl::string_view name) {
  Point point;
  {
    Points& all = All();
    MutexLock lock(all.mutex);
    const auto found = all.by_name.find(name);
    if (found == all.by_name.end()) return FailAction::kNone;
    Point& here = found->second;
    if (here.pass > 0) {
      --here.pass;
      return FailAction::kNone;
    }
    if (here.left <= 0 ||
        std::uniform_real_distribution<double>(0, 100)(all.random) >= here.percent) {
      return FailAction::kNone;
    }
    --here.left;
    ++here.hits;
    point = here;
  }
  switch (point.what) {
    case Point::What::kDrop:
      return FailAction::kDrop;
    case Point::What::kError:
      return FailAction::kError;
    case Point::What::kDelay:
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(point.delay));
      break;
    case Point::What::kHold:
      WaitForFile(name, point.path);
      break;
    case Point::What::kCrash:
      raise(SIGKILL);
      break;
  }
  return FailAction::kNone;
}

}  // namespace pto::failpoint
