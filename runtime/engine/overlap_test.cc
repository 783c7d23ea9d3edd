// Random views of one piece of memory as arguments of all built-in kernels: a task is either
// refused, and then for a reason, or does what it would if it read everything before it wrote
// anything.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "kernels/collectives/reference.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/overlap_check.h"
#include "runtime/graph/realias.h"

namespace pto::engine {
namespace {

namespace collectives = kernels::collectives;
using engine::testing::TestObserver;
using kernels::Element;

constexpr size_t kMemoryBytes = 8192;
constexpr uint32_t kChips = 3;

// An argument: a view of the memory of a chip, in elements of its type.
struct Argument {
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  size_t element() const { return kernels::DtypeSize(dtype); }
  // First bytes of its elements, in row-major order.
  std::vector<size_t> Places() const {
    std::vector<int64_t> all = {offset};
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<int64_t> next;
      for (const int64_t at : all) {
        for (int64_t i = 0; i < shape[d]; ++i) next.push_back(at + i * strides[d]);
      }
      all = std::move(next);
    }
    std::vector<size_t> places;
    for (const int64_t at : all) places.push_back(static_cast<size_t>(at) * element());
    return places;
  }
  std::set<size_t> Bytes() const {
    std::set<size_t> bytes;
    for (const size_t place : Places()) {
      for (size_t i = 0; i < element(); ++i) bytes.insert(place + i);
    }
    return bytes;
  }
  bool IsSameView(const Argument& other) const {
    if (dtype != other.dtype || shape != other.shape || offset != other.offset) return false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1 && strides[d] != other.strides[d]) return false;
    }
    return true;
  }
  bool OverlapsItself() const { return Bytes().size() < Places().size() * element(); }
  std::string Text() const {
    return absl::StrCat(kernels::DtypeName(dtype), "[", absl::StrJoin(shape, ","), "] strides [",
                        absl::StrJoin(strides, ","), "] from ", offset);
  }
};
using Arguments = std::vector<Argument>;
using Memory = std::vector<std::byte>;

template <typename T>
std::vector<T> Load(const Memory& memory, const Argument& argument) {
  std::vector<T> values;
  for (const size_t place : argument.Places()) {
    T value;
    std::memcpy(&value, memory.data() + place, sizeof value);
    values.push_back(value);
  }
  return values;
}

template <typename T>
void Store(const std::vector<T>& values, const Argument& argument, Memory& memory) {
  const std::vector<size_t> places = argument.Places();
  ASSERT_EQ(values.size(), places.size());
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(memory.data() + places[i], &values[i], sizeof(T));
  }
}

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <typename T>
  T OneOf(std::initializer_list<T> list) {
    return list.begin()[Below(static_cast<int64_t>(list.size()))];
  }

 private:
  std::mt19937 random_;
};

// What a kernel takes, and what it should do.
struct Subject {
  // Types and shapes of the arguments; `rows_in_one_piece` leaves the last stride at 1.
  std::function<Arguments(Random&)> shapes;
  // Does the work on memory, inputs first. Returns false when the task must fail.
  std::function<bool(const Arguments&, Memory&)> reference;
  std::vector<double> scalars = {};
  bool rows_in_one_piece = false;
};

std::vector<int64_t> AnyShape(Random& random) {
  std::vector<int64_t> shape;
  for (int64_t d = random.Below(3); d >= 0; --d) shape.push_back(1 + random.Below(6));
  return shape;
}

uint32_t ArithmeticType(Random& random) {
  return random.OneOf<uint32_t>({PTO_F32, PTO_F32, PTO_F16, PTO_I32, PTO_I64});
}

template <typename Visit>
bool WithType(uint32_t dtype, Visit visit) {
  switch (dtype) {
    case PTO_F32:
      return visit(float{});
    case PTO_F16:
      return visit(kernels::F16{});
    case PTO_I32:
      return visit(int32_t{});
    default:
      return visit(int64_t{});
  }
}

