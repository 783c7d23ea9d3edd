#include "client/job/replay.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

// Wraps an integer result that does not fit its type, as kernels do.
double Wrap(pto::v1::DType dtype, double value) {
  if (!IsInteger(dtype) || dtype == pto::v1::BOOL) return value;
  const double range = std::scalbn(1.0, static_cast<int>(8 * DTypeBytes(dtype)));
  double rest = std::fmod(value, range);
  const bool is_signed = dtype <= pto::v1::I64;
  if (rest < (is_signed ? -range / 2 : 0)) rest += range;
  if (rest >= (is_signed ? range / 2 : range)) rest -= range;
  return rest;
}

// One argument of a task.
class Operand {
 public:
  Operand(const View* view, std::string* bytes) : view_(view), bytes_(bytes) {}
  int64_t size() const { return view_->size(); }
  const std::vector<int64_t>& shape() const { return view_->shape(); }
  double Get(int64_t i) const { return view_->Get(*bytes_, i); }
  void Set(int64_t i, double value) const { view_->Set(bytes_, i, Wrap(view_->dtype(), value)); }
  // Converts a scalar as a kernel does for this tensor: integers lose the fraction.
  double Take(double scalar) const {
    return IsInteger(view_->dtype()) ? std::trunc(scalar) : scalar;
  }

 private:
  const View* view_;
  std::string* bytes_;
};

using Operands = std::vector<Operand>;
using Scalars = std::vector<double>;

template <typename F>
void Each(const Operand& out, F f) {
  for (int64_t i = 0; i < out.size(); ++i) out.Set(i, f(i));
}

void Matmul(const Operands& args) {
  const Operand &a = args[0], &b = args[1], &out = args[2];
  const int64_t m = a.shape()[0], k = a.shape()[1], n = b.shape()[1];
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += a.Get(row * k + i) * b.Get(i * n + column);
      out.Set(row * n + column, sum);
    }
  }
}

double Sum(const Operand& in) {
  double sum = 0;
  for (int64_t i = 0; i < in.size(); ++i) sum += in.Get(i);
  return sum;
}

// Two NaNs are equal.
bool Match(double a, double b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::fabs(a - b) <= tolerance + tolerance * std::fabs(b);
}

double Mismatches(const Operand& a, const Operand& b, double tolerance) {
  double count = 0;
  for (int64_t i = 0; i < a.size(); ++i) count += Match(a.Get(i), b.Get(i), tolerance) ? 0 : 1;
  return count;
}

struct Kernel {
  absl::string_view name;
  size_t args;
  size_t scalars;
  // Whether all arguments must have the same number of elements.
  bool same_size;
  void (*run)(const Operands& args, const Scalars& scalars);
};

constexpr Kernel kKernels[] = {
    {"noop", 0, 0, false, [](const Operands&, const Scalars&) {}},
    {"spin", 0, 1, false, [](const Operands&, const Scalars&) {}},
    {"fill", 1, 1, false,
     [](const Operands& x, const Scalars& s) {
       Each(x[0], [&](int64_t) { return x[0].Take(s[0]); });
     }},
    {"iota", 1, 2, false,
     [](const Operands& x, const Scalars& s) {
       Each(x[0],
            [&](int64_t i) { return x[0].Take(s[0]) + x[0].Take(s[1]) * static_cast<double>(i); });
     }},
    {"copy", 2, 0, true,
     [](const Operands& x, const Scalars&) { Each(x[1], [&](int64_t i) { return x[0].Get(i); }); }},
    {"add", 3, 0, true,
     [](const Operands& x, const Scalars&) {
       Each(x[2], [&](int64_t i) { return x[0].Get(i) + x[1].Get(i); });
     }},
    {"sub", 3, 0, true,
     [](const Operands& x, const Scalars&) {
       Each(x[2], [&](int64_t i) { return x[0].Get(i) - x[1].Get(i); });
     }},
    {"mul", 3, 0, true,
     [](const Operands& x, const Scalars&) {
       Each(x[2], [&](int64_t i) { return x[0].Get(i) * x[1].Get(i); });
     }},
    {"scale", 2, 1, true,
     [](const Operands& x, const Scalars& s) {
       Each(x[1], [&](int64_t i) { return x[0].Take(s[0]) * x[0].Get(i); });
     }},
    {"axpy", 2, 1, true,
     [](const Operands& x, const Scalars& s) {
       Each(x[1], [&](int64_t i) { return x[0].Take(s[0]) * x[0].Get(i) + x[1].Get(i); });
     }},
    {"matmul", 3, 0, false, [](const Operands& x, const Scalars&) { Matmul(x); }},
    {"reduce_sum", 2, 0, false, [](const Operands& x, const Scalars&) { x[1].Set(0, Sum(x[0])); }},
    {"compare", 3, 1, false,
     [](const Operands& x, const Scalars& s) { x[2].Set(0, Mismatches(x[0], x[1], s[0])); }},
    // In program order no wait is needed.
    {"join", 0, 0, false, [](const Operands&, const Scalars&) {}},
    {"wait", 1, 3, false, [](const Operands&, const Scalars&) {}},
    {"wait_token", 2, 3, false, [](const Operands&, const Scalars&) {}},
    {"notify", 1, 2, false,
     [](const Operands& x, const Scalars& s) {
       x[0].Set(0, s[0] == static_cast<double>(pto::v1::ADD) ? x[0].Get(0) + s[1] : s[1]);
     }},
    {"copy_async", 2, 0, true,
     [](const Operands& x, const Scalars&) { Each(x[0], [&](int64_t i) { return x[1].Get(i); }); }},
};

