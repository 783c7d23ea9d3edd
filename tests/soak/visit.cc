#include "tests/soak/visit.h"

#include <utility>

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

absl::StatusOr<Adding> Visit::BeginAdding(int64_t count) {
  PTO_ASSIGN_OR_RETURN(Client client, Connect());
  PTO_ASSIGN_OR_RETURN(Session session, CreateSession(client));
  const uint32_t chip = AnyChip();
  const auto create = [&] { return session.CreateTensor<float>(chip, {count}); };
  PTO_ASSIGN_OR_RETURN(Tensor<float> one, Insist(create));
  PTO_ASSIGN_OR_RETURN(Tensor<float> sum, Insist(create));
  const std::vector<float> ones(static_cast<size_t>(count), 1);
  PTO_RETURN_IF_ERROR(Insist([&] { return one.Write(ones); }));
  return Adding{std::move(client), std::move(session), std::move(one), std::move(sum)};
}

absl::Status Visit::Finish(const Run& run) {
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, Insist([&] { return run.Wait(); }));
  ++tally().runs;
  if (ended.state() == v1::Run::CANCELLED) ++tally().cancelled;
  if (ended.state() == v1::Run::SUCCEEDED) Remember(run.name());
  return StatusOf(ended);
}

}  // namespace pto::soak
