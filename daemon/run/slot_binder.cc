#include "daemon/run/slot_binder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/domain/domain_table.h"
#include "daemon/domain/domain_uses.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/domain_scalars.h"

namespace pto::daemon {
namespace {

// No binding.
constexpr size_t kOwn = static_cast<size_t>(-1);

// The binding of each slot, or kOwn.
absl::StatusOr<std::vector<size_t>> BindingOfSlots(const engine::GraphImage& image,
                                                   absl::Span<const SlotBinding> bindings) {
  std::vector<size_t> binding_of(image.slots().size(), kOwn);
  for (size_t i = 0; i < bindings.size(); ++i) {
    const std::string& name = bindings[i].slot;
    const absl::optional<uint32_t> slot = image.FindSlot(name);
    if (!slot.has_value()) {
      return Error(reason::kSlotUnknown,
                   absl::StrCat("the graph has no slot ", names::Quoted(name)))
          .At(absl::StrCat("buffers[", i, "].slot"))
          .With("slot", name.substr(0, 64));
    }
    if (binding_of[*slot] != kOwn) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("slot ", names::Quoted(name), " is bound by ", "buffers[",
                                binding_of[*slot], "] already"))
          .At(absl::StrCat("buffers[", i, "].slot"))
          .With("slot", name);
    }
    binding_of[*slot] = i;
  }
  return binding_of;
}

void AddAccesses(const engine::SlotUse& use, uint64_t offset,
                 const std::shared_ptr<BufferQueue>& queue, RunAccesses* accesses) {
  if (!use.written.empty()) accesses->push_back({queue, use.written.From(offset), true});
  // A write waits for all that a read waits for.
  if (!use.written.Covers(use.read)) accesses->push_back({queue, use.read.From(offset), false});
}

// A run looks at every range of a buffer that others use: many ranges become one.
constexpr size_t kMaxRanges = 8;

void MergeAccesses(RunAccesses* accesses) {
  if (accesses->size() <= kMaxRanges) return;
  const auto key = [](const BufferAccess& access) {
    return std::make_pair(access.queue.get(), access.writes);
  };
  std::sort(accesses->begin(), accesses->end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  RunAccesses merged;
  for (auto first = accesses->begin(); first != accesses->end();) {
    const auto last = std::find_if(first, accesses->end(), [&](const BufferAccess& other) {
      return key(other) != key(*first);
    });
    if (static_cast<size_t>(last - first) <= kMaxRanges) {
      merged.insert(merged.end(), first, last);
    } else {
      BufferAccess hull = *first;
      for (auto other = first; other != last; ++other) hull.bytes.Extend(other->bytes);
      merged.push_back(std::move(hull));
    }
    first = last;
  }
  *accesses = std::move(merged);
}

engine::SlotPlaces FindAliases(const engine::GraphImage& image, const engine::RunSlots& slots) {
  std::vector<engine::SlotMemory> memories;
  memories.reserve(slots.size());
  for (const engine::RunSlot& slot : slots)
    memories.push_back({slot.memory.get(), slot.offset_bytes});
  return engine::FindAliases(image, memories);
}

// The domain's part of that name, which the run is noted to use.
absl::StatusOr<std::shared_ptr<SessionBuffer>> FindInDomain(absl::string_view name,
                                                            const DomainTable& domains,
                                                            DomainUses* uses) {
  PTO_ASSIGN_OR_RETURN(const names::Window window, names::ParseWindow(name, ""));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain, domains.Find(window.domain));
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<SessionBuffer> buffer, domain->Find(window));
  uses->Add(domain, buffer, domain->BeginsZero(window));
  return buffer;
}

