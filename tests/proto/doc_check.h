#pragma once

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace pto::testing {

// Reports what the comments of a .proto file lack, one line for each gap, as `file:line: what`.
//
// - Every service, method, message, field, oneof, enum and enum value has its own comment
//   directly above it, of a few words.
// - A method's comment states its purpose, then has the paragraphs `Errors:`, `Idempotency:`,
//   `Failure:`, `Deadline:` and `Since:`, once each and in this order.
// - In `Errors:` every NAME_LIKE_THIS is a gRPC code, a reason of the registry under the code
//   that the registry gives it, or an enum value of the same file.
//
// The file must have been imported with its source positions, as compiler::Importer does.
std::vector<std::string> CheckDocumentation(const google::protobuf::FileDescriptor& file);

}  // namespace pto::testing
