#include "tests/soak/visit.h"

#include "runtime/base/status_macros.h"

namespace pto::soak {

absl::StatusOr<Client> Visit::Connect(bool broker) {
  ClientOptions options;
  options.timeout = kCallTimeout;
  if (!broker) options.broker = ClientOptions::Broker::kOff;
  return Insist([&] { return Client::Connect(place_.address, options); });
}

absl::StatusOr<Session> Visit::CreateSession(Client& client) {
  return Insist([&] { return client.CreateSession({.ttl = place_.ttl}); });
}

absl::Status Visit::Finish(const Run& run) {
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, Insist([&] { return run.Wait(); }));
  ++tally().runs;
  if (ended.state() == v1::Run::CANCELLED) ++tally().cancelled;
  if (ended.state() == v1::Run::SUCCEEDED) Remember(run.name());
  return StatusOf(ended);
}

}  // namespace pto::soak
