#include "client/domain.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/internal/core.h"
#include "client/tensor_bytes.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

using internal::Retry;

Domain::Domain(std::shared_ptr<internal::Core> core,
               std::shared_ptr<internal::SessionState> session, v1::Domain info)
    : core_(std::move(core)), session_(std::move(session)), info_(std::move(info)) {}

absl::string_view Domain::id() const {
  return absl::string_view(name()).substr(name().rfind('/') + 1);
}

absl::Status Domain::CheckRank(uint32_t rank) const {
  if (rank < ranks()) return absl::OkStatus();
  return Error(reason::kBufferUnknown,
               absl::StrCat(name(), " has no rank ", rank, "; it has ", ranks()))
      .With("domain", name())
      .With("rank", rank)
      .With("ranks", ranks());
}

Buffer Domain::Part(uint32_t rank, absl::string_view part, uint64_t bytes) const {
  absl::string_view digits = info_.chips(static_cast<int>(rank));
  uint32_t chip = 0;
  if (!absl::ConsumePrefix(&digits, "chips/") || !absl::SimpleAtoi(digits, &chip)) chip = 0;
  return Buffer(core_, session_, absl::StrCat(name(), "/ranks/", rank, "/", part), chip, bytes);
}

absl::StatusOr<Buffer> Domain::Window(uint32_t rank, absl::string_view buffer) const {
  PTO_RETURN_IF_ERROR(CheckRank(rank));
  for (const v1::WindowBuffer& known : info_.buffers()) {
    if (known.name() != buffer) continue;
    return Part(rank, absl::StrCat("buffers/", buffer),
                known.count() * ElementBytes(known.dtype()));
  }
  return Error(reason::kBufferUnknown, absl::StrCat(name(), " has no buffer '", buffer, "'"))
      .With("domain", name())
      .With("buffer", buffer);
}

absl::StatusOr<Buffer> Domain::Signals(uint32_t rank) const {
  PTO_RETURN_IF_ERROR(CheckRank(rank));
  if (info_.signal_count() == 0) {
    return Error(reason::kBufferUnknown, absl::StrCat(name(), " has no signals"))
        .With("domain", name());
  }
  return Part(rank, "signals", uint64_t{info_.signal_count()} * sizeof(int64_t));
}

absl::StatusOr<v1::Domain> Domain::Get(absl::Duration timeout) const {
  v1::GetDomainRequest request;
  request.set_name(name());
  return core_->CallOn(*session_, "GetDomain", core_->transport().domain,
                       &v1::DomainService::Stub::PrepareAsyncGetDomain, request,
                       core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<uint64_t> Domain::Notify(uint32_t rank, uint32_t signal, uint64_t value,
                                        v1::NotifyRequest::Operation operation,
                                        absl::Duration timeout) const {
  v1::NotifyRequest request;
  request.set_name(name());
  request.set_rank(rank);
  request.set_signal(signal);
  request.set_operation(operation);
  request.set_value(value);
  const Retry retry = operation == v1::NotifyRequest::SET ? Retry::kOnce : Retry::kNever;
  PTO_ASSIGN_OR_RETURN(const v1::NotifyResponse response,
                       core_->CallOn(*session_, "Notify", core_->transport().domain,
                                     &v1::DomainService::Stub::PrepareAsyncNotify, request,
                                     core_->DeadlineOf(timeout), retry));
  return response.value();
}

absl::StatusOr<std::vector<uint64_t>> Domain::ReadSignals(uint32_t rank, uint32_t first,
                                                          uint32_t count,
                                                          absl::Duration timeout) const {
  v1::ReadSignalsRequest request;
  request.set_name(name());
  request.set_rank(rank);
  request.set_first(first);
  request.set_count(count);
  PTO_ASSIGN_OR_RETURN(const v1::ReadSignalsResponse response,
                       core_->CallOn(*session_, "ReadSignals", core_->transport().domain,
                                     &v1::DomainService::Stub::PrepareAsyncReadSignals, request,
                                     core_->DeadlineOf(timeout), Retry::kOnce));
  return std::vector<uint64_t>(response.values().begin(), response.values().end());
}

absl::StatusOr<v1::Domain> Domain::Revoke(absl::string_view reason, absl::Duration timeout) const {
  v1::RevokeDomainRequest request;
  request.set_name(name());
  request.set_reason(std::string(reason));
  return core_->CallOn(*session_, "RevokeDomain", core_->transport().domain,
                       &v1::DomainService::Stub::PrepareAsyncRevokeDomain, request,
                       core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::Status Domain::Delete(absl::Duration timeout) const {
  v1::DeleteDomainRequest request;
  request.set_name(name());
  return core_
      ->CallOn(*session_, "DeleteDomain", core_->transport().domain,
               &v1::DomainService::Stub::PrepareAsyncDeleteDomain, request,
               core_->DeadlineOf(timeout), Retry::kNever)
      .status();
}

}  // namespace pto
