// Writes and reads parts of buffers, over gRPC or through shared memory, and compares them with its
// own copy.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

struct Mirror {
  Buffer buffer;
  std::vector<char> bytes;
};

// A random part, often everything.
std::pair<uint64_t, uint64_t> AnyPart(Visit& visit, uint64_t size) {
  if (visit.OneIn(3)) return {0, size};
  const uint64_t begin = visit.Below(size);
  return {begin, 1 + visit.Below(size - begin)};
}

absl::Status WritePart(Visit& visit, Mirror& mirror) {
  const auto [offset, size] = AnyPart(visit, mirror.bytes.size());
  const auto byte = static_cast<char>(visit.Below(256));
  std::vector<char> part(size);
  for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<char>(byte + static_cast<char>(i));
  const uint64_t at = offset;
  PTO_RETURN_IF_ERROR(visit.Insist([&] { return mirror.buffer.Write(part, at); }));
  std::copy(part.begin(), part.end(), mirror.bytes.begin() + static_cast<std::ptrdiff_t>(at));
  visit.tally().bytes += part.size();
  return absl::OkStatus();
}

absl::Status ReadPart(Visit& visit, Mirror& mirror) {
  const auto [offset, size] = AnyPart(visit, mirror.bytes.size());
  const uint64_t at = offset;
  const uint64_t count = size;
  PTO_ASSIGN_OR_RETURN(const std::vector<char> have,
                       visit.Insist([&] { return mirror.buffer.Read<char>(count, at); }));
  visit.tally().bytes += have.size();
  ++visit.tally().checks;
  if (!std::equal(have.begin(), have.end(),
                  mirror.bytes.begin() + static_cast<std::ptrdiff_t>(at))) {
    return absl::DataLossError(absl::StrCat(mirror.buffer.name(), " has changed at ", at));
  }
  return absl::OkStatus();
}

// In place; if that is not possible here (a client without the broker), it is not an error.
absl::Status UseMapped(Visit& visit, Mirror& mirror) {
  const absl::StatusOr<MappedBuffer> mapped = mirror.buffer.Map();
  if (absl::IsUnimplemented(mapped.status()) || absl::IsUnavailable(mapped.status())) {
    return absl::OkStatus();
  }
  if (!mapped.ok()) return mapped.status();
  const auto bytes = mapped->as<char>();
  ++visit.tally().checks;
  if (!std::equal(bytes.begin(), bytes.end(), mirror.bytes.begin(), mirror.bytes.end())) {
    // The memory becomes zeros when the session ends, which only a call can tell.
    PTO_RETURN_IF_ERROR(visit.Insist([&] { return mirror.buffer.Read<char>(1).status(); }));
    return absl::DataLossError(absl::StrCat(mirror.buffer.name(), " is not as it was written"));
  }
  for (size_t i = 0; i < bytes.size(); i += 97) {
    ++bytes[i];
    ++mirror.bytes[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BufferRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect(/*broker=*/!visit.OneIn(3)));
  PTO_ASSIGN_OR_RETURN(Session session, visit.CreateSession(client));
  std::vector<Mirror> mirrors;
  const uint64_t buffers = 1 + visit.Below(4);
  for (uint64_t i = 0; i < buffers; ++i) {
    const uint64_t bytes =
        visit.OneIn(2) ? 1 + visit.Below(8192) : 64 * 1024 + visit.Below(1 << 20);
    const std::string id = absl::StrCat("b", i);
    const uint32_t chip = visit.AnyChip();
    PTO_ASSIGN_OR_RETURN(Buffer buffer,
                         visit.Insist([&] { return session.CreateBuffer(id, chip, bytes); }));
    mirrors.push_back({std::move(buffer), std::vector<char>(bytes)});
  }
  const uint64_t steps = 10 + visit.Below(40);
  for (uint64_t i = 0; i < steps && !visit.place().stopping; ++i) {
    Mirror& mirror = mirrors[visit.Below(mirrors.size())];
    switch (visit.Below(5)) {
      case 0:
      case 1:
        PTO_RETURN_IF_ERROR(WritePart(visit, mirror));
        break;
      case 2:
        PTO_RETURN_IF_ERROR(UseMapped(visit, mirror));
        break;
      default:
        PTO_RETURN_IF_ERROR(ReadPart(visit, mirror));
        break;
    }
  }
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
