#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/domain/session_buffer.h"
#include "runtime/graph/domain_scalars.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

class DomainTable;

// Puts a buffer of the session into a slot of a graph.
struct SlotBinding {
  std::string slot;
  std::string buffer;
  uint64_t offset_bytes = 0;
};

// A session's buffers by their ids.
using BufferMap = std::map<std::string, std::shared_ptr<SessionBuffer>, std::less<>>;

// Finds the buffer of each slot: the one that is bound to it, else the one that has its name.
// Names of windows are looked up in `domains`; nullptr: there are none. `users` is what
// engine::FindDomainUsers says of the image, which looks at all tasks. Everything that does not fit
// is refused, with the binding at fault as `buffers[i]`.
absl::StatusOr<std::shared_ptr<BoundSlots>> BindSlots(
    const engine::GraphImage& image, absl::Span<const SlotBinding> bindings,
    const BufferMap& buffers, absl::string_view session_name, const DomainTable* domains = nullptr,
    absl::Span<const engine::DomainUser> users = {});

}  // namespace pto::daemon
