#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/ptoctl/contexts.pb.h"

namespace pto::ptoctl {

// Where the contexts of this user are: PTOD_CONTEXTS; if that is not set, ptod/contexts.txtpb in
// XDG_CONFIG_HOME, or in .config of the home directory.
std::string ContextFilePath();

// Reads the contexts. A file that does not exist has none. Errors: USAGE, with file and line.
absl::StatusOr<contexts::v1::Contexts> LoadContexts(const std::string& path);

// Replaces the file, and creates its directory. Other users cannot read it. Errors: USAGE.
absl::Status SaveContexts(const contexts::v1::Contexts& contexts, const std::string& path);

// nullptr if there is none of this name.
contexts::v1::NamedContext* FindContext(contexts::v1::Contexts& contexts, absl::string_view name);

// The error for a context that does not exist.
absl::Status NoContext(const contexts::v1::Contexts& contexts, absl::string_view name);

}  // namespace pto::ptoctl
