#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/interrupt.h"
#include "client/ptoctl/top_view.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

struct TopOptions {
  bool once = false;
  absl::Duration interval = absl::Seconds(1);
  uint64_t rows = 10;
};

// How often to sample the load of the chips.
constexpr absl::Duration kLook = absl::Milliseconds(50);

constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

class Sampler {
 public:
  explicit Sampler(Client& client) : client_(client) {}

  // Samples the chips until `interval` has passed or the user interrupts.
  absl::StatusOr<TopSample> Take(absl::Duration interval, const Interrupt& interrupt) {
    TopSample sample;
    PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> before, client_.ListChips());
    const absl::Time start = absl::Now();
    while (absl::Now() - start < interval && !interrupt.seen()) {
      PTO_ASSIGN_OR_RETURN(sample.chips, client_.ListChips());
      meter_.Add(sample.chips);
      absl::SleepFor(std::min(kLook, interval));
    }
    PTO_ASSIGN_OR_RETURN(sample.chips, client_.ListChips());
    meter_.Add(sample.chips);
    sample.time = absl::Now();
    sample.busy = meter_.Take();
    const double seconds = absl::ToDoubleSeconds(sample.time - start);
    for (size_t i = 0; i < std::min(before.size(), sample.chips.size()); ++i) {
      const uint64_t tasks = sample.chips[i].completed_tasks() - before[i].completed_tasks();
      sample.tasks_per_second.push_back(static_cast<double>(tasks) / std::max(seconds, 1e-6));
    }
    PTO_ASSIGN_OR_RETURN(sample.node, client_.GetNode());
    PTO_ASSIGN_OR_RETURN(sample.sessions, client_.ListSessions());
    PTO_ASSIGN_OR_RETURN(sample.runs, client_.ListRuns("sessions/-", /*active_only=*/true));
    return sample;
  }

 private:
  Client& client_;
  BusyMeter meter_;
};

absl::Status Top(const Context& context, const TopOptions& options) {
  PTO_ASSIGN_OR_RETURN(Client client, context.Connect());
  const Interrupt interrupt;
  const bool once = options.once || isatty(STDOUT_FILENO) == 0;
  Sampler sampler(client);
  do {
    PTO_ASSIGN_OR_RETURN(const TopSample sample, sampler.Take(options.interval, interrupt));
    if (!once) context.out << kClearScreen;
    context.out << FormatTop(sample, options.rows) << std::flush;
  } while (!once && !interrupt.seen());
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(Command& root, Context& context) {
  Command& top = root.AddCommand("top", "Monitor chips, sessions and runs (Ctrl-C to quit)");
  auto options = std::make_shared<TopOptions>();
  top.AddFlag("--once", &options->once,
              "Print one snapshot and exit (default if the output is not a terminal)");
  top.AddOption("--interval", &options->interval, "Time between updates (default 1s)");
  top.AddOption("--rows", &options->rows,
                "Maximum number of sessions and of runs to show (default 10)")
      .Range(1, 1000);
  top.Footer("Examples:\n  ptoctl top\n  ptoctl top --once --interval 5s");
  top.Action([&context, options] { return Top(context, *options); });
}

}  // namespace pto::ptoctl
