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
std::atomic<bool (*)(absl::string_view)> g_sink{nullptr};

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

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

// The length of the UTF-8 character at the start of `text`; 0 if it is invalid.
size_t Utf8Length(absl::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong, a surrogate, or beyond the last code point.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f) ||
      (lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f)) {
    return 0;
  }
  return length;
}

// Appends `text` without line breaks; with `quotes`, also valid inside a JSON string.
void AppendEscaped(std::string& out, absl::string_view text, bool quotes) {
  static constexpr char kHex[] = "0123456789abcdef";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";  // U+FFFD: JSON parsers would reject the whole line otherwise
    } else if (quotes && (c == '"' || c == '\\')) {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (IsControl(c)) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

bool NeedsQuotes(absl::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (c == ' ' || c == '"' || c == '=' || IsControl(c)) return true;
  }
  return false;
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string FormatJson(absl::string_view time, LogLevel level, absl::string_view file, int line,
                       absl::string_view message, absl::Span<const LogField> fields) {
  std::string out =
      absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", LevelName(level), "\",\"source\":\"",
                   BaseName(file), ":", line, "\",\"message\":\"");
  AppendEscaped(out, message, /*quotes=*/true);
  out += '"';
  for (const LogField& field : fields) {
    absl::StrAppend(&out, ",\"", field.key(), "\":\"");
    AppendEscaped(out, field.value(), /*quotes=*/true);
    out += '"';
  }
  out += '}';
  return out;
}

std::string FormatText(absl::string_view time, LogLevel level, absl::string_view file, int line,
                       absl::string_view message, absl::Span<const LogField> fields) {
  std::string out = absl::StrCat(time, " ", LevelName(level), " ", BaseName(file), ":", line, " ");
  AppendEscaped(out, message, /*quotes=*/false);
  for (const LogField& field : fields) {
    absl::StrAppend(&out, " ", field.key(), "=");
    if (NeedsQuotes(field.value())) {
      out += '"';
      AppendEscaped(out, field.value(), /*quotes=*/true);
      out += '"';
    } else {
      AppendEscaped(out, field.value(), /*quotes=*/false);
    }
  }
  return out;
}

}  // namespace

// Declared in log_writer.h: log.h is included everywhere, and this is not for everyone.
void SetLogSink(bool (*sink)(absl::string_view)) { g_sink = sink; }

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
  bool (*const sink)(absl::string_view) = g_sink.load(std::memory_order_acquire);
  if (sink != nullptr && sink(text)) return;
  // A failing write must not stop the daemon.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void CheckFailed(absl::string_view file, int line, absl::string_view condition,
                 absl::string_view message) {
  Log(LogLevel::kError, file, line, "check failed",
      {{"condition", condition}, {"message", message}});
  std::abort();
}

}  // namespace pto
