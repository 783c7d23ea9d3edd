#include "daemon/auth/audit_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon::auth {
namespace {

// After an entry the thread waits for more, so that calls in quick succession wake it once.
constexpr std::chrono::milliseconds kGather(20);
constexpr absl::string_view kToLog = "log";
// Longer names are cut: they can only be wrong.
constexpr size_t kMostNameBytes = 256;

int OpenFile(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

void AppendText(std::string* out, absl::string_view text) {
  if (text.size() > kMostNameBytes) {
    size_t end = kMostNameBytes;
    // Not within a character.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

void AppendField(std::string* out, absl::string_view key, absl::string_view text) {
  if (text.empty()) return;
  absl::StrAppend(out, ",\"", key, "\":");
  AppendText(out, text);
}

// The session of the first name that has one.
absl::string_view SessionOf(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "sessions/")) continue;
    return absl::string_view(name).substr(0, name.find('/', sizeof("sessions/") - 1));
  }
  return "";
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

}  // namespace

std::string FormatAudit(const AuditEntry& entry) {
  std::string line = absl::StrCat("{\"time\":\"", TimeText(entry.time), "\"");
  AppendField(&line, "principal", entry.principal);
  if (entry.pid != 0) absl::StrAppend(&line, ",\"pid\":", entry.pid);
  AppendField(&line, "address", entry.address);
  AppendField(&line, "method", entry.method);
  AppendField(&line, "session", SessionOf(entry.names));
  if (!entry.names.empty()) {
    absl::StrAppend(&line, ",\"names\":[");
    for (size_t i = 0; i < entry.names.size(); ++i) {
      if (i > 0) line.push_back(',');
      AppendText(&line, entry.names[i]);
    }
    line.push_back(']');
  }
  AppendField(&line, "code", entry.code);
  AppendField(&line, "reason", entry.reason);
  if (entry.launches != 0) absl::StrAppend(&line, ",\"launches\":", entry.launches);
  if (entry.refused != 0) absl::StrAppend(&line, ",\"refused\":", entry.refused);
  line.push_back('}');
  return line;
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Options options) {
  FileDescriptor file;
  if (options.path != kToLog) {
    file = FileDescriptor(OpenFile(options.path));
    if (!file.valid()) {
      const int error = errno;
      return Error(reason::kConfigInvalid,
                   absl::StrCat("cannot open the audit log ", options.path, ": ",
                                std::generic_category().message(error)))
          .At("access.audit_log")
          .With("file", options.path);
    }
  }
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(options), std::move(file)));
}

AuditLog::AuditLog(Options options, FileDescriptor file)
    : options_(std::move(options)), file_(std::move(file)), thread_([this] { Work(); }) {
  pthread_setname_np(thread_.native_handle(), "audit");
}

AuditLog::~AuditLog() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void AuditLog::Add(AuditEntry entry) {
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= options_.max_queue) {
      ++dropped_;
      all_dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    queue_.push_back(std::move(entry));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) changed_.NotifyAll();
}

void AuditLog::Reopen() {
  {
    MutexLock lock(mutex_);
    reopen_ = true;
    sleeping_ = false;
  }
  changed_.NotifyAll();
}

void AuditLog::Flush() {
  MutexLock lock(mutex_);
  flush_ = true;
  changed_.NotifyAll();
  while (!queue_.empty() || writing_ || dropped_ > 0 || reopen_) written_.Wait(mutex_);
  flush_ = false;
}

void AuditLog::Work() {
  std::vector<AuditEntry> entries;
  mutex_.Lock();
  while (true) {
    if (queue_.empty() && dropped_ == 0 && !reopen_) {
      if (stop_) break;
      sleeping_ = true;
      changed_.Wait(mutex_);
      sleeping_ = false;
      continue;
    }
    if (!stop_ && !flush_ && !reopen_ && queue_.size() < options_.max_queue / 2) {
      changed_.WaitFor(mutex_, kGather);
    }
    entries.swap(queue_);
    const uint64_t dropped = std::exchange(dropped_, 0);
    const bool reopen = std::exchange(reopen_, false);
    writing_ = true;
    mutex_.Unlock();
    // What came before the file was moved belongs to the old one; it does not matter which of the
    // two the last lines are in.
    if (reopen) OpenAgain();
    Write(entries, dropped);
    entries.clear();
    mutex_.Lock();
    writing_ = false;
    written_.NotifyAll();
  }
  mutex_.Unlock();
}

void AuditLog::OpenAgain() {
  if (options_.path == kToLog) return;
  FileDescriptor file(OpenFile(options_.path));
  if (file.valid()) {
    file_ = std::move(file);
    return;
  }
  const int error = errno;
  PTO_LOG(kError, "the audit log cannot be opened again: the former file stays",
          {{"file", options_.path}, {"error", std::generic_category().message(error)}});
}

void AuditLog::Write(const std::vector<AuditEntry>& entries, uint64_t dropped) {
  if (!file_.valid()) {
    for (const AuditEntry& entry : entries) PTO_LOG(kInfo, "audit", {{"call", FormatAudit(entry)}});
    if (dropped > 0) PTO_LOG(kError, "audit entries were dropped", {{"entries", dropped}});
    return;
  }
  // After an error: the last line may be incomplete.
  std::string text = torn_ ? "\n" : "";
  dropped += lost_;
  for (const AuditEntry& entry : entries) {
    text += FormatAudit(entry);
    text.push_back('\n');
  }
  if (dropped > 0) absl::StrAppend(&text, "{\"dropped\":", dropped, "}\n");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = write(file_.get(), text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      const int error = errno;
      PTO_LOG(kError, "the audit log cannot be written",
              {{"file", options_.path},
               {"entries", entries.size()},
               {"error", std::generic_category().message(error)}});
      all_dropped_.fetch_add(entries.size(), std::memory_order_relaxed);
      // The next line that can be written says how many are missing.
      lost_ = dropped + entries.size();
      torn_ = true;
      return;
    }
    done += static_cast<size_t>(size);
  }
  lost_ = 0;
  torn_ = false;
}

}  // namespace pto::daemon::auth
