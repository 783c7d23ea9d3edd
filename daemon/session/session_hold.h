#pragma once

#include "daemon/run/hold.h"
#include "daemon/session/session.h"

namespace pto::daemon {

using SessionHold = Hold<Session>;

}  // namespace pto::daemon