// Binds the scalars that are domains. SCALAR_INVALID if a task is on a chip that has no rank.
absl::Status BindDomains(const engine::GraphImage& image,
                         absl::Span<const engine::DomainUser> users, const DomainTable* domains,
                         std::shared_ptr<DomainUses>* uses, BoundSlots* bound) {
  const absl::Span<const engine::ImageScalar> names = image.scalar_names();
  for (uint32_t scalar = 0; scalar < names.size() && !users.empty(); ++scalar) {
    if (!engine::IsDomain(names[scalar])) continue;
    absl::string_view id = image.text(names[scalar].name);
    absl::ConsumePrefix(&id, "domains/");
    if (domains == nullptr) return Error(reason::kDomainUnknown, absl::StrCat("no domain ", id));
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain, domains->Find(id));
    std::vector<bool> used(domain->spec().chips.size());
    bool any = false;
    for (const engine::DomainUser& user : users) {
      if (user.scalar != scalar) continue;
      any = true;
      const int rank = domain->RankOf(user.chip);
      if (rank < 0) {
        return Error(reason::kScalarInvalid,
                     absl::StrCat("task ", user.task, " is on ", names::Chip(user.chip),
                                  ", which is no rank of domains/", id))
            .With("task", user.task)
            .With("domain", id)
            .With("chip", names::Chip(user.chip))
            .Hint("`ptoctl domains show` lists its chips");
      }
      used[static_cast<size_t>(rank)] = true;
    }
    if (!any) continue;
    if (*uses == nullptr) *uses = std::make_shared<DomainUses>();
    (*uses)->AddWhole(domain);
    bound->domain_scalars.emplace_back(scalar, domain->number());
    // Behind the image's slots: what the run's kernels may wait for is memory that it holds.
    for (std::shared_ptr<SessionBuffer>& part : domain->parts()) {
      PTO_ASSIGN_OR_RETURN(std::shared_ptr<engine::HostAllocation> memory,
                           engine::Allocation::ToHost(part->memory));
      bound->slots.push_back({std::move(memory), 0, part->id});
      bound->buffers.push_back(std::move(part));
    }
    for (const std::shared_ptr<engine::Allocation>& window : domain->windows()) {
      PTO_ASSIGN_OR_RETURN(std::shared_ptr<engine::HostAllocation> memory,
                           engine::Allocation::ToHost(window));
      bound->slots.push_back({std::move(memory), 0, "a window"});
    }
    bound->domain_ranks.push_back(
        {absl::StrCat("domains/", id), domain->spec().chips, std::move(used)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<BoundSlots>> BindSlots(const engine::GraphImage& image,
                                                      absl::Span<const SlotBinding> bindings,
                                                      const BufferMap& buffers,
                                                      absl::string_view session_name,
                                                      const DomainTable* domains,
                                                      absl::Span<const engine::DomainUser> users) {
  PTO_ASSIGN_OR_RETURN(const std::vector<size_t> binding_of, BindingOfSlots(image, bindings));
  auto result = std::make_shared<BoundSlots>();
  auto accesses = std::make_shared<RunAccesses>();
  std::shared_ptr<DomainUses> uses;
  result->slots.resize(binding_of.size());
  for (size_t i = 0; i < binding_of.size(); ++i) {
    const engine::ImageSlot& slot = image.slots()[i];
    if (slot.chip == engine::ImageSlot::kUnused) continue;
    const bool own = binding_of[i] == kOwn;
    const absl::string_view slot_name = image.text(slot.name);
    const absl::string_view id =
        own ? slot_name : absl::string_view(bindings[binding_of[i]].buffer);
    const uint64_t offset = own ? 0 : bindings[binding_of[i]].offset_bytes;
    // A slot that is not bound has no field to be wrong.
    const auto at = [&](absl::string_view field) {
      return own ? std::string() : absl::StrCat("buffers[", binding_of[i], "].", field);
    };
    std::shared_ptr<SessionBuffer> buffer;
    if (domains != nullptr && names::IsWindow(id)) {
      if (uses == nullptr) uses = std::make_shared<DomainUses>();
      absl::StatusOr<std::shared_ptr<SessionBuffer>> found = FindInDomain(id, *domains, uses.get());
      if (!found.ok()) return PrefixField(found.status(), at("buffer"));
      buffer = *std::move(found);
    } else if (const auto it = buffers.find(std::string(id)); it != buffers.end()) {
      buffer = it->second;
    } else {
      return Error(reason::kBufferUnknown,
                   absl::StrCat("there is no buffer '", id, "' in ", session_name, " for slot '",
                                slot_name, "'"))
          .At(at("buffer"))
          .With("buffer", id)
          .With("slot", slot_name)
          .With("session", session_name);
    }
    const std::shared_ptr<engine::Allocation>& memory = buffer->memory;
    if (slot.chip != engine::ImageSlot::kAnyChip && memory->chip() != slot.chip) {
      return Error(reason::kBufferOnOtherChip,
                   absl::StrCat("buffer '", id, "' is on ", names::Chip(memory->chip()),
                                ", but its tasks are on ", names::Chip(slot.chip)))
          .At(at("buffer"))
          .With("buffer", id)
          .With("have", names::Chip(memory->chip()))
          .With("want", names::Chip(slot.chip));
    }
    if (offset > memory->bytes() || memory->bytes() - offset < slot.min_bytes) {
      return Error(reason::kTensorOutOfBounds,
                   absl::StrCat("tensor ", slot.largest_tensor, " of slot '", slot_name, "' needs ",
                                slot.min_bytes, " bytes from byte ", offset, " of buffer '", id,
                                "', which has ", memory->bytes()))
          .At(at(offset == 0 ? "buffer" : "offset_bytes"))
          .With("buffer", id)
          .With("slot", slot_name)
          .With("tensor", slot.largest_tensor)
          .With("have", memory->bytes())
          .With("want", slot.min_bytes + offset);
    }
    // Kernels run on the host and dereference their arguments.
    absl::StatusOr<std::shared_ptr<engine::HostAllocation>> host =
        engine::Allocation::ToHost(memory);
    if (!host.ok()) return PrefixField(host.status(), at("buffer"));
    // The name is the buffer's, which the result keeps.
    result->slots[i] = {*std::move(host), offset, buffer->id};
    AddAccesses(image.slot_uses()[i], offset, buffer->queue, accesses.get());
    result->buffers.push_back(std::move(buffer));
  }
  result->aliases = FindAliases(image, result->slots);
  PTO_RETURN_IF_ERROR(BindDomains(image, users, domains, &uses, result.get()));
  if (uses != nullptr) {
    uses->AddAccesses(accesses.get());
    result->domains = std::move(uses);
  }
  MergeAccesses(accesses.get());
  result->accesses = std::move(accesses);
  return result;
}

}  // namespace pto::daemon