const Kernel* Find(absl::string_view name) {
  name = absl::StripPrefix(name, "kernels/");
  for (const Kernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

// Ensures that no kernel below reads or writes outside its views.
std::string ShapeFault(const Kernel& kernel, const std::vector<const View*>& views) {
  if (kernel.same_size) {
    for (const View* view : views) {
      if (view->size() != views[0]->size()) {
        return absl::StrCat("expected arguments of the same size, got ",
                            ShapeText(views[0]->shape()), " and ", ShapeText(view->shape()));
      }
    }
  }
  if (kernel.name == "matmul") {
    const std::vector<int64_t>&a = views[0]->shape(), &b = views[1]->shape(),
          &out = views[2]->shape();
    if (a.size() != 2 || b.size() != 2 || out.size() != 2 || a[1] != b[0] || out[0] != a[0] ||
        out[1] != b[1]) {
      return absl::StrCat("expected matrices of M x K, K x N and M x N, got ", ShapeText(a), ", ",
                          ShapeText(b), " and ", ShapeText(out));
    }
  }
  if (kernel.name == "compare" && views[0]->size() != views[1]->size()) {
    return "expected two tensors of the same size";
  }
  if ((kernel.name == "notify" || kernel.name == "wait" || kernel.name == "wait_token") &&
      views[0]->size() != 1) {
    return absl::StrCat("expected one element for the signal, got ", ShapeText(views[0]->shape()));
  }
  if ((kernel.name == "compare" || kernel.name == "reduce_sum") && views.back()->size() != 1) {
    return absl::StrCat("expected one element for the result, got ",
                        ShapeText(views.back()->shape()));
  }
  return "";
}

absl::StatusOr<Scalars> ScalarsOf(const PreparedJob& job, const pto::v1::TaskSpec& task,
                                  const std::string& path) {
  Scalars scalars;
  for (int i = 0; i < task.scalars_size(); ++i) {
    pto::v1::Scalar scalar = task.scalars(i);
    if (scalar.has_ref()) {
      for (const pto::v1::ScalarSpec& named : job.graph.scalars()) {
        if (named.name() == task.scalars(i).ref()) scalar = named.value();
      }
    }
    if (scalar.has_f64()) {
      scalars.push_back(scalar.f64());
    } else if (scalar.has_i64()) {
      scalars.push_back(static_cast<double>(scalar.i64()));
    } else if (scalar.has_compare()) {
      scalars.push_back(scalar.compare());
    } else if (scalar.has_op()) {
      scalars.push_back(scalar.op());
    } else {
      return job.file.places.Fault(absl::StrCat(path, ".scalars[", i, "]"),
                                   "expected f64, i64, or ref to a scalar of the graph");
    }
  }
  return scalars;
}

using Names = google::protobuf::RepeatedPtrField<std::string>;

// Calls `f` with the arguments, and their path, of the task or of each of its members.
template <typename F>
absl::Status ForEachMember(const pto::v1::TaskSpec& task, const std::string& path, const F& f) {
  if (task.members().empty()) return f(task.args(), path + ".args");
  for (int i = 0; i < task.members_size(); ++i) {
    PTO_RETURN_IF_ERROR(f(task.members(i).args(), absl::StrCat(path, ".members[", i, "].args")));
  }
  return absl::OkStatus();
}

absl::Status CheckArgs(const PreparedJob& job, const Kernel& kernel, const Names& args,
                       const std::string& path) {
  if (static_cast<size_t>(args.size()) != kernel.args) {
    return job.file.places.Fault(
        path, absl::StrCat(kernel.name, " takes ", kernel.args, " arguments, got ", args.size()));
  }
  std::vector<const View*> views;
  for (const std::string& arg : args) views.push_back(&job.views.at(arg).view);
  const std::string fault = ShapeFault(kernel, views);
  return fault.empty() ? absl::OkStatus() : job.file.places.Fault(path, fault);
}

absl::Status CheckPredicate(const PreparedJob& job, const pto::v1::Predicate& predicate,
                            const std::string& path) {
  const View& view = job.views.at(predicate.tensor()).view;
  if (view.size() != 1) {
    return job.file.places.Fault(
        path + ".tensor", absl::StrCat("expected one element, got ", ShapeText(view.shape())));
  }
  if (predicate.compare() == pto::v1::COMPARISON_UNSPECIFIED) {
    return job.file.places.Fault(path + ".compare", "expected a comparison such as GE");
  }
  return absl::OkStatus();
}

bool Holds(const PreparedJob& job, const pto::v1::Predicate& predicate,
           const std::vector<std::string>& memory) {
  const NamedView& named = job.views.at(predicate.tensor());
  const double left = named.view.Get(memory[named.buffer], 0);
  const auto right = static_cast<double>(predicate.value());
  switch (predicate.compare()) {
    case pto::v1::EQ:
      return left == right;
    case pto::v1::NE:
      return left != right;
    case pto::v1::GT:
      return left > right;
    case pto::v1::GE:
      return left >= right;
    case pto::v1::LT:
      return left < right;
    case pto::v1::LE:
      return left <= right;
    default:
      return false;
  }
}

}  // namespace

absl::Status CheckReplay(const PreparedJob& job) {
  for (int i = 0; i < job.graph.tasks_size(); ++i) {
    const pto::v1::TaskSpec& task = job.graph.tasks(i);
    const std::string path = absl::StrCat("graph.tasks[", i, "]");
    const Kernel* kernel = Find(task.kernel());
    if (kernel == nullptr) {
      return job.file.places.Fault(
          path + ".kernel",
          absl::StrCat("replay is not possible: the client does not implement kernel '",
                       task.kernel(), "'"));
    }
    if (!task.launch().vector_kernels().empty()) {
      return job.file.places.Fault(
          path + ".launch.vector_kernels",
          "replay is not possible: the client does not implement vector_kernels");
    }
    PTO_ASSIGN_OR_RETURN(const Scalars scalars, ScalarsOf(job, task, path));
    if (scalars.size() != kernel->scalars) {
      return job.file.places.Fault(
          path + ".scalars",
          absl::StrCat(kernel->name, " takes ", kernel->scalars, " scalars, got ", scalars.size()));
    }
    const auto check = [&](const Names& args, const std::string& where) {
      return CheckArgs(job, *kernel, args, where);
    };
    PTO_RETURN_IF_ERROR(ForEachMember(task, path, check));
    if (task.has_predicate()) {
      PTO_RETURN_IF_ERROR(CheckPredicate(job, task.predicate(), path + ".predicate"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Replay(const PreparedJob& job) {
  PTO_RETURN_IF_ERROR(CheckReplay(job));
  std::vector<std::string> memory;
  for (const PreparedBuffer& buffer : job.buffers) memory.push_back(buffer.initial.bytes);
  for (int i = 0; i < job.graph.tasks_size(); ++i) {
    const pto::v1::TaskSpec& task = job.graph.tasks(i);
    const std::string path = absl::StrCat("graph.tasks[", i, "]");
    if (task.has_predicate() && !Holds(job, task.predicate(), memory)) continue;
    PTO_ASSIGN_OR_RETURN(const Scalars scalars, ScalarsOf(job, task, path));
    const auto run = [&](const Names& args, const std::string&) -> absl::Status {
      Operands operands;
      for (const std::string& arg : args) {
        const NamedView& named = job.views.at(arg);
        operands.emplace_back(&named.view, &memory[named.buffer]);
      }
      Find(task.kernel())->run(operands, scalars);
      return absl::OkStatus();
    };
    PTO_RETURN_IF_ERROR(ForEachMember(task, path, run));
  }
  return memory;
}

}  // namespace pto::job
