#include "daemon/auth/user_groups.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

namespace pto::daemon::auth {
namespace {

constexpr size_t kEntryBytes = 1 << 16;
// Linux allows a process no more.
constexpr int kMostGroups = 65'536;

}  // namespace

std::vector<uint32_t> GroupsOf(uint32_t uid, uint32_t primary) {
  std::vector<char> buffer(kEntryBytes);
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return {primary};
  }
  int count = 64;
  std::vector<gid_t> groups(static_cast<size_t>(count));
  while (getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) {
    // `count` is how many there are, or unchanged.
    count = std::min(std::max(count, static_cast<int>(groups.size()) * 2), kMostGroups);
    if (static_cast<size_t>(count) <= groups.size()) break;
    groups.resize(static_cast<size_t>(count));
  }
  std::vector<uint32_t> result(groups.begin(),
                               groups.begin() + std::min<ptrdiff_t>(count, std::ssize(groups)));
  // A process can have left its user's own group.
  if (std::find(result.begin(), result.end(), primary) == result.end()) result.push_back(primary);
  return result;
}

}  // namespace pto::daemon::auth
