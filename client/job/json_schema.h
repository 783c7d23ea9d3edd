#pragma once

#include "absl/strings/string_view.h"
#include "client/job/json_tree.h"
#include "client/job/source_map.h"
#include "google/protobuf/descriptor.h"

namespace pto::job {

// Checks that `root` is valid JSON for a message of `type`: known names, values of the right kind,
// known enumerators. Records the position of each part in `map`. On an error, returns false and
// reports what was expected and where. `text` is the source of `root`.
bool CheckJson(absl::string_view text, const JsonNode& root,
               const google::protobuf::Descriptor& type, SourceMap* map, JsonFault* fault);

// Converts an offset to line and column, both from 1.
void Locate(absl::string_view text, size_t offset, int* line, int* column);

}  // namespace pto::job
