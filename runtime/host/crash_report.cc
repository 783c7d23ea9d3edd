#include "runtime/host/crash_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/host/message.h"

namespace pto::host {
namespace {

template <size_t kSize>
std::string TextOf(const char (&field)[kSize]) {
  return Printable(absl::string_view(field, strnlen(field, kSize)));
}

// Signals that come from an instruction, whose address says something.
bool HasAddress(int signal, int code) {
  return code > 0 &&
         (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL);
}

}  // namespace

CrashReport ReadCrash(const CrashRecord& record) {
  CrashReport report;
  const uint32_t kind = record.kind.load(std::memory_order_acquire);
  if (kind == CrashRecord::kNone || kind > CrashRecord::kBroken) return report;
  report.kind = static_cast<CrashRecord::Kind>(kind);
  report.signal = record.signal;
  report.code = record.code;
  report.address = record.address;
  report.stack_overflow = record.stack_overflow != 0;
  const uint32_t slot = record.slot;
  report.slot = slot < kMaxPosts ? slot : kNoSlot;
  report.block = record.block;
  report.post = record.post;
  report.text = TextOf(record.text);
  const uint32_t frames =
      std::min(record.frame_count.load(std::memory_order_acquire), CrashRecord::kMaxFrames);
  for (uint32_t i = 0; i < frames; ++i) {
    const CrashFrame& frame = record.frames[i];
    const std::string symbol = TextOf(frame.symbol);
    const std::string file = TextOf(frame.file);
    absl::StrAppend(&report.backtrace, i == 0 ? "" : " < ");
    if (symbol.empty()) {
      absl::StrAppend(&report.backtrace, file.empty() ? "?" : file, "+0x", absl::Hex(frame.offset));
    } else {
      absl::StrAppend(&report.backtrace, symbol, "+0x", absl::Hex(frame.symbol_offset), " (", file,
                      ")");
    }
  }
  return report;
}

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

std::string DescribeCrash(const CrashReport& report) {
  switch (report.kind) {
    case CrashRecord::kNone:
      return "";
    case CrashRecord::kExit:
      return absl::StrCat("it called exit(", report.code, ")");
    case CrashRecord::kBroken:
      return report.text;
    case CrashRecord::kSignal:
      break;
  }
  const std::string name = SignalName(report.signal);
  if (report.stack_overflow) return absl::StrCat("stack overflow (", name, ")");
  if (!HasAddress(report.signal, report.code)) return name;
  return absl::StrCat(name, " at address 0x", absl::Hex(report.address));
}

}  // namespace pto::host
