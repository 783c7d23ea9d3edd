#pragma once

#include "absl/strings/string_view.h"
#include "client/job/json_tree.h"
#include "client/job/source_map.h"
#include "google/protobuf/descriptor.h"

namespace pto::job {

// Checks that `root` is JSON for a message of `type`: known names, values of the right kind,
// known enumerators. Notes in `map` where each part stands. On a fault returns false and says
// what was expected where; `text` is what `root` was read from.
bool CheckJson(absl::string_view text, const JsonNode& root,
               const google::protobuf::Descriptor& type, SourceMap* map, JsonFault* fault);

// Line and column of an offset, from 1.
void Locate(absl::string_view text, size_t offset, int* line, int* column);

}  // namespace pto::job
