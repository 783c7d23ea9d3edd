#include "runtime/host/host_output.h"

#include <unistd.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/host/message.h"

namespace pto::host {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A host may print without end: the thread has other things to do, too.
constexpr int kMostReads = 16;

}  // namespace

void HostOutput::Read(int pipe, int64_t now_ns) {
  char bytes[4096];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t count = read(pipe, bytes, sizeof bytes);
    if (count <= 0) return;
    const absl::string_view all(bytes, static_cast<size_t>(count));
    tail_.append(all.data(), all.size());
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
    for (const char c : all) {
      if (c != '\n' && line_.size() < kMostLine) {
        line_.push_back(c);
      } else if (c == '\n') {
        LogLine(line_, now_ns);
        line_.clear();
      }
    }
  }
}

bool HostOutput::MayLog(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (now_ns - second_ns_ >= kSecondNs) {
    if (suppressed_ > 0) {
      PTO_LOG(kWarning, "a kernel host logs too much",
              {{"host", name_}, {"lines_suppressed", suppressed_}});
    }
    second_ns_ = now_ns;
    lines_ = 0;
    suppressed_ = 0;
  }
  if (lines_ >= kLinesPerSecond) {
    ++suppressed_;
    return false;
  }
  ++lines_;
  return true;
}

void HostOutput::LogLine(absl::string_view line, int64_t now_ns) {
  if (line.empty() || !MayLog(now_ns)) return;
  PTO_LOG(kInfo, "kernel host prints", {{"host", name_}, {"line", line}});
}

std::string HostOutput::Tail() const { return Printable(tail_); }

void HostOutput::Clear() {
  tail_.clear();
  line_.clear();
}

}  // namespace pto::host
