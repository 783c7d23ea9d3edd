// What a kernel host may do to the memory that it shares with the daemon: the ring is read by the
// daemon while the host writes anything anywhere, at any time. The daemon reads what the host has
// really sent, or finds that the ring is broken; and it never reads or writes outside of the ring.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/host/control_block.h"
#include "runtime/host/crash_report.h"
#include "runtime/host/message.h"
#include "runtime/host/ring.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/expect.h"

namespace pto::fuzz {
namespace {

using host::RingHeader;

constexpr uint64_t kBytes = 4096;

// A ring whose data lies at the end of its own allocation, so that AddressSanitizer sees a step too
// far.
struct Ring {
  RingHeader header = {};
  std::vector<uint64_t> data = std::vector<uint64_t>(kBytes / 8);
  host::RingMemory memory() { return {&header, reinterpret_cast<std::byte*>(data.data()), kBytes}; }
};

// Writes somewhere into the ring, as a kernel of the host can.
void Scribble(ByteReader& input, Ring& ring) {
  switch (input.Byte() % 6) {
    case 0:
      ring.header.tail = input.Number<uint64_t>();
      break;
    case 1:
      ring.header.tail = ring.header.tail + input.Byte() * 8;
      break;
    case 2:
      ring.header.head = input.Number<uint64_t>();
      break;
    case 3:
      ring.header.sleepers = input.Number<uint32_t>();
      ring.header.spinners = input.Number<uint32_t>();
      ring.header.taken = input.Number<uint32_t>();
      ring.header.sent = input.Number<uint32_t>();
      break;
    default: {
      const size_t at = input.Number<uint16_t>() % kBytes;
      const absl::Span<const char> bytes = input.Bytes(std::min<size_t>(input.Byte(), kBytes - at));
      if (!bytes.empty()) {
        std::memcpy(reinterpret_cast<char*>(ring.data.data()) + at, bytes.data(), bytes.size());
      }
      break;
    }
  }
}

void CheckMessage(const std::vector<std::byte>& bytes) {
  const absl::StatusOr<host::Report> report = host::ParseReport(bytes);
  if (!report.ok()) return ExpectReason(report.status(), reason::kHostLost);
  PTO_CHECK(report->slot < host::kMaxPosts, "a slot out of range");
  PTO_CHECK(report->text.size() <= host::kMaxText, "a text that is too long");
  PTO_CHECK(report->call.has_value() == (report->kind == host::Report::kCall), "another call");
  if (report->call.has_value()) {
    const bool copies = report->call->kind == host::CallMessage::kCopy;
    PTO_CHECK(report->call->kind <= host::CallMessage::kDeferCopy, "a call out of range");
    PTO_CHECK(report->tensors.size() == (copies ? 2 : 0), "a copy of something else");
    for (const host::TensorMessage& tensor : report->tensors) {
      PTO_CHECK(tensor.ndim <= PTO_MAX_DIMS, "too many dimensions");
    }
  }
  for (const char c : report->text) {
    PTO_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a control character");
  }
}

// The daemon's reader of reports and writer of posts, on rings of one host.
class Daemon {
 public:
  explicit Daemon(Ring& reports, Ring& posts)
      : reader_(reports.memory()), writer_(posts.memory()) {}

  // Return false when the daemon would kill the host.
  bool Read() {
    std::vector<std::byte> bytes;
    const absl::StatusOr<bool> read = reader_.Read(&bytes);
    if (!read.ok()) {
      ExpectReason(read.status(), reason::kHostLost);
      return false;
    }
    if (*read) CheckMessage(bytes);
    return true;
  }
  bool Write(size_t size) {
    const std::vector<std::byte> message(std::min<uint64_t>(size, kBytes / 2), std::byte{7});
    const absl::StatusOr<bool> written = writer_.Write(message);
    if (!written.ok()) {
      ExpectReason(written.status(), reason::kHostLost);
      return false;
    }
    writer_.Publish();
    return true;
  }

 private:
  host::RingReader reader_;
  host::RingWriter writer_;
};

void CheckCrash(ByteReader& input) {
  auto record = std::make_unique<host::CrashRecord>();
  const absl::Span<const char> bytes = input.Bytes(sizeof *record);
  if (!bytes.empty()) std::memcpy(static_cast<void*>(record.get()), bytes.data(), bytes.size());
  const host::CrashReport report = host::ReadCrash(*record);
  PTO_CHECK(report.slot == host::kNoSlot || report.slot < host::kMaxPosts, "a slot out of range");
  PTO_CHECK(report.backtrace.size() < 16384, "a backtrace that is too long");
  host::DescribeCrash(report);
}

void CheckAnswer(ByteReader& input) {
  std::vector<std::byte> bytes(input.Byte() == 0 ? input.Number<uint16_t>() % 8192
                                                 : sizeof(host::AnswerMessage));
  const absl::Span<const char> given = input.Bytes(bytes.size());
  if (!given.empty()) std::memcpy(bytes.data(), given.data(), given.size());
  const absl::StatusOr<host::AnswerMessage> answer = host::ParseAnswer(bytes);
  if (!answer.ok()) return ExpectReason(answer.status(), reason::kHostLost);
  PTO_CHECK(std::strlen(answer->text) < sizeof answer->text, "a text without end");
  PTO_CHECK(answer->description.argument_count <= PTO_MAX_ARGS, "too many arguments");
}

}  // namespace
}  // namespace pto::fuzz

// A byte selects what comes: the host sends a report, writes somewhere, or dies with a crash record
// or an answer; or the daemon reads or writes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pto::host::Report;
  pto::fuzz::ByteReader input(data, size);
  pto::fuzz::Ring reports;
  pto::fuzz::Ring posts;
  pto::host::RingWriter host(reports.memory());
  pto::fuzz::Daemon daemon(reports, posts);
  bool alive = true;
  while (alive && !input.empty()) {
    switch (input.Byte() % 8) {
      case 0: {
        const absl::Span<const char> bytes = input.Bytes(input.Number<uint16_t>() % 1400);
        // A host whose own side is broken sends no more.
        if (!host.Write(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()),
                                            bytes.size()))
                 .ok()) {
          break;
        }
        host.Publish();
        break;
      }
      case 1: {
        Report report;
        report.kind = static_cast<Report::Kind>(Report::kEnded + input.Byte() % 3);
        report.slot = input.Number<uint32_t>();
        report.text = std::string(input.Byte(), 'x');
        if (report.kind == Report::kCall) {
          pto::host::CallMessage& call = report.call.emplace();
          call.kind = input.Byte() % 8;
          call.signal_region = input.Number<uint32_t>();
          call.signal_offset = input.Number<uint64_t>();
          report.tensors.resize(input.Byte() % 4);
          for (pto::host::TensorMessage& tensor : report.tensors) tensor.ndim = input.Byte() % 8;
        }
        std::vector<std::byte> bytes;
        pto::host::EncodeReport(report, &bytes);
        if (host.Write(bytes).ok()) host.Publish();
        break;
      }
      case 2:
        pto::fuzz::Scribble(input, reports);
        break;
      case 3:
        pto::fuzz::Scribble(input, posts);
        break;
      case 4:
        alive = daemon.Write(input.Number<uint16_t>());
        break;
      case 5:
        pto::fuzz::CheckCrash(input);
        break;
      case 6:
        pto::fuzz::CheckAnswer(input);
        break;
      default:
        alive = daemon.Read();
        break;
    }
  }
  return 0;
}
