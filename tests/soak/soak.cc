// Random clients and a daemon that loses calls and is restarted, for minutes: no wrong result, no
// hang, no leak. See README.md.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/doomed_client.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/holdings.h"
#include "tests/harness/sanitizer.h"
#include "tests/soak/crew.h"
#include "tests/soak/options.h"
#include "tests/soak/remembered.h"
#include "tests/soak/slope.h"
#include "tests/soak/summary.h"
#include "tests/soak/tally.h"

namespace pto::soak {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);
constexpr absl::Duration kReport = absl::Seconds(10);
// No round takes longer, even with a restart of the daemon in it.
constexpr absl::Duration kLongestRound = absl::Minutes(4);
// Short enough that soak_test still reports which client is stuck.
constexpr absl::Duration kStopTime =
    testing::kAddressSanitizer ? absl::Minutes(3) : absl::Seconds(40);
// After the last client has left: for leases to expire, and for kernels to notice.
constexpr absl::Duration kCleanUp = absl::Seconds(40);
// The allowed growth of resident memory in the second half; checked if that is long enough.
constexpr double kMayGrowBytes = 16 << 20;
constexpr absl::Duration kTelling = absl::Seconds(60);

constexpr char kFaults[] =
    "rpc.before=error%0.5,rpc.during=drop%0.1,rpc.after=drop%1,rpc.before.GetRun=delay:3ms%5";

std::vector<std::string> DaemonFlags(const Options& options, const std::string& state) {
  return {absl::StrCat("--sim-chips=", options.chips), "--sim-clusters=8", "--state-dir=" + state,
          "--session-min-ttl=100ms", "--drain-grace=5s",
          // So small that slow readers miss events, and that what is kept for a while is kept only
          // briefly.
          "--event-log-bytes=64K", "--max-session-finished-runs=256", "--journal-max-runs=5000",
          "--max-sessions=4096", "--log-level=warning"};
}

class Soak {
 public:
  explicit Soak(const Options& options)
      : options_(options),
        failpoints_(options.faults && kHasFailpoints ? kFaults : ""),
        daemon_(DaemonFlags(options, directory_.path() + "/state")),
        start_(absl::Now()) {
    place_.address = daemon_.address();
    place_.chips = options.chips;
    place_.tally = &tally_;
    place_.remembered = &remembered_;
  }

  // Returns the exit code.
  int Run() {
    absl::StatusOr<testing::Holdings> baseline = testing::LookAt(daemon_);
    if (!baseline.ok()) {
      tally_.Fail("the beginning", baseline.status());
      return Finish();
    }
    // A boot that started with runs of a former one may have other files open, and gRPC opens more
    // with use. A leak for each client, call or run would be hundreds.
    baseline->files += 8;
    Crew crew(place_, options_.clients, options_.seed);
    Watch(crew);
    if (!crew.Stop(kStopTime)) {
      for (const std::string& who : crew.StuckFor(absl::ZeroDuration())) tally_.Fail(who);
      GiveUp();
    }
    testing::AwaitBaseline(daemon_, *baseline, kCleanUp);
    Note();
    const std::string log = daemon_.Log();
    if (absl::StrContains(log, "run stalled")) tally_.Fail("a run has stalled, see the log");
    daemon_.Stop();
    return Finish();
  }

 private:
  absl::Duration Passed() const { return absl::Now() - start_; }

  void Watch(Crew& crew) {
    const absl::Duration whole = absl::Seconds(options_.seconds);
    // Both restarts are in the first half, so that the memory of the second half is that of one
    // process.
    std::vector<absl::Duration> restarts;
    if (options_.faults) restarts = {whole * 0.2, whole * 0.4};
    absl::Duration report = kReport;
    while (Passed() < whole) {
      absl::SleepFor(std::min(kLook, whole - Passed()));
      if (!daemon_.running()) {
        tally_.Fail("the daemon has ended by itself");
        GiveUp();
      }
      if (static_cast<size_t>(restarts_) < restarts.size() && Passed() >= restarts[restarts_]) {
        Restart();
      }
      if (Passed() >= whole / 2) {
        resident_.emplace_back(absl::ToDoubleSeconds(Passed()), daemon_.ResidentBytes());
      }
      const std::vector<std::string> stuck = crew.StuckFor(kLongestRound);
      for (const std::string& who : stuck) tally_.Fail(who);
      if (!stuck.empty()) GiveUp();
      if (Passed() < report) continue;
      report += kReport;
      Note();
      Print(ProgressLine(figures_, tally_, options_.json));
    }
  }

