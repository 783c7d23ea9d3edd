#pragma once

#include <initializer_list>
#include <string>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// One named value of a log line.
class LogField {
 public:
  LogField(absl::string_view key, absl::AlphaNum value)
      : key_(key), value_(std::string(value.Piece())) {}
  absl::string_view key() const { return key_; }
  absl::string_view value() const { return value_; }

 private:
  absl::string_view key_;
  std::string value_;
};

// Sets the minimum level and the format. Call it before threads start. Default: kInfo, kText.
void SetLog(LogLevel level, LogFormat format);
bool LogEnabled(LogLevel level);

// Parse `debug`, `info`, `warning`, `error`; `text`, `json`. Return false for anything else.
bool ParseLogLevel(absl::string_view text, LogLevel* level);
bool ParseLogFormat(absl::string_view text, LogFormat* format);

// One line as Log writes it, without the newline. Control characters are escaped and bytes that are
// not UTF-8 are replaced, so message and values cannot break the line.
std::string FormatLogLine(LogFormat format, absl::string_view time, LogLevel level,
                          absl::string_view file, int line, absl::string_view message,
                          absl::Span<const LogField> fields);

// Writes one line to standard error with one write(). Thread-safe.
void Log(LogLevel level, absl::string_view file, int line, absl::string_view message,
         std::initializer_list<LogField> fields = {});

// Logs a violated invariant and aborts the process.
[[noreturn]] void CheckFailed(absl::string_view file, int line, absl::string_view condition,
                              absl::string_view message);

}  // namespace pto

// PTO_LOG(kInfo, "session ended", {{"session", name}, {"runs", runs}});
// PTO_LOG(kInfo, "drained");
#define PTO_LOG(level, message, ...)                                                              \
  do {                                                                                            \
    if (::pto::LogEnabled(::pto::LogLevel::level)) {                                              \
      ::pto::Log(::pto::LogLevel::level, __FILE__, __LINE__, message __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                             \
  } while (false)

// For conditions that cannot occur. Errors from outside must be an absl::Status.
#define PTO_CHECK(condition, message)                                              \
  do {                                                                             \
    if (!(condition)) ::pto::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)
