#include "client/job/schema_names.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/job/nearest.h"

namespace pto::job {

std::string ExpectedField(const google::protobuf::Descriptor& type, absl::string_view name) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  const std::string nearest = Nearest(name, names);
  if (!nearest.empty()) return absl::StrCat("\"", nearest, "\"?");
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

std::string ExpectedEnumerator(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

}  // namespace pto::job
