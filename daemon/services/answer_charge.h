#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/auth/principal.h"
#include "daemon/quota/memory_budget.h"
#include "runtime/base/memory_account.h"

namespace pto::daemon {

// Charges a large answer to the caller until it has been sent: a client that asks for long lists
// and does not read them must not fill the machine's memory. `call` is a rpc::UnaryCall whose
// response is complete. Errors: MEMORY_BUDGET, unless it `must` be answered.
template <typename Call>
absl::Status ChargeAnswer(MemoryBudget& budget, const auth::Principal& caller, Call& call,
                          bool must) {
  // Smaller ones are bounded by the number of calls.
  constexpr uint64_t kSmall = uint64_t{32} << 10;
  // The message, and what gRPC makes of it.
  constexpr uint64_t kCopies = 3;
  const uint64_t size = call.response()->ByteSizeLong();
  if (size <= kSmall) return absl::OkStatus();
  const std::shared_ptr<MemoryAccount> account = budget.OfClient(caller.name);
  if (must) {
    auto charge = std::make_shared<HostCharge>(account);
    charge->ForceResize(kCopies * size);
    call.Hold(std::move(charge));
    return absl::OkStatus();
  }
  const auto take = [&] { return HostCharge::Take(account, kCopies * size, "an answer"); };
  absl::StatusOr<HostCharge> charge = take();
  uint64_t missing = 0;
  if (WantsMemory(charge, &missing) && budget.MakeRoom(*account, missing)) charge = take();
  if (!charge.ok()) return charge.status();
  call.Hold(std::make_shared<HostCharge>(*std::move(charge)));
  return absl::OkStatus();
}

}  // namespace pto::daemon
