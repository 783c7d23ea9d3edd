#ifndef PTO_KERNELS_PTO_KERNEL_CPP_H_
#define PTO_KERNELS_PTO_KERNEL_CPP_H_

// Kernels in C++17, on top of the C ABI in pto_kernel.h. Needs nothing but these two headers:
//
//   #include "kernels/pto_kernel_cpp.h"
//
//   static void Add(const pto::kernel::Block& block) {
//     const auto x = block.Tensor<const float>(0), y = block.Tensor<const float>(1);
//     const auto z = block.Tensor<float>(2);
//     const auto [begin, end] = block.Share(z.size());
//     for (int64_t i = begin; i < end; ++i) z[i] = x[i] + y[i];
//   }
//
//   PTO_EXPORT_KERNEL(Add, pto::kernel::Describe("add", "Adds two tensors.")
//                              .In("x", PTO_F32).In("y", PTO_F32).Out("z", PTO_F32))
//
//   g++ -std=c++17 -O2 -fPIC -shared -I… add.cc -o add.so
//
// Calls that fail leave the kernel, with an exception that the exported function turns into the
// result of the block. So does any other exception. Views check their bounds unless NDEBUG is
// defined; PTO_KERNEL_CHECKS=0 or 1 decides instead. A block that leaves its bounds fails, and its
// message names the tensor, the index and the bound.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <type_traits>

#include "pto_kernel.h"

#ifndef PTO_KERNEL_CHECKS
#ifdef NDEBUG
#define PTO_KERNEL_CHECKS 0
#else
#define PTO_KERNEL_CHECKS 1
#endif
#endif

namespace pto {
namespace kernel {

// An element of 16 bits that C++17 has no type for.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// The element type of a C++ type.
template <typename T>
constexpr pto_dtype DtypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) {
    return PTO_F32;
  } else if constexpr (std::is_same_v<U, double>) {
    return PTO_F64;
  } else if constexpr (std::is_same_v<U, Half>) {
    return PTO_F16;
  } else if constexpr (std::is_same_v<U, Bfloat16>) {
    return PTO_BF16;
  } else if constexpr (std::is_same_v<U, bool>) {
    return PTO_BOOL;
  } else {
    static_assert(std::is_integral_v<U>, "tensors have no elements of this type");
    constexpr bool kSigned = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1) return kSigned ? PTO_I8 : PTO_U8;
    if constexpr (sizeof(U) == 2) return kSigned ? PTO_I16 : PTO_U16;
    if constexpr (sizeof(U) == 4) return kSigned ? PTO_I32 : PTO_U32;
    return kSigned ? PTO_I64 : PTO_U64;
  }
}

// Leaves a kernel. Kernels throw it with Block::Fail; they need not catch it.
class Stopped : public std::exception {
 public:
  Stopped(int32_t code, const char* text) : code_(code) {
    std::snprintf(text_, sizeof text_, "%s", text);
  }
  int32_t code() const { return code_; }
  const char* what() const noexcept override { return text_; }

 private:
  int32_t code_;
  char text_[240];
};

// A part of a list: [begin, end).
struct Range {
  int64_t begin;
  int64_t end;
};

// A typed view of device memory. T is const for tensors that are only read.
template <typename T>
class View {
 public:
  // `name` is for messages, and must live as long as the view.
  explicit View(const pto_tensor& tensor, const char* name = "tensor")
      : tensor_(tensor), name_(name) {
    for (uint32_t d = 0; d < tensor_.ndim; ++d) size_ *= tensor_.shape[d];
    int64_t stride = 1;
    for (uint32_t d = tensor_.ndim; d-- > 0;) {
      contiguous_ &= tensor_.shape[d] == 1 || tensor_.strides[d] == stride;
      stride *= tensor_.shape[d];
    }
  }

  uint32_t ndim() const { return tensor_.ndim; }
  int64_t dim(uint32_t d) const {
    CheckDimension(d);
    return tensor_.shape[d];
  }
  int64_t stride(uint32_t d) const {
    CheckDimension(d);
    return tensor_.strides[d];
  }
  // The number of elements.
  int64_t size() const { return size_; }
  // Whether the elements follow each other in memory: then data()[i] is element i.
  bool contiguous() const { return contiguous_; }
  // The first element.
  T* data() const { return static_cast<T*>(tensor_.data); }
  const pto_tensor& tensor() const { return tensor_; }
  const char* name() const { return name_; }

