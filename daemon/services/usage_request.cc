#include "daemon/services/usage_request.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr PageScope kScope = {"ListUsage", ""};

absl::StatusOr<absl::Time> ParseTime(const google::protobuf::Timestamp& time,
                                     absl::string_view field) {
  // The range of a Timestamp: the years 1 to 9999.
  constexpr int64_t kFirst = -62'135'596'800;
  constexpr int64_t kLast = 253'402'300'799;
  if (time.seconds() < kFirst || time.seconds() > kLast || time.nanos() < 0 ||
      time.nanos() > 999'999'999) {
    return Error(reason::kFieldInvalid, absl::StrCat(field, " is no time")).At(field);
  }
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

}  // namespace

absl::StatusOr<UsageRequest> UsageRequest::Parse(const auth::Principal& caller,
                                                 const v1::ListUsageRequest& request,
                                                 absl::Time now) {
  UsageRequest parsed;
  UsageStore::Query& query = parsed.query_;
  PTO_ASSIGN_OR_RETURN(query.limit, PageSize(request.page_size()));
  PTO_ASSIGN_OR_RETURN(query.after, ParsePageToken(kScope, request.page_token()));
  if (request.has_start_time()) {
    PTO_ASSIGN_OR_RETURN(query.begin, ParseTime(request.start_time(), "start_time"));
  }
  query.end = now;
  if (request.has_end_time()) {
    PTO_ASSIGN_OR_RETURN(query.end, ParseTime(request.end_time(), "end_time"));
  }
  if (request.has_end_time() && query.end < query.begin) {
    return Error(reason::kFieldInvalid, "the period ends before it begins").At("end_time");
  }
  query.principal = request.principal();
  if (!caller.sees_all()) {
    const bool own = query.principal.empty() || query.principal == caller.name;
    query.principal = caller.name;
    if (!own) query.limit = 0;
  }
  if (query.limit > 0) ++query.limit;
  return parsed;
}

void UsageRequest::Answer(std::vector<PrincipalUsage> found,
                          v1::ListUsageResponse* response) const {
  if (!found.empty() && found.size() == query_.limit) {
    found.pop_back();
    response->set_next_page_token(MakePageToken(kScope, found.back().principal));
  }
  for (PrincipalUsage& each : found) {
    v1::Usage* const usage = response->add_usage();
    usage->set_principal(std::move(each.principal));
    usage->set_core_seconds(each.core_seconds);
    usage->set_memory_byte_seconds(each.memory_byte_seconds);
    usage->set_runs(each.runs);
  }
}

}  // namespace pto::daemon
