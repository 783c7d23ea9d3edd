#include "tests/bench/run_rate.h"

#include <memory>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/async_unary_call.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr int kInFlight = 64;

// One unary call in flight.
template <typename Response>
struct Slot {
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  Response response;
  grpc::Status status;
};

// Makes `total` unary calls, kInFlight at a time, from one thread; returns calls per second.
template <typename Response, typename Start>
absl::StatusOr<double> UnaryRate(int total, const Start& start) {
  grpc::CompletionQueue queue;
  std::vector<Slot<Response>> slots(kInFlight);
  int started = 0;
  const auto begin = [&](Slot<Response>& slot) {
    ++started;
    slot.context = std::make_unique<grpc::ClientContext>();
    slot.reader = start(slot.context.get(), &queue);
    slot.reader->Finish(&slot.response, &slot.status, &slot);
  };
  const double from = Seconds();
  for (Slot<Response>& slot : slots) begin(slot);
  absl::Status failed;
  for (int done = 0; done < started; ++done) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    auto& slot = *static_cast<Slot<Response>*>(tag);
    if (!slot.status.ok()) failed = CallError("a call in flight", slot.status);
    if (started < total && failed.ok()) begin(slot);
  }
  const double seconds = Seconds() - from;
  queue.Shutdown();
  PTO_RETURN_IF_ERROR(failed);
  return started / seconds;
}

// Sends `total` messages on a stream, kInFlight ahead of the answers; returns answers per second.
template <typename Stream, typename Request, typename Response>
absl::StatusOr<double> StreamRate(int total, Stream& stream, const Request& request,
                                  Response* response) {
  const double from = Seconds();
  int sent = 0;
  for (; sent < kInFlight; ++sent) stream.Write(request);
  for (int got = 0; got < sent; ++got) {
    if (!stream.Read(response)) return CallError("a stream broke", stream.Finish());
    if (sent < total && stream.Write(request)) ++sent;
  }
  return sent / (Seconds() - from);
}

}  // namespace

absl::Status MeasureRunRate(Servers& servers, const Effort& effort, Report& report) {
  const v1::LaunchGraphRequest launch = UnaryLaunch(servers.one_task_graph());
  const v1::LaunchStreamRequest stream_launch = StreamLaunch(servers.one_task_graph());
  grpc::ClientContext launch_context;
  const auto launches = servers.run().LaunchStream(&launch_context);
  grpc::ClientContext bare_context;
  const auto pings = servers.bare().PingPong(&bare_context);

  v1::Run run;
  v1::LaunchCompletion completion;
  Pong pong;
  {
    grpc::ClientContext context;
    PTO_RETURN_IF_ERROR(
        CallError("LaunchGraph", servers.run().LaunchGraph(&context, launch, &run)));
  }
  PTO_RETURN_IF_ERROR(StreamRate(kInFlight, *launches, stream_launch, &completion).status());
  PTO_RETURN_IF_ERROR(CheckSucceeded(completion));
  const Ping unary_ping = PingLike(launch, run);
  const Ping stream_ping = PingLike(stream_launch, completion);

  Rounds unary, bare_unary, stream, bare_stream;
  // The first round warms up.
  for (int round = -1; round < effort.long_rounds; ++round) {
    PTO_ASSIGN_OR_RETURN(const double runs,
                         UnaryRate<v1::Run>(effort.pipelined_runs, [&](auto* context, auto* queue) {
                           return servers.run().AsyncLaunchGraph(context, launch, queue);
                         }));
    PTO_ASSIGN_OR_RETURN(const double echoes,
                         UnaryRate<Pong>(effort.pipelined_runs, [&](auto* context, auto* queue) {
                           return servers.bare().AsyncEcho(context, unary_ping, queue);
                         }));
    PTO_ASSIGN_OR_RETURN(const double stream_runs,
                         StreamRate(effort.pipelined_runs, *launches, stream_launch, &completion));
    PTO_ASSIGN_OR_RETURN(const double stream_echoes,
                         StreamRate(effort.pipelined_runs, *pings, stream_ping, &pong));
    if (round < 0) continue;
    unary.Add(runs);
    bare_unary.Add(echoes);
    stream.Add(stream_runs);
    bare_stream.Add(stream_echoes);
  }
  launches->WritesDone();
  PTO_RETURN_IF_ERROR(CallError("LaunchStream", launches->Finish()));
  pings->WritesDone();
  PTO_RETURN_IF_ERROR(CallError("PingPong", pings->Finish()));

  report.Add({.name = "unary_rate_64",
              .value = unary.median(),
              .unit = "runs/s",
              .against = "bare_unary_rate_64",
              .against_value = bare_unary.median()});
  report.Add({.name = "launch_stream_rate_64",
              .value = stream.median(),
              .unit = "runs/s",
              .against = "bare_ping_pong_rate_64",
              .against_value = bare_stream.median()});
  return absl::OkStatus();
}

}  // namespace pto::bench
