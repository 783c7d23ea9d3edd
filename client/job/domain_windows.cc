#include "client/job/domain_windows.h"

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/job/ids.h"
#include "client/job/values.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

// Builds one domain.
class Finder {
 public:
  Finder(const JobFile& file, absl::Span<const uint32_t> chips, size_t domain, DomainWindows* out)
      : file_(file),
        chips_(chips),
        domain_(domain),
        init_(file.job.domains(static_cast<int>(domain))),
        path_(absl::StrCat("domains[", domain, "]")),
        out_(*out) {}

  absl::Status Run() {
    if (!IsId(init_.name())) return Fault(".name", NoId(init_.name()));
    PTO_RETURN_IF_ERROR(Ranks());
    pto::v1::CreateDomainRequest& request = out_.domains.emplace_back();
    request.set_domain_id(init_.name());
    request.set_window_bytes(init_.window_bytes());
    request.set_signal_count(init_.signal_count());
    for (const uint32_t position : ranks_) {
      request.add_chips(absl::StrCat("chips/", chips_[position]));
    }
    if (init_.buffers().empty() && init_.signal_count() == 0) {
      return Fault("", "expected a buffer or a signal");
    }
    absl::flat_hash_set<std::string> names;
    for (int i = 0; i < init_.buffers_size(); ++i) {
      const std::string below = absl::StrCat(".buffers[", i, "]");
      const std::string& name = init_.buffers(i).name();
      if (!IsId(name)) return Fault(below + ".name", NoId(name));
      if (!names.insert(name).second) {
        return Fault(below + ".name", absl::StrCat("duplicate buffer '", name, "'"));
      }
      PTO_RETURN_IF_ERROR(Window(init_.buffers(i), below, request.add_buffers()));
    }
    if (init_.signal_count() > 0) Signals();
    return absl::OkStatus();
  }

 private:
  absl::Status Fault(const std::string& below, absl::string_view message) const {
    return file_.places.Fault(path_ + below, message);
  }

  absl::Status Ranks() {
    ranks_.assign(init_.chips().begin(), init_.chips().end());
    if (ranks_.empty()) {
      ranks_.resize(chips_.size());
      std::iota(ranks_.begin(), ranks_.end(), 0);
    }
    absl::flat_hash_set<uint32_t> seen;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const std::string below = absl::StrCat(".chips[", i, "]");
      if (ranks_[i] >= chips_.size()) {
        return Fault(below, absl::StrCat("the job has ", chips_.size(),
                                         " chips; expected a position from 0 to ",
                                         chips_.size() - 1, ", got ", ranks_[i]));
      }
      if (!seen.insert(ranks_[i]).second) {
        return Fault(below, absl::StrCat("position ", ranks_[i], " is already a rank"));
      }
    }
    return absl::OkStatus();
  }

  WindowPart& AddPart(uint32_t rank, const std::string& buffer, const std::string& below) {
    WindowPart& part = out_.parts.emplace_back();
    part.place = {domain_, rank, buffer};
    part.path = path_ + below;
    part.contents.set_name(absl::StrCat("domains/", init_.name(), "/ranks/", rank,
                                        buffer.empty() ? "/signals" : "/buffers/", buffer));
    part.contents.set_chip(ranks_[rank]);
    return part;
  }

  absl::Status Window(const v1::WindowInit& window, const std::string& below,
                      pto::v1::WindowBuffer* spec) {
    if (DTypeBytes(window.dtype()) == 0) {
      return Fault(below + ".dtype", "expected an element type such as F32 or I64");
    }
    const absl::StatusOr<int64_t> count =
        ElementCount(std::vector<int64_t>(window.shape().begin(), window.shape().end()));
    if (!count.ok()) return Fault(below + ".shape", count.status().message());
    const uint64_t each = DTypeBytes(window.dtype());
    const auto elements = static_cast<uint64_t>(*count);
    if (window.bytes() != 0 && (window.bytes() % each != 0 || window.bytes() / each != elements)) {
      return Fault(below + ".bytes",
                   absl::StrCat("expected the size of ", elements, " elements of ", each,
                                " bytes, got ", window.bytes()));
    }
    const auto inits = static_cast<size_t>(window.init_size());
    if (inits > 1 && inits != ranks_.size()) {
      return Fault(below + ".init", absl::StrCat("expected none, one, or one per rank (",
                                                 ranks_.size(), "), got ", inits));
    }
    if (window.zero_before_run() && inits > 0) {
      return Fault(below + ".init", "expected none: it is set to zero before each run");
    }
    spec->set_zero_before_run(window.zero_before_run());
    spec->set_name(window.name());
    spec->set_dtype(window.dtype());
    spec->set_count(elements);
    spec->set_bytes(window.bytes());
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      v1::BufferInit& contents = AddPart(rank, window.name(), below).contents;
      contents.set_dtype(window.dtype());
      *contents.mutable_shape() = window.shape();
      if (inits > 0)
        *contents.mutable_init() = window.init(inits == 1 ? 0 : static_cast<int>(rank));
    }
    return absl::OkStatus();
  }

  void Signals() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      v1::BufferInit& contents = AddPart(rank, "", ".signal_count").contents;
      contents.set_dtype(pto::v1::I64);
      contents.add_shape(init_.signal_count());
    }
  }

  const JobFile& file_;
  const absl::Span<const uint32_t> chips_;
  const size_t domain_;
  const v1::DomainInit& init_;
  const std::string path_;
  DomainWindows& out_;
  std::vector<uint32_t> ranks_;  // positions
};

}  // namespace

absl::StatusOr<DomainWindows> FindWindows(const JobFile& file, absl::Span<const uint32_t> chips) {
  DomainWindows windows;
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < file.job.domains_size(); ++i) {
    const std::string& name = file.job.domains(i).name();
    if (!names.insert(name).second) {
      return file.places.Fault(absl::StrCat("domains[", i, "].name"),
                               absl::StrCat("duplicate domain '", name, "'"));
    }
    PTO_RETURN_IF_ERROR(Finder(file, chips, static_cast<size_t>(i), &windows).Run());
  }
  return windows;
}

}  // namespace pto::job
