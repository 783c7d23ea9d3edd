#include "client/job/prepared_job.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/control_kernels.h"
#include "client/job/chip_list.h"
#include "client/job/domain_windows.h"
#include "client/job/ids.h"
#include "client/job/initial_values.h"
#include "client/job/nearest.h"
#include "client/job/npy.h"
#include "client/job/read_file.h"
#include "client/job/reference.h"
#include "client/job/replay.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

constexpr int kMaxDims = 5;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash == 0 ? 1 : slash);
}

// No kernel, and no signature, is larger.
constexpr uint64_t kMaxKernelBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxSignatureBytes = 64 << 10;

// Whether it is a file of at most this size that has to be read.
absl::Status CheckFile(const std::string& path, uint64_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return Error(reason::kFieldInvalid, absl::StrCat("there is no file ", path));
  }
  if (!std::filesystem::is_regular_file(status)) {
    return Error(reason::kFieldInvalid, absl::StrCat(path, " is no file"));
  }
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > max_bytes) {
    return Error(reason::kFieldInvalid, absl::StrCat(path, " has more than ", max_bytes, " bytes"));
  }
  return absl::OkStatus();
}

class Preparer {
 public:
  explicit Preparer(JobFile file) {
    out_.folder = FolderOf(file.places.file());
    out_.file = std::move(file);
  }

  absl::StatusOr<PreparedJob> Run(absl::Span<const uint32_t> chips) {
    PTO_RETURN_IF_ERROR(Chips(chips));
    PTO_RETURN_IF_ERROR(Kernels());
    PTO_RETURN_IF_ERROR(Buffers());
    PTO_RETURN_IF_ERROR(Domains());
    PTO_RETURN_IF_ERROR(Tensors());
    PTO_RETURN_IF_ERROR(Tasks());
    PTO_RETURN_IF_ERROR(Outputs());
    PTO_RETURN_IF_ERROR(References());
    PTO_RETURN_IF_ERROR(Checks());
    return std::move(out_);
  }

 private:
  const v1::Job& job() const { return out_.file.job; }

  absl::Status Fault(absl::string_view path, absl::string_view message) const {
    return out_.file.places.Fault(path, message);
  }

  // Converts an error whose field is relative to `path` into an error of the file.
  absl::Status Fault(const std::string& path, const absl::Status& status) const {
    const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
    const bool deeper = detail.has_value() && !detail->field.empty();
    return Fault(deeper ? absl::StrCat(path, ".", detail->field) : path, status.message());
  }

  absl::Status Chips(absl::Span<const uint32_t> chips) {
    for (int i = 0; i < job().chips_size(); ++i) {
      absl::StatusOr<std::vector<uint32_t>> list = ParseChipList(job().chips(i));
      if (!list.ok()) return Fault(absl::StrCat("chips[", i, "]"), list.status().message());
      out_.chips.insert(out_.chips.end(), list->begin(), list->end());
    }
    if (out_.chips.empty()) out_.chips = {0};
    if (chips.empty()) return absl::OkStatus();
    if (chips.size() < out_.chips.size()) {
      return Fault("chips", absl::StrCat("the job uses ", out_.chips.size(), " chips, but ",
                                         FormatChipList(chips), " has only ", chips.size()));
    }
    out_.chips.assign(chips.begin(), chips.end());
    return absl::OkStatus();
  }