// `count` arguments of one shape and type; out is number `out`, and op gets the elements of all.
template <typename Op>
Subject Elementwise(size_t count, size_t out, std::vector<double> scalars, Op op) {
  return {[count](Random& random) {
            return Arguments(count, {ArithmeticType(random), AnyShape(random), {}, 0});
          },
          [count, out, op](const Arguments& arguments, Memory& memory) {
            return WithType(arguments[0].dtype, [&](auto type) {
              using T = decltype(type);
              using E = Element<T>;
              std::vector<std::vector<T>> in;
              for (const Argument& argument : arguments) in.push_back(Load<T>(memory, argument));
              std::vector<T> result;
              for (size_t i = 0; i < in[0].size(); ++i) {
                const auto second = E::Load(in[count > 1 ? 1 : 0][i]);
                result.push_back(E::Store(op(E::Load(in[0][i]), second, i)));
              }
              Store(result, arguments[out], memory);
              return true;
            });
          },
          std::move(scalars)};
}

Subject Mover(size_t out) {
  return {[](Random& random) {
            const auto dtype = random.OneOf<uint32_t>({PTO_U8, PTO_F16, PTO_F32, PTO_I64});
            return Arguments(2, {dtype, AnyShape(random), {}, 0});
          },
          [out](const Arguments& arguments, Memory& memory) {
            const Memory before = memory;
            const std::vector<size_t> from = arguments[1 - out].Places();
            const std::vector<size_t> to = arguments[out].Places();
            for (size_t i = 0; i < to.size(); ++i) {
              std::memcpy(memory.data() + to[i], before.data() + from[i], arguments[out].element());
            }
            return true;
          }};
}

Arguments MatrixShapes(Random& random) {
  const uint32_t dtype = ArithmeticType(random);
  const int64_t m = 1 + random.Below(5), n = 1 + random.Below(5), k = 1 + random.Below(4);
  return {{dtype, {m, k}, {}, 0}, {dtype, {k, n}, {}, 0}, {dtype, {m, n}, {}, 0}};
}

bool Matmul(const Arguments& arguments, Memory& memory) {
  return WithType(arguments[0].dtype, [&](auto type) {
    using T = decltype(type);
    using E = Element<T>;
    const std::vector<T> a = Load<T>(memory, arguments[0]);
    const std::vector<T> b = Load<T>(memory, arguments[1]);
    const int64_t n = arguments[1].shape[1], inner = arguments[0].shape[1];
    std::vector<T> result;
    for (int64_t i = 0; i < arguments[0].shape[0]; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        // Small integers, so that nothing is rounded.
        typename E::Math sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += E::Load(a[static_cast<size_t>(i * inner + k)]) *
                 E::Load(b[static_cast<size_t>(k * n + j)]);
        }
        result.push_back(E::Store(sum));
      }
    }
    Store(result, arguments[2], memory);
    return true;
  });
}

bool ReduceSum(const Arguments& arguments, Memory& memory) {
  return WithType(arguments[0].dtype, [&](auto type) {
    using T = decltype(type);
    double sum = 0;
    for (const T value : Load<T>(memory, arguments[0])) {
      if constexpr (std::is_integral_v<T>) {
        sum += static_cast<double>(value);
      } else {
        sum += static_cast<double>(Element<T>::Load(value));
      }
    }
    Store<T>({Element<T>::FromDouble(sum)}, arguments[1], memory);
    return true;
  });
}

bool Compare(const Arguments& arguments, Memory& memory) {
  return WithType(arguments[0].dtype, [&](auto type) {
    using T = decltype(type);
    const std::vector<T> a = Load<T>(memory, arguments[0]);
    const std::vector<T> b = Load<T>(memory, arguments[1]);
    int64_t mismatches = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      mismatches += Element<T>::Load(a[i]) != Element<T>::Load(b[i]) ? 1 : 0;
    }
    Store<int64_t>({mismatches}, arguments[2], memory);
    return true;
  });
}

// in, one index (or `terms` of them) for each row of out, and out.
Arguments RowShapes(Random& random, bool with_terms) {
  const uint32_t dtype = random.OneOf<uint32_t>({PTO_F32, PTO_F16});
  const int64_t rows = 1 + random.Below(4), outs = 1 + random.Below(4), width = 1 + random.Below(4);
  std::vector<int64_t> index = {outs};
  if (with_terms) index.push_back(1 + random.Below(3));
  return {{dtype, {rows, width}, {}, 0}, {PTO_I32, index, {}, 0}, {dtype, {outs, width}, {}, 0}};
}

