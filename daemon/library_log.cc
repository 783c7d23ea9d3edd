#include "daemon/library_log.h"

#include <string>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

void LogForGrpc(gpr_log_func_args* line) {
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  // It says ERROR of what a client did, too.
  if (LogEnabled(level)) Log(level, line->file, line->line, line->message, {{"from", "grpc"}});
}

void LogForProtobuf(google::protobuf::LogLevel theirs, const char* file, int line,
                    const std::string& message) {
  const LogLevel level = theirs >= google::protobuf::LOGLEVEL_ERROR  ? LogLevel::kError
                         : theirs == google::protobuf::LOGLEVEL_INFO ? LogLevel::kInfo
                                                                     : LogLevel::kWarning;
  if (LogEnabled(level)) Log(level, file, line, message, {{"from", "protobuf"}});
}

}  // namespace

void LogForLibraries() {
  gpr_set_log_function(&LogForGrpc);
  google::protobuf::SetLogHandler(&LogForProtobuf);
}

}  // namespace pto::daemon
