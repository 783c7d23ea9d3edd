#pragma once

#include "daemon/config/effective.h"
#include "pto/v1/node.pb.h"

namespace pto {

// The settings as the API tells them.
v1::Config ToProto(const EffectiveConfig& effective);

}  // namespace pto