bool SumRows(const Arguments& arguments, Memory& memory) {
  return WithType(arguments[0].dtype, [&](auto type) -> bool {
    using T = decltype(type);
    using E = Element<T>;
    if constexpr (std::is_integral_v<T>) {
      return false;
    } else {
      const std::vector<T> in = Load<T>(memory, arguments[0]);
      const std::vector<int32_t> index = Load<int32_t>(memory, arguments[1]);
      const int64_t width = arguments[0].shape[1], outs = arguments[2].shape[0];
      const int64_t terms = arguments[1].shape.size() > 1 ? arguments[1].shape[1] : 1;
      std::vector<T> result;
      for (int64_t i = 0; i < outs; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < terms; ++k) {
            const int32_t row = index[static_cast<size_t>(i * terms + k)];
            if (row < 0 || row >= arguments[0].shape[0]) return false;
            const T value = in[static_cast<size_t>(row * width + j)];
            // What take_rows moves is not calculated with.
            if (arguments[1].shape.size() == 1) {
              result.push_back(value);
            } else {
              sum += E::Load(value);
            }
          }
          if (arguments[1].shape.size() > 1) result.push_back(E::Store(sum));
        }
      }
      Store(result, arguments[2], memory);
      return true;
    }
  });
}

bool ScaleRows(const Arguments& arguments, Memory& memory) {
  return WithType(arguments[0].dtype, [&](auto type) -> bool {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      return false;
    } else {
      std::vector<T> values = Load<T>(memory, arguments[0]);
      const std::vector<float> weight = Load<float>(memory, arguments[1]);
      const auto width = static_cast<size_t>(arguments[0].shape[1]);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = Element<T>::Store(Element<T>::Load(values[i]) * weight[i / width]);
      }
      Store(values, arguments[2], memory);
      return true;
    }
  });
}

const std::map<std::string, Subject>& Subjects() {
  static const auto* const subjects = new std::map<std::string, Subject>{
      {"add", Elementwise(3, 2, {}, [](auto a, auto b, size_t) { return a + b; })},
      {"sub", Elementwise(3, 2, {}, [](auto a, auto b, size_t) { return a - b; })},
      {"mul", Elementwise(3, 2, {}, [](auto a, auto b, size_t) { return a * b; })},
      {"scale", Elementwise(2, 1, {2},
                            [](auto a, auto, size_t) { return static_cast<decltype(a)>(2) * a; })},
      {"axpy",
       Elementwise(2, 1, {2},
                   [](auto x, auto y, size_t) { return y + static_cast<decltype(x)>(2) * x; })},
      {"fill",
       Elementwise(1, 0, {3}, [](auto a, auto, size_t) { return static_cast<decltype(a)>(3); })},
      {"iota", Elementwise(1, 0, {5, 1},
                           [](auto a, auto, size_t i) { return static_cast<decltype(a)>(5 + i); })},
      {"copy", Mover(1)},
      {"copy_async", Mover(0)},
      {"matmul", {MatrixShapes, Matmul}},
      {"reduce_sum",
       {[](Random& random) {
          const uint32_t dtype = ArithmeticType(random);
          return Arguments{{dtype, AnyShape(random), {}, 0}, {dtype, {1}, {}, 0}};
        },
        ReduceSum}},
      {"compare",
       {[](Random& random) {
          const uint32_t dtype = ArithmeticType(random);
          const std::vector<int64_t> shape = AnyShape(random);
          return Arguments{{dtype, shape, {}, 0}, {dtype, shape, {}, 0}, {PTO_I64, {1}, {}, 0}};
        },
        Compare,
        {0}}},
      {"take_rows", {[](Random& random) { return RowShapes(random, false); }, SumRows, {}, true}},
      {"sum_rows", {[](Random& random) { return RowShapes(random, true); }, SumRows, {}, true}},
      {"scale_rows",
       {[](Random& random) {
          Arguments arguments = RowShapes(random, false);
          arguments[1] = {PTO_F32, {arguments[0].shape[0]}, {}, 0};
          arguments[2].shape = arguments[0].shape;
          return arguments;
        },
        ScaleRows,
        {},
        true}},
      // Its token is never touched, and its signal has the value that it waits for.
      {"wait_token",
       {[](Random& random) {
          return Arguments{{PTO_I32, {1}, {}, 0}, {PTO_F16, AnyShape(random), {}, 0}};
        },
        [](const Arguments&, Memory&) { return true; },
        {PTO_NE, 12345, 0}}},
  };
  return *subjects;
}

