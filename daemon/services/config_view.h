#pragma once

#include "daemon/config/effective.h"
#include "pto/v1/node.pb.h"

namespace pto::daemon {

// The settings in the form of the API.
v1::Config ToProto(const EffectiveConfig& effective);

}  // namespace pto::daemon
