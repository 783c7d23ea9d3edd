#include "client/ptoctl/progress_line.h"

#include "absl/strings/str_format.h"

namespace pto::ptoctl {

void ProgressLine::Update(uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const double percent =
      total == 0 ? 0 : 100.0 * static_cast<double>(done) / static_cast<double>(total);
  err_ << absl::StrFormat("\r%d of %d %s (%.0f %%)\033[K", done, total, what_, percent)
       << std::flush;
  shown_ = true;
}

void ProgressLine::Clear() {
  if (shown_) err_ << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace pto::ptoctl
