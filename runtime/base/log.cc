#include "runtime/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace pto {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "UNKNOWN";
}

void AppendEscaped(std::string& out, absl::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

bool NeedsQuotes(absl::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (c == ' ' || c == '"' || c == '=' || static_cast<unsigned char>(c) < 0x20) return true;
  }
  return false;
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string FormatJson(absl::string_view time, LogLevel level, absl::string_view file, int line,
                       absl::string_view message, absl::Span<const LogField> fields) {
  std::string out = absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", LevelName(level),
                                 "\",\"source\":\"", BaseName(file), ":", line,
                                 "\",\"message\":\"");
  AppendEscaped(out, message);
  out += '"';
  for (const LogField& field : fields) {
    absl::StrAppend(&out, ",\"", field.key(), "\":\"");
    AppendEscaped(out, field.value());
    out += '"';
  }
  out += '}';
  return out;
}

std::string FormatText(absl::string_view time, LogLevel level, absl::string_view file, int line,
                       absl::string_view message, absl::Span<const LogField> fields) {
  std::string out =
      absl::StrCat(time, " ", LevelName(level), " ", BaseName(file), ":", line, " ", message);
  for (const LogField& field : fields) {
    absl::StrAppend(&out, " ", field.key(), "=");
    if (NeedsQuotes(field.value())) {
      out += '"';
      AppendEscaped(out, field.value());
      out += '"';
    } else {
      out.append(field.value().data(), field.value().size());
    }
  }
  return out;
}

}  // namespace

void SetLog(LogLevel level, LogFormat format) {
  g_level = level;
  g_format = format;
}

bool LogEnabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  if (text == "debug") {
    *level = LogLevel::kDebug;
  } else if (text == "info") {
    *level = LogLevel::kInfo;
  } else if (text == "warning") {
    *level = LogLevel::kWarning;
  } else if (text == "error") {
    *level = LogLevel::kError;
  } else {
    return false;
  }
  return true;
}

bool ParseLogFormat(absl::string_view text, LogFormat* format) {
  if (text == "text") {
    *format = LogFormat::kText;
  } else if (text == "json") {
    *format = LogFormat::kJson;
  } else {
    return false;
  }
  return true;
}

std::string FormatLogLine(LogFormat format, absl::string_view time, LogLevel level,
                          absl::string_view file, int line, absl::string_view message,
                          absl::Span<const LogField> fields) {
  return format == LogFormat::kJson ? FormatJson(time, level, file, line, message, fields)
                                    : FormatText(time, level, file, line, message, fields);
}

void Log(LogLevel level, absl::string_view file, int line, absl::string_view message,
         std::initializer_list<LogField> fields) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  std::string text =
      FormatLogLine(g_format.load(std::memory_order_relaxed), time, level, file, line, message,
                    absl::MakeConstSpan(fields.begin(), fields.size()));
  text += '\n';
  // A log that cannot be written must not stop the daemon.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void CheckFailed(absl::string_view file, int line, absl::string_view condition,
                 absl::string_view message) {
  Log(LogLevel::kError, file, line, "check failed",
      {{"condition", condition}, {"message", message}});
  std::abort();
}

}  // namespace pto