  // The element at these indices, one for each dimension.
  template <typename... Indices>
  T& operator()(Indices... indices) const {
    const int64_t all[sizeof...(Indices) + 1] = {static_cast<int64_t>(indices)..., 0};
    if (PTO_KERNEL_CHECKS && sizeof...(Indices) != tensor_.ndim) {
      Fail("%lld indices for a view of %lld dimensions", sizeof...(Indices), tensor_.ndim);
    }
    int64_t offset = 0;
    for (uint32_t d = 0; d < sizeof...(Indices); ++d) {
      if (PTO_KERNEL_CHECKS && !IsBelow(all[d], tensor_.shape[d])) {
        Fail("index %lld is outside of the view: dimension %lld has %lld", all[d], d,
             tensor_.shape[d]);
      }
      offset += all[d] * tensor_.strides[d];
    }
    return data()[offset];
  }

  // Element i in row-major order.
  T& operator[](int64_t i) const {
    if (PTO_KERNEL_CHECKS && !IsBelow(i, size_)) {
      Fail("element %lld is outside of the view: there are %lld", i, size_);
    }
    if (contiguous_) return data()[i];
    int64_t offset = 0;
    for (uint32_t d = tensor_.ndim; d-- > 0;) {
      offset += i % tensor_.shape[d] * tensor_.strides[d];
      i /= tensor_.shape[d];
    }
    return data()[offset];
  }

  // A part of it: `count` indices of dimension d, from `first` on.
  View Slice(uint32_t d, int64_t first, int64_t count) const {
    CheckDimension(d);
    if (PTO_KERNEL_CHECKS && (first < 0 || count < 0 || count > tensor_.shape[d] - first)) {
      Fail("a slice of %lld indices from %lld on leaves the view: dimension %lld has %lld", count,
           first, d, tensor_.shape[d]);
    }
    pto_tensor part = tensor_;
    if (part.data != nullptr)
      part.data = const_cast<std::remove_cv_t<T>*>(data() + first * part.strides[d]);
    part.shape[d] = count;
    return View(part, name_);
  }

 private:
  template <typename... Numbers>
  [[noreturn]] void Fail(const char* format, Numbers... numbers) const {
    char what[160];
    std::snprintf(what, sizeof what, format, static_cast<long long>(numbers)...);
    char text[224];
    std::snprintf(text, sizeof text, "%s: %s", name_, what);
    throw Stopped(PTO_INVALID, text);
  }

  static bool IsBelow(int64_t index, int64_t limit) { return index >= 0 && index < limit; }

  void CheckDimension(uint32_t d) const {
    if (PTO_KERNEL_CHECKS && d >= tensor_.ndim) {
      Fail("there is no dimension %lld: the view has %lld", d, tensor_.ndim);
    }
  }

  pto_tensor tensor_;
  const char* name_;
  int64_t size_ = 1;
  bool contiguous_ = true;
};

// A word that tasks wait for and notify: one element of a view of int32_t or int64_t.
class Signal {
 public:
  template <typename T>
  explicit Signal(T& word) : signal_{&word, static_cast<uint32_t>(DtypeOf<T>())} {
    static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>,
                  "a signal is an int32_t or int64_t");
  }
  const pto_signal* get() const { return &signal_; }

 private:
  pto_signal signal_;
};

// What a kernel is and takes, as a constant.
class Describe {
 public:
  constexpr Describe(const char* name, const char* description)
      : name_(name), description_(description) {}

  // Tensors, in the order of the arguments; each accepts one element type, or a set of
  // PTO_DTYPE_BITs with the functions that end in Any.
  constexpr Describe In(const char* name, pto_dtype dtype) const {
    return InAny(name, PTO_DTYPE_BIT(dtype));
  }
  constexpr Describe Out(const char* name, pto_dtype dtype) const {
    return OutAny(name, PTO_DTYPE_BIT(dtype));
  }
  constexpr Describe InOut(const char* name, pto_dtype dtype) const {
    return InOutAny(name, PTO_DTYPE_BIT(dtype));
  }
  // A tensor that orders no tasks: signals, and windows that others write.
  constexpr Describe NoDependency(const char* name, pto_dtype dtype) const {
    return NoDependencyAny(name, PTO_DTYPE_BIT(dtype));
  }
  constexpr Describe InAny(const char* name, uint32_t dtypes) const {
    return With({name, PTO_INPUT, dtypes});
  }
  constexpr Describe OutAny(const char* name, uint32_t dtypes) const {
    return With({name, PTO_OUTPUT, dtypes});
  }
  constexpr Describe InOutAny(const char* name, uint32_t dtypes) const {
    return With({name, PTO_INOUT, dtypes});
  }
  constexpr Describe NoDependencyAny(const char* name, uint32_t dtypes) const {
    return With({name, PTO_NO_DEPENDENCY, dtypes});
  }
  // The last tensor, which is written, may be exactly the same view as these, a set of
  // PTO_ARGUMENT_BITs.
  constexpr Describe MayBeSame(uint32_t arguments) const {
    Describe next = *this;
    next.overlaps_[argument_count_ - 1].same = arguments;
    return next;
  }
  // It may overlap these in any way: the kernel reads everything before it writes anything.
  constexpr Describe MayOverlap(uint32_t arguments) const {
    Describe next = *this;
    next.overlaps_[argument_count_ - 1].any = arguments;
    return next;
  }