  absl::Status Kernels() {
    absl::flat_hash_set<std::string> ids;
    for (int i = 0; i < job().kernels_size(); ++i) {
      const v1::KernelInit& kernel = job().kernels(i);
      const std::string path = absl::StrCat("kernels[", i, "]");
      PreparedKernel& prepared = out_.kernels.emplace_back();
      if (kernel.file().empty()) return Fault(path + ".file", "expected the path of an object");
      prepared.file = RelativeTo(out_.folder, kernel.file());
      if (const absl::Status file = CheckFile(prepared.file, kMaxKernelBytes); !file.ok()) {
        return Fault(path + ".file", file);
      }
      prepared.id = kernel.id();
      if (!prepared.id.empty() && !ids.insert(prepared.id).second) {
        return Fault(path + ".id", absl::StrCat("duplicate kernel '", prepared.id, "'"));
      }
      prepared.entry = kernel.entry();
      prepared.signature = kernel.signature();
      if (kernel.signature_file().empty()) continue;
      if (!kernel.signature().empty()) {
        return Fault(path + ".signature_file", "expected signature or signature_file, not both");
      }
      const std::string file = RelativeTo(out_.folder, kernel.signature_file());
      absl::Status readable = CheckFile(file, kMaxSignatureBytes);
      absl::StatusOr<std::string> text = readable.ok() ? ReadFile(file) : readable;
      if (!text.ok()) return Fault(path + ".signature_file", text.status());
      prepared.signature = *std::move(text);
    }
    return absl::OkStatus();
  }

  absl::Status Buffers() {
    for (int i = 0; i < job().buffers_size(); ++i) {
      const v1::BufferInit& buffer = job().buffers(i);
      const std::string path = absl::StrCat("buffers[", i, "]");
      if (!IsId(buffer.name())) return Fault(path + ".name", NoId(buffer.name()));
      if (!buffer_index_.emplace(buffer.name(), i).second) {
        return Fault(path + ".name", absl::StrCat("duplicate buffer '", buffer.name(), "'"));
      }
      PTO_RETURN_IF_ERROR(CheckPosition(buffer.chip(), path + ".chip"));
      PreparedBuffer& prepared = out_.buffers.emplace_back();
      prepared.name = buffer.name();
      prepared.position = buffer.chip();
      prepared.chip = out_.chips[buffer.chip()];
      PTO_RETURN_IF_ERROR(Contents(buffer, path, &prepared));
    }
    return absl::OkStatus();
  }