// Collectives have tests of their own below.
bool IsCollective(const pto_kernel_info& kernel) { return kernel.plan != nullptr; }

bool IsWritten(const pto_kernel_info& kernel, size_t argument) {
  return kernel.arguments[argument].direction == PTO_OUTPUT ||
         kernel.arguments[argument].direction == PTO_INOUT;
}

// Chooses strides and places, so that views often overlap, and often are the same.
void Place(Random& random, bool rows_in_one_piece, Arguments& arguments) {
  for (size_t a = 0; a < arguments.size(); ++a) {
    Argument& own = arguments[a];
    const size_t ndim = own.shape.size();
    own.strides.assign(ndim, 1);
    std::vector<size_t> order(ndim);
    for (size_t d = 0; d < ndim; ++d) order[d] = d;
    const int64_t kind = random.Below(8);
    if (kind < 2 && !rows_in_one_piece) std::swap(order[0], order[ndim - 1]);
    int64_t next = kind == 2 && !rows_in_one_piece ? 2 : 1;
    for (size_t d = ndim; d-- > 0;) {
      own.strides[order[d]] = next;
      next = next * own.shape[order[d]] + (kind == 3 ? random.Below(3) : 0);
    }
    // Elements that may overlap.
    if (kind == 4) {
      for (size_t d = 0; d < ndim - (rows_in_one_piece ? 1 : 0); ++d) {
        own.strides[d] = 1 + random.Below(8);
      }
    }
    own.offset = random.Below(3) == 0 ? random.Below(200) : random.Below(12);
    if (a == 0 || random.Below(3) != 0) continue;
    const Argument& other = arguments[static_cast<size_t>(random.Below(static_cast<int64_t>(a)))];
    own.offset = other.offset * static_cast<int64_t>(other.element() / own.element());
    if (other.shape == own.shape) own.strides = other.strides;
  }
}

// Small integers of the type of most arguments, and indices that name rows.
Memory FirstValues(Random& random, const std::string& kernel, const Arguments& arguments) {
  Memory memory(kMemoryBytes);
  const auto count = static_cast<int64_t>(kMemoryBytes / arguments[0].element());
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits =
        collectives::FromDouble(arguments[0].dtype, static_cast<double>(random.Below(8)));
    std::memcpy(memory.data() + static_cast<size_t>(i) * arguments[0].element(), &bits,
                arguments[0].element());
  }
  if (kernel == "take_rows" || kernel == "sum_rows") {
    std::vector<int32_t> index;
    for (size_t i = 0; i < arguments[1].Places().size(); ++i) {
      index.push_back(static_cast<int32_t>(random.Below(arguments[0].shape[0])));
    }
    Store(index, arguments[1], memory);
  }
  return memory;
}

// Whether the kernel's declaration forbids these arguments, found byte by byte.
bool MustBeRefused(const pto_kernel_info& kernel, const Arguments& arguments) {
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (!IsWritten(kernel, i)) continue;
    const pto_overlap_info allowed =
        kernel.overlaps == nullptr ? pto_overlap_info{0, 0} : kernel.overlaps[i];
    const std::set<size_t> own = arguments[i].Bytes();
    if ((allowed.any >> i & 1) == 0 && arguments[i].OverlapsItself()) return true;
    for (uint32_t j = 0; j < arguments.size(); ++j) {
      if (j == i || kernel.arguments[j].direction == PTO_NO_DEPENDENCY) continue;
      if ((allowed.any >> j & 1) != 0) continue;
      if ((allowed.same >> j & 1) != 0 && arguments[i].IsSameView(arguments[j])) continue;
      const std::set<size_t> other = arguments[j].Bytes();
      if (std::any_of(own.begin(), own.end(), [&](size_t b) { return other.count(b) > 0; })) {
        return true;
      }
    }
  }
  return false;
}

bool AnyOverlap(const pto_kernel_info& kernel, const Arguments& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (size_t j = 0; j < arguments.size(); ++j) {
      if (i == j || !IsWritten(kernel, i)) continue;
      const std::set<size_t> own = arguments[i].Bytes(), other = arguments[j].Bytes();
      if (std::any_of(own.begin(), own.end(), [&](size_t b) { return other.count(b) > 0; })) {
        return true;
      }
    }
  }
  return false;
}

