#include "daemon/library_log.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "daemon/rpc/net/token_bucket.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {
namespace {

// Libraries have a line for much of what a client sends, whoever that is. So that nobody fills a
// disk with them, some are left out.
class Throttle {
 public:
  // Whether there is room for one more line, and how many there was none for before it.
  bool Take(uint64_t* left_out) {
    MutexLock lock(mutex_);
    if (!bucket_.Take([] { return Clock::Real().NowNanos(); })) {
      ++left_out_;
      return false;
    }
    *left_out = std::exchange(left_out_, 0);
    return true;
  }

 private:
  static constexpr int64_t kBurst = 100;
  static constexpr int64_t kPerSecond = 5;

  Mutex mutex_;
  rpc::TokenBucket bucket_ ABSL_GUARDED_BY(mutex_){kBurst, kPerSecond, Clock::Real().NowNanos()};
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

void Write(LogLevel level, const char* file, int line, absl::string_view message,
           absl::string_view library) {
  static auto* const throttle = new Throttle;
  if (!LogEnabled(level)) return;
  uint64_t left_out = 0;
  if (!throttle->Take(&left_out)) return;
  if (left_out > 0) PTO_LOG(kWarning, "lines of libraries were left out", {{"lines", left_out}});
  Log(level, file, line, message, {{"from", library}});
}

void LogForGrpc(gpr_log_func_args* line) {
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  // It says ERROR of what a client did, too.
  Write(level, line->file, line->line, line->message, "grpc");
}

void LogForProtobuf(google::protobuf::LogLevel theirs, const char* file, int line,
                    const std::string& message) {
  const LogLevel level = theirs >= google::protobuf::LOGLEVEL_ERROR  ? LogLevel::kError
                         : theirs == google::protobuf::LOGLEVEL_INFO ? LogLevel::kInfo
                                                                     : LogLevel::kWarning;
  Write(level, file, line, message, "protobuf");
}

}  // namespace

void LogForLibraries() {
  gpr_set_log_function(&LogForGrpc);
  google::protobuf::SetLogHandler(&LogForProtobuf);
}

}  // namespace pto::daemon
