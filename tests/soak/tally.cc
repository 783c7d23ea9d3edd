#include "tests/soak/tally.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::soak {
namespace {

constexpr size_t kKept = 20;

}  // namespace

void Tally::Expected(const absl::Status& error) {
  std::string name = ReasonOf(error);
  if (name.empty()) name = absl::StatusCodeToString(error.code());
  MutexLock lock(mutex_);
  ++expected_[name];
}

void Tally::Fail(absl::string_view kind, const absl::Status& error) {
  Fail(absl::StrCat(kind, ": ", absl::StatusCodeToString(error.code()), " / ", ReasonOf(error),
                    ": ", error.message()));
}

void Tally::Fail(absl::string_view text) {
  ++failures_;
  MutexLock lock(mutex_);
  if (first_failures_.size() >= kKept) return;
  first_failures_.emplace_back(text);
  std::fprintf(stderr, "soak: FAILURE %s\n", first_failures_.back().c_str());
}

std::map<std::string, uint64_t> Tally::expected() const {
  MutexLock lock(mutex_);
  return expected_;
}

std::vector<std::string> Tally::first_failures() const {
  MutexLock lock(mutex_);
  return first_failures_;
}

}  // namespace pto::soak