class OverlapTest : public ::testing::Test {
 protected:
  explicit OverlapTest(uint32_t executors = 0) {
    target_.kernels = &BuiltinKernels();
    target_.chip_clusters.assign(kChips, 4);
    Engine::Options options;
    options.executors = executors;
    options.chips = engine::testing::MakeTestChips(target_.chip_clusters);
    for (const std::shared_ptr<Chip>& chip : options.chips) {
      memory_.push_back(chip->memory().AllocateHost(kMemoryBytes).value());
    }
    engine_ = std::make_unique<Engine>(std::move(options));
  }

  ScalarInput Scalar(const pto_scalar_info& info, double value) {
    ScalarInput scalar;
    scalar.kind = info.type == PTO_FLOAT ? ScalarInput::Kind::kFloat : ScalarInput::Kind::kInteger;
    scalar.f64 = value;
    scalar.i64 = static_cast<int64_t>(value);
    return scalar;
  }

  // The arguments of member m are views of the memory of chip m. With `own_slots`, each is in a
  // slot of its own, all of which the launch binds to that memory.
  absl::StatusOr<std::shared_ptr<const GraphImage>> Compile(const pto_kernel_info& kernel,
                                                            const std::vector<Arguments>& members,
                                                            const std::vector<double>& scalars,
                                                            uint32_t blocks, bool own_slots,
                                                            std::shared_ptr<RunSlots>* slots) {
    GraphBuilder builder(target_);
    TaskInput task;
    task.kernel = builder.AddKernel(kernel.name).value();
    *slots = std::make_shared<RunSlots>();
    std::vector<SlotMemory> places;
    std::vector<std::vector<uint32_t>> args(members.size());
    for (size_t m = 0; m < members.size(); ++m) {
      for (size_t a = 0; a < members[m].size(); ++a) {
        const Argument& argument = members[m][a];
        const bool is_new = own_slots || a == 0;
        const uint32_t slot = builder.AddSlot(absl::StrCat("s", m, "-", own_slots ? a : 0));
        const auto shift = own_slots ? argument.offset : 0;
        if (is_new) {
          const uint64_t offset = static_cast<uint64_t>(shift) * argument.element();
          (*slots)->push_back({memory_[m], offset});
          places.push_back({memory_[m].get(), offset});
        }
        const uint32_t layout =
            builder.AddLayout(argument.dtype, argument.shape, argument.strides).value();
        args[m].push_back(builder.AddTensor(slot, layout, argument.offset - shift).value());
      }
    }
    std::vector<TaskInput::Member> list;
    if (members.size() == 1) {
      task.args = args[0];
    } else {
      for (uint32_t m = 0; m < members.size(); ++m) list.push_back({m, args[m]});
      task.members = list;
    }
    std::vector<ScalarInput> inputs;
    for (size_t i = 0; i < scalars.size(); ++i) {
      inputs.push_back(Scalar(kernel.scalars[i], scalars[i]));
    }
    task.scalars = inputs;
    task.block_num = kernel.control != PTO_CONTROL_NONE ? 0 : blocks;
    absl::Status added = builder.AddTask(task).status();
    if (!added.ok()) return added;
    std::shared_ptr<const GraphImage> image = builder.Build().value();
    const SlotPlaces aliases = FindAliases(*image, places);
    if (aliases.empty()) return image;
    absl::Status right = CheckOverlaps(*image, aliases);
    if (!right.ok()) return right;
    return Realias(*image, aliases, 1000);
  }

