// What a client sends before anybody knows who it is: the guard of its connection reads it first.

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/rpc/net/traffic_guard.h"
#include "runtime/base/log.h"
#include "tests/fuzz/byte_reader.h"

namespace pto::fuzz {
namespace {

using daemon::rpc::TrafficGuard;
using daemon::rpc::TrafficLimits;
using daemon::rpc::Violation;

// Whatever pieces the bytes come in, the guard comes to the same conclusion.
Violation Feed(TrafficGuard& guard, absl::string_view bytes, ByteReader* pieces) {
  while (!bytes.empty()) {
    const size_t size =
        pieces == nullptr ? bytes.size() : std::min<size_t>(1 + pieces->Byte(), bytes.size());
    const Violation violation = guard.Received(bytes.substr(0, size));
    if (violation != Violation::kNone) return violation;
    bytes.remove_prefix(size);
  }
  return Violation::kNone;
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pto::fuzz;
  ByteReader input(data, size);
  std::string client(pto::daemon::rpc::kPreface);
  // Mostly what begins well.
  const auto how = static_cast<uint8_t>(input.Byte());
  if (how % 16 == 0) client.clear();
  const absl::Span<const char> sent = input.Bytes(size);
  client.append(sent.data(), sent.size());
  TrafficLimits limits;
  limits.max_unfinished_bytes = 4096;
  std::atomic<int64_t> total{0};
  {
    TrafficGuard whole(limits, total);
    TrafficGuard parts(limits, total);
    const Violation at_once = Feed(whole, client, nullptr);
    ByteReader pieces(data, size);
    const Violation in_pieces = Feed(parts, client, &pieces);
    // Unfinished bytes are looked at after each piece, so there may have been too many for a while.
    if (at_once != in_pieces) {
      PTO_CHECK(in_pieces == Violation::kUnfinished, "pieces make no difference");
    } else if (at_once == Violation::kNone) {
      PTO_CHECK(whole.unfinished_bytes() == parts.unfinished_bytes(), "and none to what is held");
      PTO_CHECK(whole.begun() == parts.begun(), "nor to whether it has begun");
    }
    PTO_CHECK(whole.unfinished_bytes() >= 0 && parts.unfinished_bytes() >= 0,
              "never less than none");
    PTO_CHECK(whole.unfinished_bytes() <= static_cast<int64_t>(client.size()),
              "nor more than came");
    // The other direction, with the same bytes.
    const absl::string_view answer(sent.data(), sent.size());
    (void)whole.Sent(answer);
    for (const char byte : answer) (void)parts.Sent(absl::string_view(&byte, 1));
    PTO_CHECK(total.load() == whole.unfinished_bytes() + parts.unfinished_bytes(), "all together");
  }
  PTO_CHECK(total.load() == 0, "all is given back");
  return 0;
}
