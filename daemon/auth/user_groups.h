#pragma once

#include <cstdint>
#include <vector>

namespace pto::daemon::auth {

// The groups of a user as the machine's user database has them, `primary` among them. May wait for
// a directory service. Only `primary` of a user that the database does not have.
std::vector<uint32_t> GroupsOf(uint32_t uid, uint32_t primary);

}  // namespace pto::daemon::auth
