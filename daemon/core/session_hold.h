#pragma once

#include "daemon/core/hold.h"
#include "daemon/core/session.h"

namespace pto {

using SessionHold = Hold<Session>;

}  // namespace pto