  absl::Status Domains() {
    PTO_ASSIGN_OR_RETURN(DomainWindows windows, FindWindows(out_.file, out_.chips));
    out_.domains = std::move(windows.domains);
    for (WindowPart& part : windows.parts) {
      buffer_index_.emplace(part.contents.name(), out_.buffers.size());
      PreparedBuffer& prepared = out_.buffers.emplace_back();
      prepared.name = part.contents.name();
      prepared.position = part.contents.chip();
      prepared.chip = out_.chips[part.contents.chip()];
      prepared.window = std::move(part.place);
      PTO_RETURN_IF_ERROR(Contents(part.contents, part.path, &prepared));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPosition(uint32_t position, const std::string& path) {
    if (position < out_.chips.size()) return absl::OkStatus();
    return Fault(path, absl::StrCat("the job has ", out_.chips.size(),
                                    " chips; expected a position from 0 to ", out_.chips.size() - 1,
                                    ", got ", position));
  }

  absl::Status Contents(const v1::BufferInit& buffer, const std::string& path,
                        PreparedBuffer* out) {
    pto::v1::DType dtype = buffer.dtype();
    std::vector<int64_t> shape(buffer.shape().begin(), buffer.shape().end());
    if (buffer.init().kind_case() == v1::Values::kNpy &&
        (dtype == pto::v1::DTYPE_UNSPECIFIED || shape.empty())) {
      absl::StatusOr<Array> read = ReadNpy(RelativeTo(out_.folder, buffer.init().npy()));
      if (!read.ok()) return Fault(path + ".init.npy", read.status().message());
      if (dtype == pto::v1::DTYPE_UNSPECIFIED) dtype = read->dtype;
      if (shape.empty()) shape = read->shape;
    }
    if (DTypeBytes(dtype) == 0) {
      return Fault(path + ".dtype", "expected an element type such as F32 or I64");
    }
    if (shape.size() > kMaxDims) {
      return Fault(path + ".shape",
                   absl::StrCat("expected at most ", kMaxDims, " dimensions, got ", shape.size()));
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 1) {
        return Fault(absl::StrCat(path, ".shape[", i, "]"),
                     absl::StrCat("expected 1 or more, got ", shape[i]));
      }
    }
    absl::StatusOr<int64_t> count = ElementCount(shape);
    if (!count.ok() || *count > kMaxBytes / static_cast<int64_t>(DTypeBytes(dtype)) ||
        (total_bytes_ += *count * static_cast<int64_t>(DTypeBytes(dtype))) > kMaxBytes) {
      return Fault(path + ".shape",
                   absl::StrCat("with shape ", ShapeText(shape), " the buffers of the job exceed ",
                                kMaxBytes >> 30, " GiB"));
    }
    out->zeros = !buffer.has_init() || buffer.init().zeros();
    v1::Values zeros;
    zeros.set_zeros(true);
    absl::StatusOr<Array> values =
        MakeValues(buffer.has_init() ? buffer.init() : zeros, dtype, shape, out_.folder);
    if (!values.ok()) return Fault(path + ".init", values.status());
    out->initial = *std::move(values);
    return absl::OkStatus();
  }

  absl::Status Tensors() {
    out_.graph = job().graph();
    for (int i = 0; i < out_.graph.tensors_size(); ++i) {
      pto::v1::TensorSpec& tensor = *out_.graph.mutable_tensors(i);
      const std::string path = absl::StrCat("graph.tensors[", i, "]");
      if (tensor.name().empty()) return Fault(path + ".name", "expected a name");
      if (out_.views.contains(tensor.name())) {
        return Fault(path + ".name", absl::StrCat("duplicate tensor '", tensor.name(), "'"));
      }
      if (tensor.buffer().empty()) tensor.set_buffer(tensor.name());
      const auto found = buffer_index_.find(tensor.buffer());
      if (found == buffer_index_.end()) {
        return Fault(path + (job().graph().tensors(i).buffer().empty() ? ".name" : ".buffer"),
                     NoSuch("buffer", tensor.buffer(), buffer_index_));
      }
      if (tensor.dtype() == pto::v1::DTYPE_UNSPECIFIED) {
        tensor.set_dtype(out_.buffers[found->second].initial.dtype);
      }
      PTO_RETURN_IF_ERROR(AddView(tensor, found->second, path));
    }
    // A buffer name is valid wherever a tensor name is. Only buffers that tasks use are sent.
    for (size_t i = 0; i < out_.buffers.size(); ++i) {
      if (out_.views.contains(out_.buffers[i].name)) continue;
      PTO_RETURN_IF_ERROR(AddView(WholeBuffer(i), i, absl::StrCat("buffers[", i, "]")));
      implied_.insert(out_.buffers[i].name);
    }
    return absl::OkStatus();
  }

  pto::v1::TensorSpec WholeBuffer(size_t index) const {
    const PreparedBuffer& buffer = out_.buffers[index];
    pto::v1::TensorSpec tensor;
    tensor.set_name(buffer.name);
    tensor.set_buffer(buffer.name);
    tensor.set_dtype(buffer.initial.dtype);
    tensor.mutable_shape()->Add(buffer.initial.shape.begin(), buffer.initial.shape.end());
    return tensor;
  }

  absl::Status AddView(const pto::v1::TensorSpec& tensor, size_t buffer, const std::string& path) {
    absl::StatusOr<View> view = View::Make(tensor, out_.buffers[buffer].initial.bytes.size());
    if (!view.ok()) return Fault(path, view.status());
    // A view with overlapping elements can be larger than its buffer, and checks copy views.
    if (view->size() > kMaxBytes / static_cast<int64_t>(DTypeBytes(view->dtype()))) {
      return Fault(path + ".shape", absl::StrCat("a tensor of shape ", ShapeText(view->shape()),
                                                 " exceeds ", kMaxBytes >> 30, " GiB"));
    }
    out_.views[tensor.name()] = NamedView{buffer, *std::move(view)};
    return absl::OkStatus();
  }

  template <typename Map>
  static std::string NoSuch(absl::string_view kind, absl::string_view name, const Map& map) {
    std::vector<std::string> names;
    for (const auto& [known, value] : map) names.push_back(known);
    const std::string nearest = Nearest(name, names);
    return absl::StrCat("there is no ", kind, " '", name, "'",
                        nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
  }

  absl::Status Tasks() {
    if (out_.graph.tasks().empty()) return Fault("graph.tasks", "expected at least one task");
    absl::flat_hash_map<std::string, int> names;
    for (int i = 0; i < out_.graph.tasks_size(); ++i) {
      pto::v1::TaskSpec& task = *out_.graph.mutable_tasks(i);
      const std::string path = absl::StrCat("graph.tasks[", i, "]");
      if (task.kernel().empty()) return Fault(path + ".kernel", "expected a kernel name");
      PTO_RETURN_IF_ERROR(TaskChip(path, &task));
      for (int a = 0; a < task.after_size(); ++a) {
        int index = 0;
        const bool earlier = names.contains(task.after(a)) ||
                             (absl::SimpleAtoi(task.after(a), &index) && index >= 0 && index < i &&
                              out_.graph.tasks(index).name().empty());
        if (!earlier) {
          return Fault(absl::StrCat(path, ".after[", a, "]"),
                       NoSuch("earlier task", task.after(a), names));
        }
      }
      if (!task.name().empty() && !names.emplace(task.name(), i).second) {
        return Fault(path + ".name", absl::StrCat("duplicate task '", task.name(), "'"));
      }
    }
    return absl::OkStatus();
  }

  // Assigns the task, or each of its members, to a chip of the node and checks that the arguments
  // are on that chip.
  absl::Status TaskChip(const std::string& path, pto::v1::TaskSpec* task) {
    if (!task->members().empty()) {
      if (!task->chip().empty() || !task->args().empty()) {
        return Fault(path + (task->chip().empty() ? ".args" : ".chip"),
                     "a task with members must set chips and arguments in its members only");
      }
      for (int m = 0; m < task->members_size(); ++m) {
        pto::v1::TaskMember& member = *task->mutable_members(m);
        PTO_RETURN_IF_ERROR(Place(absl::StrCat(path, ".members[", m, "]"), member.args(),
                                  /*any_chip=*/false, member.mutable_chip()));
      }
    } else {
      PTO_RETURN_IF_ERROR(
          Place(path, task->args(), IsControlKernel(task->kernel()), task->mutable_chip()));
    }
    if (!task->has_predicate()) return absl::OkStatus();
    return UseView(task->predicate().tensor(), path + ".predicate.tensor").status();
  }

  // Replaces `chip` by the chip of the node. If it is empty, uses the chip of the first argument.
  absl::Status Place(const std::string& path,
                     const google::protobuf::RepeatedPtrField<std::string>& args, bool any_chip,
                     std::string* chip) {
    uint32_t position = 0;
    bool given = false;
    if (!chip->empty()) {
      absl::string_view number = *chip;
      if (!absl::ConsumePrefix(&number, "chips/") || !absl::SimpleAtoi(number, &position)) {
        return Fault(path + ".chip",
                     absl::StrCat("expected a chip name, for example chips/0, got '", *chip, "'"));
      }
      PTO_RETURN_IF_ERROR(CheckPosition(position, path + ".chip"));
      given = true;
    }
    for (int a = 0; a < args.size(); ++a) {
      const std::string arg_path = absl::StrCat(path, ".args[", a, "]");
      PTO_ASSIGN_OR_RETURN(const PreparedBuffer* const buffer, UseView(args[a], arg_path));
      if (!given) position = buffer->position;
      given = true;
      if (buffer->position != position && !any_chip) {
        return Fault(arg_path, absl::StrCat("'", args[a], "' is on chip position ",
                                            buffer->position, ", but the task is on ", position,
                                            "; a task can use only buffers of its own chip"));
      }
    }
    *chip = absl::StrCat("chips/", out_.chips[position]);
    return absl::OkStatus();
  }

  // Returns the buffer of a tensor that a task uses. If the tensor is a whole buffer, adds it to
  // the graph.
  absl::StatusOr<const PreparedBuffer*> UseView(const std::string& name, const std::string& path) {
    const auto found = out_.views.find(name);
    if (found == out_.views.end()) {
      return Fault(path, NoSuch("tensor or buffer", name, out_.views));
    }
    if (implied_.erase(name) > 0) *out_.graph.add_tensors() = WholeBuffer(found->second.buffer);
    return &out_.buffers[found->second.buffer];
  }

  absl::Status CheckView(const std::string& name, const std::string& path) {
    if (name.empty()) return Fault(path, "expected a tensor or buffer name");
    if (!out_.views.contains(name)) {
      return Fault(path, NoSuch("tensor or buffer", name, out_.views));
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() {
    for (int i = 0; i < job().outputs_size(); ++i) {
      PTO_RETURN_IF_ERROR(
          CheckView(job().outputs(i).tensor(), absl::StrCat("outputs[", i, "].tensor")));
    }
    return absl::OkStatus();
  }

  absl::Status References() {
    absl::flat_hash_map<std::string, const Array*> buffers;
    for (const PreparedBuffer& buffer : out_.buffers) buffers[buffer.name] = &buffer.initial;
    PTO_ASSIGN_OR_RETURN(out_.references, ComputeReferences(out_.file, buffers));
    return absl::OkStatus();
  }

  absl::Status Checks() {
    for (int i = 0; i < job().checks_size(); ++i) {
      const v1::Check& check = job().checks(i);
      const std::string path = absl::StrCat("checks[", i, "]");
      PTO_RETURN_IF_ERROR(CheckView(check.tensor(), path + ".tensor"));
      if (!(check.tolerance().absolute() >= 0) || !(check.tolerance().relative() >= 0)) {
        return Fault(path + ".tolerance", "expected non-negative numbers");
      }
      PTO_RETURN_IF_ERROR(Expected(check, path));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSize(const v1::Check& check, int64_t size, const std::string& path) {
    const int64_t wanted = out_.views.at(check.tensor()).view.size();
    if (size == wanted) return absl::OkStatus();
    return Fault(path, absl::StrCat("expected ", wanted, " elements to compare with '",
                                    check.tensor(), "', got ", size));
  }

  absl::Status Expected(const v1::Check& check, const std::string& path) {
    const View& view = out_.views.at(check.tensor()).view;
    switch (check.expected_case()) {
      case v1::Check::kValues: {
        absl::StatusOr<Array> values =
            MakeValues(check.values(), view.dtype(), view.shape(), out_.folder);
        return values.ok() ? absl::OkStatus() : Fault(path + ".values", values.status());
      }
      case v1::Check::kEquals:
        PTO_RETURN_IF_ERROR(CheckView(check.equals(), path + ".equals"));
        return CheckSize(check, out_.views.at(check.equals()).view.size(), path + ".equals");
      case v1::Check::kReference: {
        const auto found = out_.references.find(check.reference());
        if (found == out_.references.end()) {
          return Fault(path + ".reference",
                       NoSuch("reference", check.reference(), out_.references));
        }
        return CheckSize(check, static_cast<int64_t>(found->second.values.size()),
                         path + ".reference");
      }
      case v1::Check::kReplay:
        if (!check.replay()) return Fault(path + ".replay", "expected true");
        return CheckReplay(out_);
      case v1::Check::EXPECTED_NOT_SET:
        break;
    }
    return Fault(path, "expected one of values, equals, reference, replay");
  }

  // The client keeps all contents in memory. A larger job is an error in the file, or needs its own
  // program.
  static constexpr int64_t kMaxBytes = int64_t{8} << 30;

  int64_t total_bytes_ = 0;
  PreparedJob out_;
  absl::flat_hash_map<std::string, size_t> buffer_index_;
  // Buffers that can be used as tensors and that no task has used yet.
  absl::flat_hash_set<std::string> implied_;
};

}  // namespace

absl::StatusOr<PreparedJob> PrepareJob(JobFile file, absl::Span<const uint32_t> chips) {
  return Preparer(std::move(file)).Run(chips);
}

}  // namespace pto::job