  constexpr Describe Float(const char* name) const { return With({name, PTO_FLOAT}); }
  constexpr Describe Integer(const char* name) const { return With({name, PTO_INTEGER}); }

  constexpr Describe On(pto_core core) const {
    Describe next = *this;
    next.core_ = core;
    return next;
  }
  // A set of pto_kernel_flags: which calls the kernel makes.
  constexpr Describe Flags(uint32_t flags) const {
    Describe next = *this;
    next.flags_ = flags;
    return next;
  }
  // All blocks start together, as barriers need.
  constexpr Describe SyncStart() const {
    Describe next = *this;
    next.sync_start_ = 1;
    return next;
  }

  // The name of argument i, for messages.
  const char* ArgumentName(uint32_t i) const {
    return i < PTO_MAX_ARGS && i < argument_count_ ? arguments_[i].name : "tensor";
  }
  // The index of an argument or scalar; as many as there are if none has the name.
  uint32_t FindArgument(const char* name) const {
    uint32_t i = 0;
    while (i < argument_count_ && std::strcmp(arguments_[i].name, name) != 0) ++i;
    return i;
  }
  uint32_t FindScalar(const char* name) const {
    uint32_t i = 0;
    while (i < scalar_count_ && std::strcmp(scalars_[i].name, name) != 0) ++i;
    return i;
  }
  // What a scalar is; 0 if there is none.
  int ScalarType(uint32_t i) const {
    return i < PTO_MAX_SCALARS && i < scalar_count_ ? scalars_[i].type : 0;
  }

  constexpr pto_kernel_info Info(pto_kernel_function function) const {
    return {sizeof(pto_kernel_info),
            name_,
            description_,
            function,
            nullptr,
            core_,
            arguments_,
            argument_count_,
            scalars_,
            scalar_count_,
            sync_start_,
            flags_,
            PTO_CONTROL_NONE,
            nullptr,
            overlaps_};
  }

 private:
  // Too many of either end the compilation.
  constexpr Describe With(pto_argument_info argument) const {
    Describe next = *this;
    next.arguments_[next.argument_count_++] = argument;
    return next;
  }
  constexpr Describe With(pto_scalar_info scalar) const {
    Describe next = *this;
    next.scalars_[next.scalar_count_++] = scalar;
    return next;
  }

  const char* name_;
  const char* description_;
  pto_core core_ = PTO_AIV;
  uint32_t flags_ = 0;
  uint32_t sync_start_ = 0;
  uint32_t argument_count_ = 0;
  uint32_t scalar_count_ = 0;
  pto_argument_info arguments_[PTO_MAX_ARGS] = {};
  pto_overlap_info overlaps_[PTO_MAX_ARGS] = {};
  pto_scalar_info scalars_[PTO_MAX_SCALARS] = {};
};

// Names an argument or a scalar: its index, or its name.
struct Key {
  template <typename I, typename = std::enable_if_t<std::is_integral_v<I>>>
  Key(I i) : index(static_cast<uint32_t>(i)) {}
  Key(const char* text) : name(text) {}

  uint32_t index = 0;
  const char* name = nullptr;
};

// What one block of a task may use. Its calls throw Stopped if they fail: leave that to the
// exported function, because a block that was refused must fail. Timeouts are in ns; 0 means that
// of the run.
class Block {
 public:
  Block(const pto_context& context, const Describe& description)
      : context_(context), description_(description) {}

  uint32_t index() const { return context_.block_index; }
  uint32_t count() const { return context_.block_count; }
  uint32_t rank() const { return context_.member_index; }
  uint32_t ranks() const { return context_.member_count; }
  // The core of a cluster: 0 the cube core, 1 and 2 the vector cores.
  uint32_t lane() const { return context_.lane; }
  const pto_context& context() const { return context_; }

