#include "tests/soak/crew.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"

namespace pto::soak {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);
// After a failed round: the daemon may be down.
constexpr absl::Duration kPause = absl::Milliseconds(100);

// Kinds in proportion to their weights, mixed, so that even few clients have many kinds.
std::vector<const Kind*> Deal(int clients) {
  std::vector<const Kind*> dealt;
  std::vector<double> owed(AllKinds().size(), 0);
  while (static_cast<int>(dealt.size()) < clients) {
    // The kind that is furthest below its share is next.
    size_t best = 0;
    for (size_t i = 0; i < owed.size(); ++i) {
      owed[i] += AllKinds()[i].weight;
      if (owed[i] > owed[best]) best = i;
    }
    double all = 0;
    for (const Kind& kind : AllKinds()) all += kind.weight;
    owed[best] -= all;
    dealt.push_back(&AllKinds()[best]);
  }
  return dealt;
}

}  // namespace

bool IsExpected(const absl::Status& error) {
  if (absl::IsUnavailable(error)) return true;
  const std::string reason = ReasonOf(error);
  if (reason == reason::kSessionEnded.name) {
    // Caused by a restart, not by an expired lease: only then the error names the boot.
    const absl::optional<ErrorDetail> detail = GetErrorDetail(error);
    for (const auto& [key, value] : detail->metadata) {
      if (key == "boot_id") return true;
    }
    return false;
  }
  // The daemon was restarted, or is about to be and has cancelled what did not end in time.
  return reason == reason::kBootIdChanged.name || reason == reason::kDaemonRestarted.name ||
         reason == reason::kRunCancelled.name || reason == reason::kStreamBroken.name;
}

Crew::Crew(Place& place, int clients, uint64_t seed) : place_(place) {
  std::mt19937_64 random(seed);
  for (const Kind* kind : Deal(clients)) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    member.kind = kind;
    member.thread = std::thread([this, &member, first = random()] { Live(member, first); });
  }
}

void Crew::Live(Member& member, uint64_t seed) {
  std::mt19937_64 random(seed);
  while (!place_.stopping) {
    const uint64_t round = random();
    member.seed = round;
    member.began_ns = absl::GetCurrentTimeNanos();
    Visit visit(place_, round);
    const absl::Status status = member.kind->round(visit);
    member.began_ns = 0;
    ++place_.tally->rounds;
    if (status.ok()) continue;
    if (IsExpected(status)) {
      place_.tally->Expected(status);
    } else {
      place_.tally->Fail(absl::StrCat(member.kind->name, ", seed ", round), status);
    }
    absl::SleepFor(kPause);
  }
  member.gone = true;
}

std::vector<std::string> Crew::StuckFor(absl::Duration longest) const {
  std::vector<std::string> stuck;
  const int64_t now = absl::GetCurrentTimeNanos();
  for (const auto& member : members_) {
    const int64_t began = member->began_ns;
    if (began == 0 || absl::Nanoseconds(now - began) < longest) continue;
    stuck.push_back(absl::StrCat("a client of kind ", member->kind->name, ", seed ",
                                 member->seed.load(), ", is in one round for ",
                                 absl::FormatDuration(absl::Nanoseconds(now - began))));
  }
  return stuck;
}

bool Crew::Stop(absl::Duration timeout) {
  place_.stopping = true;
  const absl::Time deadline = absl::Now() + timeout;
  bool all = true;
  for (const auto& member : members_) {
    if (!member->thread.joinable()) continue;
    while (!member->gone && absl::Now() < deadline) absl::SleepFor(kLook);
    if (member->gone) {
      member->thread.join();
    } else {
      all = false;
    }
  }
  return all;
}

}  // namespace pto::soak
