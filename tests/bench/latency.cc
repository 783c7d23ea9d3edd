#include "tests/bench/latency.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "grpcpp/client_context.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

using Call = std::function<absl::Status()>;

// One kind of request and its answer.
struct Way {
  Call call;
  LatencyRounds rounds = {};
};

absl::StatusOr<std::vector<double>> Time(const Call& call, int calls) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(calls));
  for (int i = 0; i < calls; ++i) {
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(call());
    seconds.push_back(Seconds() - start);
  }
  return seconds;
}

// Opens a LaunchStream and a bare stream, and closes them properly.
template <typename Stream>
absl::Status Close(Stream& stream) {
  stream.WritesDone();
  return CallError("closing a stream", stream.Finish());
}

}  // namespace

absl::Status MeasureLatency(Servers& servers, const Effort& effort, absl::string_view suffix,
                            bool judged, Report& report, double most) {
  const v1::LaunchGraphRequest launch = UnaryLaunch(servers.one_task_graph());
  const v1::LaunchStreamRequest stream_launch = StreamLaunch(servers.one_task_graph());
  v1::Run run;
  v1::LaunchCompletion completion;
  Pong pong;

  Way unary{.call = [&]() -> absl::Status {
    grpc::ClientContext context;
    PTO_RETURN_IF_ERROR(
        CallError("LaunchGraph", servers.run().LaunchGraph(&context, launch, &run)));
    return CheckSucceeded(run);
  }};
  grpc::ClientContext launch_context;
  const auto launches = servers.run().LaunchStream(&launch_context);
  Way stream{.call = [&]() -> absl::Status {
    if (!launches->Write(stream_launch) || !launches->Read(&completion)) {
      return absl::UnavailableError("the LaunchStream broke");
    }
    return CheckSucceeded(completion);
  }};
  // The sizes of these answers determine those of the bare ones.
  PTO_RETURN_IF_ERROR(unary.call());
  PTO_RETURN_IF_ERROR(stream.call());
  const Ping unary_ping = PingLike(launch, run);
  const Ping stream_ping = PingLike(stream_launch, completion);

  Way bare_unary{.call = [&]() -> absl::Status {
    grpc::ClientContext context;
    return CallError("Echo", servers.bare().Echo(&context, unary_ping, &pong));
  }};
  grpc::ClientContext bare_context;
  const auto pings = servers.bare().PingPong(&bare_context);
  Way bare_stream{.call = [&]() -> absl::Status {
    if (pings->Write(stream_ping) && pings->Read(&pong)) return absl::OkStatus();
    return absl::UnavailableError("the bare stream broke");
  }};

  Way client_unary{.call = [&]() -> absl::Status {
    PTO_ASSIGN_OR_RETURN(const Run handle, servers.session().Launch(launch));
    return CheckSucceeded(handle.snapshot());
  }};
  PTO_ASSIGN_OR_RETURN(LaunchStream client_launches, servers.session().OpenLaunchStream());
  Way client_stream{.call = [&]() -> absl::Status {
    PTO_ASSIGN_OR_RETURN(const v1::LaunchCompletion end,
                         client_launches.LaunchAndWait(stream_launch.launch()));
    return CheckSucceeded(end);
  }};

  const std::vector<Way*> ways = {&unary,       &bare_unary,   &stream,
                                  &bare_stream, &client_unary, &client_stream};
  for (Way* way : ways) PTO_RETURN_IF_ERROR(Time(way->call, effort.calls).status());
  for (int round = 0; round < effort.rounds; ++round) {
    for (Way* way : ways) {
      PTO_ASSIGN_OR_RETURN(const std::vector<double> seconds, Time(way->call, effort.calls));
      way->rounds.Add(seconds);
    }
  }
  PTO_RETURN_IF_ERROR(Close(*launches));
  PTO_RETURN_IF_ERROR(Close(*pings));
  PTO_RETURN_IF_ERROR(client_launches.Done());

  const auto add = [&](const char* name, double value, const char* against, double against_value,
                       absl::optional<Target> target = absl::nullopt) {
    report.Add({.name = absl::StrCat(name, suffix),
                .value = value,
                .unit = "us",
                .against = absl::StrCat(against, suffix),
                .against_value = against_value,
                .target = judged ? target : absl::nullopt});
  };
  const double echo = bare_unary.rounds.p50_us();
  add("unary_p50", unary.rounds.p50_us(), "bare_unary_p50", echo, Target::AtMost(most));
  add("unary_p99", unary.rounds.p99_us(), "bare_unary_p99", bare_unary.rounds.p99_us());
  add("launch_stream_p50", stream.rounds.p50_us(), "bare_ping_pong_p50",
      bare_stream.rounds.p50_us(), Target::AtMost(1.3));
  add("launch_stream_p50_below_unary", stream.rounds.p50_us(), "bare_unary_p50", echo,
      suffix.empty() ? absl::optional<Target>(Target::AtMost(1)) : absl::nullopt);
  add("launch_stream_p99", stream.rounds.p99_us(), "bare_ping_pong_p99",
      bare_stream.rounds.p99_us());
  add("client_unary_p50", client_unary.rounds.p50_us(), "bare_unary_p50", echo);
  add("client_unary_p99", client_unary.rounds.p99_us(), "bare_unary_p99",
      bare_unary.rounds.p99_us());
  add("client_launch_stream_p50", client_stream.rounds.p50_us(), "bare_ping_pong_p50",
      bare_stream.rounds.p50_us());
  add("client_launch_stream_p99", client_stream.rounds.p99_us(), "bare_ping_pong_p99",
      bare_stream.rounds.p99_us());
  return absl::OkStatus();
}

}  // namespace pto::bench