  // The first restart is a clean stop, the second a kill.
  void Restart() {
    const absl::Time before = absl::Now();
    if (restarts_ % 2 == 0) {
      daemon_.Stop(absl::Seconds(60));
    } else {
      daemon_.Kill();
    }
    const std::vector<std::string> runs = remembered_.Take();
    const absl::Time ended = absl::Now();
    daemon_.Restart();
    ++restarts_;
    std::fprintf(stderr, "soak: the daemon ended within %s, and served again after %s\n",
                 absl::FormatDuration(ended - before).c_str(),
                 absl::FormatDuration(absl::Now() - ended).c_str());
    Place asking;
    asking.address = place_.address;
    asking.tally = &tally_;
    asking.remembered = &remembered_;
    Visit visit(asking, options_.seed);
    absl::StatusOr<Client> client = visit.Connect();
    if (!client.ok()) {
      tally_.Fail("after a restart", client.status());
      return;
    }
    for (const std::string& name : runs) {
      const absl::StatusOr<v1::Run> run = visit.Insist([&] { return client->GetRun(name); });
      ++tally_.checks;
      if (!run.ok()) {
        tally_.Fail(absl::StrCat("after a restart, ", name), run.status());
      } else if (run->state() != v1::Run::SUCCEEDED) {
        tally_.Fail(absl::StrCat(name, " had succeeded, and after a restart is ",
                                 v1::Run::State_Name(run->state())));
      }
    }
  }

  void Note() {
    figures_.passed = Passed();
    figures_.restarts = restarts_;
    figures_.resident_bytes = daemon_.ResidentBytes();
    const absl::StatusOr<testing::Holdings> holdings = testing::LookAt(daemon_);
    if (!holdings.ok()) return;
    figures_.files = holdings->files;
    figures_.sessions = holdings->sessions;
    figures_.active_runs = holdings->runs;
  }

  // Reports everything known about the hang, and exits immediately.
  [[noreturn]] void GiveUp() {
    if (daemon_.running()) {
      daemon_.Signal(SIGQUIT);
      absl::SleepFor(absl::Seconds(2));
    }
    const std::string log = daemon_.Log();
    constexpr size_t kShown = 32 << 10;
    std::fprintf(stderr, "---- the daemon's log:\n%s\n",
                 log.substr(log.size() - std::min(log.size(), kShown)).c_str());
    figures_.passed = Passed();
    Finish();
    if (daemon_.running()) daemon_.Kill();
    std::fflush(stdout);
    _exit(1);
  }

  int Finish() {
    Verdict verdict;
    verdict.figures = figures_;
    const size_t tenth = std::max<size_t>(1, resident_.size() / 10);
    for (size_t i = 0; i < std::min(tenth, resident_.size()); ++i) {
      const auto part = static_cast<double>(tenth);
      verdict.first_resident_bytes += resident_[i].second / part;
      verdict.last_resident_bytes += resident_[resident_.size() - 1 - i].second / part;
    }
    const double slope = Slope(resident_);
    verdict.slope_bytes_per_minute = 60 * slope;
    const absl::Duration half = absl::Seconds(options_.seconds) / 2;
    const double grown = slope * absl::ToDoubleSeconds(half);
    if (half >= kTelling && grown > std::max(kMayGrowBytes, verdict.first_resident_bytes / 10)) {
      tally_.Fail(absl::StrCat("resident memory grows: by ", grown, " bytes in the second half"));
    }
    if (::testing::UnitTest::GetInstance()->Failed()) tally_.Fail("a check has failed, see above");
    verdict.ok = tally_.failures() == 0;
    Print(Summary(verdict, tally_, options_.json));
    return verdict.ok ? 0 : 1;
  }

  static void Print(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  const Options options_;
  const testing::Directory directory_;
  const testing::DaemonFailpoints failpoints_;
  testing::DaemonProcess daemon_;
  const absl::Time start_;
  Tally tally_;
  Remembered remembered_;
  Place place_;
  int restarts_ = 0;
  Figures figures_;
  std::vector<std::pair<double, double>> resident_;
};

int Main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const absl::StatusOr<Options> options = ParseOptions(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "soak: %s\n%s", std::string(options.status().message()).c_str(),
                 std::string(kUsage).c_str());
    return 2;
  }
  std::printf("soak: %d s, %d clients, seed %llu, %s\n", options->seconds, options->clients,
              static_cast<unsigned long long>(options->seed),
              !options->faults ? "no faults"
              : kHasFailpoints ? kFaults
                               : "restarts, but no failpoints in this build");
  std::fflush(stdout);
  return Soak(*options).Run();
}

}  // namespace
}  // namespace pto::soak

int main(int argc, char** argv) {
  if (const absl::optional<int> code = pto::testing::MaybeKillClients(argc, argv)) return *code;
  return pto::soak::Main(argc, argv);
}