  // Runs it on these values, which it changes.
  RunState Run(std::shared_ptr<const GraphImage> image, std::shared_ptr<RunSlots> slots,
               std::vector<Memory>& values) {
    for (size_t m = 0; m < values.size(); ++m) {
      std::memcpy(memory_[m]->data(), values[m].data(), kMemoryBytes);
    }
    auto observer = std::make_shared<engine::testing::TestObserver>();
    RunSpec spec;
    spec.image = std::move(image);
    spec.slots = std::move(slots);
    spec.observer = observer;
    const std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run);
    if (engine_->executors() > 0) {
      observer->WaitFinished();
    } else {
      while (engine_->RunOne()) {
      }
    }
    for (size_t m = 0; m < values.size(); ++m) {
      std::memcpy(values[m].data(), memory_[m]->data(), kMemoryBytes);
    }
    return run->state();
  }

  void RunCases(int rounds) {
    for (const auto& [name, subject] : Subjects()) {
      SCOPED_TRACE(name);
      const pto_kernel_info& kernel = BuiltinKernels().Find(name)->info();
      Random random(static_cast<uint32_t>(rounds) + static_cast<uint32_t>(name.size()));
      int refused = 0, in_place = 0, apart = 0;
      for (int round = 0; round < rounds; ++round) {
        Arguments arguments = subject.shapes(random);
        Place(random, subject.rows_in_one_piece, arguments);
        const auto blocks = static_cast<uint32_t>(1 + random.Below(7));
        const bool own_slots = random.Below(2) == 0;
        const bool must_be_refused = MustBeRefused(kernel, arguments);
        std::string text = absl::StrCat(blocks, " blocks", own_slots ? ", own slots" : "");
        for (const Argument& argument : arguments) absl::StrAppend(&text, "; ", argument.Text());
        std::shared_ptr<RunSlots> slots;
        const absl::StatusOr<std::shared_ptr<const GraphImage>> image =
            Compile(kernel, {arguments}, subject.scalars, blocks, own_slots, &slots);
        if (!image.ok()) {
          ASSERT_EQ(ReasonOf(image.status()), "ARGUMENTS_OVERLAP") << image.status() << text;
          ASSERT_TRUE(must_be_refused) << image.status() << text;
          ++refused;
          continue;
        }
        std::vector<Memory> values = {FirstValues(random, name, arguments)};
        Memory expected = values[0];
        const bool possible = subject.reference(arguments, expected);
        const RunState state = Run(*image, slots, values);
        if (!possible) continue;
        ASSERT_EQ(state, RunState::kSucceeded) << text;
        ASSERT_TRUE(values[0] == expected) << "wrong result: " << text;
        ASSERT_FALSE(must_be_refused) << "right by chance: " << text;
        ++(AnyOverlap(kernel, arguments) ? in_place : apart);
      }
      const bool has_pairs = !FindArgumentPairs(kernel).empty();
      EXPECT_GT(apart, rounds / 20);
      if (has_pairs) {
        EXPECT_GT(refused, rounds / 20);
      }
      bool allows = false;
      for (uint32_t i = 0; kernel.overlaps != nullptr && i < kernel.argument_count; ++i) {
        allows |= kernel.overlaps[i].same != 0 || (kernel.overlaps[i].any & ~(1u << i)) != 0;
      }
      if (allows) {
        EXPECT_GT(in_place, rounds / 50);
      }
    }
  }

  GraphTarget target_;
  std::vector<std::shared_ptr<HostAllocation>> memory_;
  std::unique_ptr<Engine> engine_;
};

class OverlapThreadsTest : public OverlapTest {
 protected:
  OverlapThreadsTest() : OverlapTest(2) {}
};

// Whoever adds a kernel that writes adds it above, or is a collective.
TEST_F(OverlapTest, AllKernelsThatWriteAreCovered) {
  std::set<std::string> covered, writing;
  for (const auto& [name, subject] : Subjects()) covered.insert(name);
  for (const auto& listed : BuiltinKernels().List()) {
    const pto_kernel_info* const kernel = &listed->info();
    for (uint32_t i = 0; i < kernel->argument_count; ++i) {
      if (IsWritten(*kernel, i) && !IsCollective(*kernel)) writing.insert(kernel->name);
    }
  }
  EXPECT_EQ(covered, writing);
}

TEST_F(OverlapTest, RefusedOrAsIfAllWasReadFirst) { RunCases(600); }

TEST_F(OverlapThreadsTest, RefusedOrAsIfAllWasReadFirst) { RunCases(100); }

