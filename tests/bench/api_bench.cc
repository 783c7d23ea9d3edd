// api_bench: the cost of calls to the daemon, compared with bare gRPC on the same machine. See
// README.md.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/bare_server.h"
#include "tests/bench/broker_rate.h"
#include "tests/bench/event_rate.h"
#include "tests/bench/large_graph.h"
#include "tests/bench/latency.h"
#include "tests/bench/open_rate.h"
#include "tests/bench/report.h"
#include "tests/bench/run_rate.h"
#include "tests/bench/servers.h"
#include "tests/bench/transfer_rate.h"

namespace pto::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
// Calls have no deadlines, which would cost time: this ends a benchmark that hangs.
constexpr unsigned kLongestRunSeconds = 900;
// How much longer than an echo over TLS a call over TLS may take.
constexpr double kMostTls = 1.3;

struct Flags {
  bool json = false;
  bool quick = false;
  std::string ptod;
  std::string only;
  std::string placement;
  int rounds = 0;
  std::string bare_server;
  std::string bare_tls;
};

absl::Status Measure(const Flags& flags, const std::string& self, Report& report) {
  const std::string ptod = flags.ptod.empty() ? FindProgram(self, "daemon/ptod") : flags.ptod;
  if (ptod.empty()) return absl::NotFoundError("ptod was not found; say where with --ptod");
  Effort effort = flags.quick ? Effort::Quick() : Effort();
  if (flags.rounds > 0) {
    effort.rounds = effort.long_rounds = effort.event_rounds = flags.rounds;
  }
  PTO_ASSIGN_OR_RETURN(const std::unique_ptr<Servers> servers, Servers::Start(ptod, self));
  const auto wanted = [&flags](const char* part) {
    return flags.only.empty() || flags.only == part;
  };
  if (wanted("latency")) {
    const absl::optional<Placement> placement = ParsePlacement(flags.placement);
    PTO_RETURN_IF_ERROR(servers->Place(placement.value_or(Placement::kApart)));
    PTO_RETURN_IF_ERROR(MeasureLatency(*servers, effort, "", true, report));
    if (!placement.has_value()) {
      PTO_RETURN_IF_ERROR(servers->Place(Placement::kTogether));
      PTO_RETURN_IF_ERROR(MeasureLatency(*servers, effort, "_one_cpu", false, report));
    }
    PTO_RETURN_IF_ERROR(servers->Place(Placement::kFree));
  }
  if (wanted("tls")) {
    PTO_ASSIGN_OR_RETURN(const std::unique_ptr<Servers> tls,
                         Servers::Start(ptod, self, Servers::Transport::kTls));
    PTO_RETURN_IF_ERROR(tls->Place(Placement::kApart));
    PTO_RETURN_IF_ERROR(MeasureLatency(*tls, effort, "_tls", true, report, kMostTls));
    PTO_RETURN_IF_ERROR(servers->Place(Placement::kFree));
  }
  if (wanted("rate")) PTO_RETURN_IF_ERROR(MeasureRunRate(*servers, effort, report));
  if (wanted("events")) PTO_RETURN_IF_ERROR(MeasureEventRate(*servers, effort, report));
  if (wanted("transfer")) PTO_RETURN_IF_ERROR(MeasureTransferRate(*servers, effort, report));
  if (wanted("broker")) PTO_RETURN_IF_ERROR(MeasureBrokerRate(*servers, effort, report));
  if (wanted("open")) PTO_RETURN_IF_ERROR(MeasureOpenRate(*servers, effort, report));
  if (wanted("graph")) {
    const std::string alone = FindProgram(self, "tests/bench/graph_alone");
    if (alone.empty()) return absl::NotFoundError("graph_alone was not found beside this program");
    PTO_RETURN_IF_ERROR(MeasureLargeGraph(*servers, alone, effort, report));
  }
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "api_bench: %s\n", status.ToString().c_str());
  return kExitFailed;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures ptod's API beside bare gRPC. Exit code 1: a target was missed.",
               "api_bench");
  app.add_flag("--json", flags.json, "one JSON object per line");
  app.add_flag("--quick", flags.quick,
               "a second or two, to see that everything works; targets do not count");
  app.add_option("--ptod", flags.ptod, "the daemon's program")->type_name("PATH");
  app.add_option("--only", flags.only, "one part")
      ->check(CLI::IsMember(
          {"latency", "tls", "rate", "events", "transfer", "broker", "graph", "open"}));
  app.add_option("--placement", flags.placement,
                 "CPUs of client and servers when latency is measured (default apart)")
      ->check(CLI::IsMember({"free", "apart", "together"}));
  app.add_option("--rounds", flags.rounds, "rounds of each part")->check(CLI::PositiveNumber);
  // Turns this program into the bare peer.
  app.add_option("--bare-server", flags.bare_server)->group("");
  app.add_option("--bare-tls", flags.bare_tls)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (!flags.bare_server.empty()) return Fail(ServeBare(flags.bare_server, flags.bare_tls));

#ifndef NDEBUG
  std::fprintf(stderr, "api_bench: not a release build; the numbers mean little\n");
#endif
  // See ServeBare: minimises the client's part of a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  alarm(kLongestRunSeconds);
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return Fail(absl::InternalError(error.message()));
  Report report(flags.json ? Report::Format::kJson : Report::Format::kTable);
  const absl::Status status = Measure(flags, self, report);
  if (!status.ok()) return Fail(status);
  if (report.ok() || flags.quick) return 0;
  std::fprintf(stderr, "api_bench: %d targets missed\n", report.missed());
  return kExitFailed;
}

}  // namespace
}  // namespace pto::bench

int main(int argc, char** argv) { return pto::bench::Main(argc, argv); }