  // The block's part of `total` things: as many as another block's, or one more.
  Range Share(int64_t total) const {
    const int64_t each = total / count(), more = total % count(), i = index();
    const int64_t begin = i * each + (i < more ? i : more);
    return {begin, begin + each + (i < more ? 1 : 0)};
  }

  // An argument, by index or name, of this rank or of another one. Its elements must be of type T.
  template <typename T>
  View<T> Tensor(Key key) const {
    return Typed<T>(context_.tensors, Argument(key));
  }
  template <typename T>
  View<T> Tensor(Key key, uint32_t rank) const {
    if (rank >= context_.member_count) {
      Refuse("there is no rank %lld: the task has %lld", rank, context_.member_count);
    }
    return Typed<T>(context_.members[rank], Argument(key));
  }

  // A scalar, by index or name.
  double Float(Key key) const { return Scalar(key, PTO_FLOAT).f64; }
  int64_t Integer(Key key) const { return Scalar(key, PTO_INTEGER).i64; }

  // Whether the run must stop. Long kernels look now and then, and return.
  bool cancelled() const { return context_.api->cancelled(&context_) != 0; }
  void Log(pto_log_level level, const char* text) const {
    context_.api->log(&context_, level, text);
  }
  // Ends the kernel; the task fails with this text.
  [[noreturn]] void Fail(int32_t code, const char* text) const { throw Stopped(code, text); }

  // Waits until the signal compares true.
  void Wait(const Signal& signal, pto_compare compare, int64_t value, int64_t timeout = 0) const {
    Need(context_.api->wait(&context_, signal.get(), compare, value, timeout), "wait");
  }
  // Waits for a copy of this block.
  void Wait(pto_event event, int64_t timeout = 0) const {
    Need(context_.api->wait_copy(&context_, event, timeout), "wait for a copy");
  }
  // Changes the signal, after all earlier writes of the block.
  void Notify(const Signal& signal, pto_notify_op op, int64_t value) const {
    Need(context_.api->notify(&context_, signal.get(), op, value), "notify");
  }
  // Starts a copy between views of the same shape. Views may be of any ranks.
  template <typename T, typename U>
  pto_event Copy(const View<T>& to, const View<U>& from) const {
    pto_event event = 0;
    StartCopy(to, from, nullptr, PTO_SET, 0, &event);
    return event;
  }
  // The same; at the end of the copy, the signal is notified.
  template <typename T, typename U>
  pto_event Copy(const View<T>& to, const View<U>& from, const Signal& done, pto_notify_op op,
                 int64_t value) const {
    pto_event event = 0;
    StartCopy(to, from, done.get(), op, value, &event);
    return event;
  }
  // Delays the end of the task until the signal compares true, or until a copy has ended.
  void Defer(const Signal& signal, pto_compare compare, int64_t value, int64_t timeout = 0) const {
    Need(context_.api->defer(&context_, signal.get(), compare, value, timeout), "defer");
  }
  void Defer(pto_event event, int64_t timeout = 0) const {
    Need(context_.api->defer_copy(&context_, event, timeout), "defer to a copy");
  }
  // Waits until all blocks in the scope arrive. The task must start its blocks together.
  void Barrier(pto_scope scope = PTO_SCOPE_TASK) const {
    Need(context_.api->barrier(&context_, scope), "barrier");
  }

 private:
  template <typename T>
  View<T> Typed(const pto_tensor* tensors, uint32_t i) const {
    if (tensors[i].dtype != static_cast<uint32_t>(DtypeOf<T>())) {
      Refuse("tensor %lld has elements of type %lld, the kernel reads type %lld", i,
             tensors[i].dtype, DtypeOf<T>());
    }
    return View<T>(tensors[i], description_.ArgumentName(i));
  }

  const pto_scalar& Scalar(Key key, pto_scalar_type type) const {
    const uint32_t i = key.name == nullptr ? key.index : description_.FindScalar(key.name);
    if (key.name != nullptr && i >= context_.scalar_count) Unknown("scalar", key.name);
    if (i >= context_.scalar_count) {
      Refuse("there is no scalar %lld: the task has %lld", i, context_.scalar_count);
    }
    if (description_.ScalarType(i) != type) {
      Refuse("scalar %lld is described as %s, and read as the other type", i,
             type == PTO_FLOAT ? "an integer" : "a float");
    }
    return context_.scalars[i];
  }

