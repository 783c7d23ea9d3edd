#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/auth/principal.h"
#include "daemon/usage/usage_store.h"
#include "pto/v1/node.pb.h"

namespace pto::daemon {

// A valid ListUsageRequest of somebody: which usage to look for, and how to answer.
class UsageRequest {
 public:
  // Whoever does not see everybody sees themselves only: others are as if they had used nothing.
  // Errors: FIELD_INVALID, PAGE_TOKEN_INVALID.
  static absl::StatusOr<UsageRequest> Parse(const auth::Principal& caller,
                                            const v1::ListUsageRequest& request, absl::Time now);

  const UsageStore::Query& query() const { return query_; }
  // One page of what was found.
  void Answer(std::vector<PrincipalUsage> found, v1::ListUsageResponse* response) const;

 private:
  UsageStore::Query query_;  // for one more than the page, to know whether there is another
};

}  // namespace pto::daemon
