#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace pto::job {

// Describes the valid field names for an error message: `"shape"?` if `name` is similar to a field
// of the type, otherwise all fields.
std::string ExpectedField(const google::protobuf::Descriptor& type, absl::string_view name);

// Returns `one of F32, F16, …`, without the first value, which means "unspecified".
std::string ExpectedEnumerator(const google::protobuf::EnumDescriptor& type);

}  // namespace pto::job
