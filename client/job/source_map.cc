#include "client/job/source_map.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::job {

void SourceMap::Set(absl::string_view path, int line, int column) {
  places_[std::string(path)] = Place{line, column};
}

std::string SourceMap::Where(absl::string_view path) const {
  std::string at(path);
  while (true) {
    const auto found = places_.find(at);
    if (found != places_.end()) {
      return absl::StrCat(file_, ":", found->second.line, ":", found->second.column);
    }
    if (at.empty()) return file_;
    const size_t cut = at.find_last_of(".[");
    at.resize(cut == std::string::npos ? 0 : cut);
  }
}

absl::Status SourceMap::Fault(absl::string_view path, absl::string_view message) const {
  Error error(reason::kJobInvalid, absl::StrCat(Where(path), ": ", message));
  if (!path.empty()) error.At(path);
  return error;
}

}  // namespace pto::job
