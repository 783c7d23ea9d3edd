#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace pto::job {

// What may stand where `name` does, for a message: `"shape"?` when it is close to one of the
// type's fields, else all of them.
std::string ExpectedField(const google::protobuf::Descriptor& type, absl::string_view name);

// `one of F32, F16, …`; without the first value, which means "not said".
std::string ExpectedEnumerator(const google::protobuf::EnumDescriptor& type);

}  // namespace pto::job