  uint32_t Argument(Key key) const {
    const uint32_t i = key.name == nullptr ? key.index : description_.FindArgument(key.name);
    if (key.name != nullptr && i >= context_.tensor_count) Unknown("tensor", key.name);
    if (i >= context_.tensor_count) {
      Refuse("there is no tensor %lld: the task has %lld", i, context_.tensor_count);
    }
    return i;
  }

  [[noreturn]] void Unknown(const char* what, const char* name) const {
    char text[160];
    std::snprintf(text, sizeof text, "the kernel describes no %s '%s'", what, name);
    Fail(PTO_INVALID, text);
  }
  template <typename... Values>
  [[noreturn]] void Refuse(const char* format, Values... values) const {
    char text[160];
    std::snprintf(text, sizeof text, format, Printed(values)...);
    Fail(PTO_INVALID, text);
  }
  static const char* Printed(const char* text) { return text; }
  template <typename Number>
  static long long Printed(Number number) {
    return static_cast<long long>(number);
  }

  template <typename T, typename U>
  void StartCopy(const View<T>& to, const View<U>& from, const pto_signal* done, pto_notify_op op,
                 int64_t value, pto_event* event) const {
    static_assert(std::is_same_v<T, std::remove_cv_t<U>>, "a copy keeps the element type");
    Need(context_.api->copy(&context_, &to.tensor(), &from.tensor(), done, op, value, event),
         "copy");
  }

  void Need(int32_t result, const char* call) const {
    if (result == PTO_OK) return;
    char text[160];
    std::snprintf(text, sizeof text, "%s: %s", call, Meaning(result));
    throw Stopped(result, text);
  }

  static const char* Meaning(int32_t result) {
    switch (result) {
      case PTO_TIMED_OUT:
        return "the time is over";
      case PTO_CANCELLED:
        return "the run must stop";
      case PTO_NOT_ALLOWED:
        return "this kernel or task must not do that: see the flags of the kernel";
      case PTO_INVALID:
        return "an argument is invalid";
      case PTO_BROKEN:
        return "it can never succeed, because a block of the task has ended";
      default:
        return "failed";
    }
  }

  const pto_context& context_;
  const Describe& description_;
};

// Calls a kernel in C++ as the C ABI wants it: without exceptions.
template <void (*kFunction)(const Block&), const Describe* kDescription>
int32_t Call(const pto_context* context) {
  const auto fail = [context](int32_t code, const char* text) {
    context->api->set_error(context, text);
    return code == 0 ? static_cast<int32_t>(PTO_INVALID) : code;
  };
  try {
    kFunction(Block(*context, *kDescription));
    return PTO_OK;
  } catch (const Stopped& stopped) {
    return fail(stopped.code(), stopped.what());
  } catch (const std::exception& error) {
    return fail(PTO_INVALID, error.what());
  } catch (...) {
    return fail(PTO_INVALID, "the kernel threw something that is no std::exception");
  }
}

}  // namespace kernel
}  // namespace pto

#define PTO_KERNEL_CONCAT_INNER_(a, b) a##b
#define PTO_KERNEL_CONCAT_(a, b) PTO_KERNEL_CONCAT_INNER_(a, b)

// Exports the kernel of this object: a function of `const pto::kernel::Block&`, and what Describe
// says of it. The object then has the symbol `pto_kernel_info`, a constant of that type.
#define PTO_EXPORT_KERNEL(function, ...) \
  PTO_EXPORT_KERNEL_AS("pto_kernel_info", function, __VA_ARGS__)

// The same under another symbol, for objects with several kernels.
#define PTO_EXPORT_KERNEL_AS(symbol, function, ...)                                                \
  PTO_EXPORT_KERNEL_IMPL_(symbol, function, PTO_KERNEL_CONCAT_(pto_kernel_description_, __LINE__), \
                          PTO_KERNEL_CONCAT_(pto_kernel_export_, __LINE__), __VA_ARGS__)
#define PTO_EXPORT_KERNEL_IMPL_(symbol, function, description, exported, ...) \
  static constexpr ::pto::kernel::Describe description = __VA_ARGS__;         \
  extern "C" __attribute__((visibility("default")))                           \
  const pto_kernel_info exported __asm__(symbol);                             \
  const pto_kernel_info exported = description.Info(&::pto::kernel::Call<function, &description>)

#endif  // PTO_KERNELS_PTO_KERNEL_CPP_H_