// Ranks with in and out somewhere in one piece of memory. The plan of a collective refuses what it
// cannot do, at the latest when the task starts.
TEST_F(OverlapTest, CollectivesRefuseOrDoAsIfAllWasReadFirst) {
  constexpr uint32_t kDtype = PTO_I32;
  std::set<std::string> covered;
  for (const auto& listed : BuiltinKernels().List()) {
    const pto_kernel_info* const kernel = &listed->info();
    if (!IsCollective(*kernel) || kernel->argument_count < 2) continue;
    const std::string name = kernel->name;
    SCOPED_TRACE(name);
    const bool variable = name == "all_to_all_v";
    const uint32_t out_argument = variable ? 2 : 1;
    Random random(static_cast<uint32_t>(name.size()));
    int refused = 0, in_place = 0;
    for (int round = 0; round < 300; ++round) {
      const int64_t part = 1 + random.Below(4);
      const bool gathers = name == "all_gather" || name == "gather";
      const bool scatters = name == "scatter" || name == "reduce_scatter";
      const bool parts = name == "all_to_all" || variable;
      const int64_t in_count = scatters || parts ? part * kChips : part;
      const int64_t out_count = gathers || parts ? part * kChips : part;
      std::vector<double> scalars;
      for (uint32_t i = 0; i < kernel->scalar_count; ++i) {
        const std::string scalar = kernel->scalars[i].name;
        if (scalar == "op") scalars.push_back(1);
        if (scalar == "algorithm") scalars.push_back(static_cast<double>(random.Below(5)));
        if (scalar == "deterministic") scalars.push_back(static_cast<double>(random.Below(2)));
        if (scalar == "root" || scalar == "from" || scalar == "to") {
          scalars.push_back(static_cast<double>(random.Below(kChips)));
        }
      }
      ASSERT_EQ(scalars.size(), kernel->scalar_count);
      std::vector<Arguments> members(kChips);
      std::vector<Memory> values(kChips);
      std::vector<collectives::PlainRank> ranks(kChips);
      bool overlap = false;
      for (uint32_t rank = 0; rank < kChips; ++rank) {
        Argument in = {kDtype, {in_count}, {1}, 16 + random.Below(3)};
        Argument out = {kDtype, {out_count}, {1}, 100};
        // Where it may be in place, or beside that.
        if (random.Below(2) == 0) {
          const int64_t before = int64_t{rank} * part;
          const int64_t shift = gathers ? -before : scatters ? before : 0;
          out.offset = in.offset + shift + (random.Below(4) == 0 ? 1 : 0);
        }
        members[rank] = {in, out};
        if (variable) {
          const Argument counts = {PTO_I64, {kChips}, {1}, 200};
          Argument others = counts;
          others.offset = 300;
          if (random.Below(10) == 0) out.offset = 400 + random.Below(4);
          members[rank] = {in, counts, out, others};
        }
        values[rank].resize(kMemoryBytes);
        std::vector<int32_t> all(kMemoryBytes / 4);
        for (int32_t& value : all) value = static_cast<int32_t>(random.Below(1000));
        std::memcpy(values[rank].data(), all.data(), kMemoryBytes);
        if (variable) {
          const std::vector<int64_t> equal(kChips, part);
          Store(equal, members[rank][1], values[rank]);
          Store(equal, members[rank][3], values[rank]);
          ranks[rank].send_counts = ranks[rank].recv_counts = equal;
        }
        const auto load = [&](const Argument& argument) {
          return collectives::LoadElements(kDtype, values[rank].data() + argument.Places()[0],
                                           argument.shape[0]);
        };
        ranks[rank].in = load(in);
        ranks[rank].out = load(members[rank][out_argument]);
        overlap |= AnyOverlap(*kernel, members[rank]);
      }
      const auto blocks = static_cast<uint32_t>(1 + random.Below(3));
      std::shared_ptr<RunSlots> slots;
      const absl::StatusOr<std::shared_ptr<const GraphImage>> image =
          Compile(*kernel, members, scalars, blocks, random.Below(2) == 0, &slots);
      if (!image.ok()) {
        ASSERT_TRUE(overlap) << image.status();
        ++refused;
        continue;
      }
      std::vector<int64_t> numbers(scalars.begin(), scalars.end());
      collectives::PlainCollective(name, kDtype, numbers, &ranks);
      std::vector<Memory> expected = values;
      for (uint32_t rank = 0; rank < kChips; ++rank) {
        collectives::StoreElements(kDtype, ranks[rank].out,
                                   expected[rank].data() + members[rank][out_argument].Places()[0]);
      }
      if (Run(*image, slots, values) != RunState::kSucceeded) {
        ASSERT_TRUE(overlap);
        ++refused;
        continue;
      }
      for (uint32_t rank = 0; rank < kChips; ++rank) {
        ASSERT_TRUE(values[rank] == expected[rank]) << "rank " << rank << ", round " << round;
      }
      in_place += overlap ? 1 : 0;
    }
    EXPECT_GT(refused, 5);
    EXPECT_GT(in_place, 30);
    covered.insert(name);
  }
  EXPECT_EQ(covered.size(), 10u);
}

}  // namespace
}  // namespace pto::engine
