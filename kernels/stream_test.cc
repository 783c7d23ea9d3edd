#include "kernels/stream.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/long_copy.h"

namespace pto::kernels {
namespace {

constexpr int64_t kLong = kStreamBytes / sizeof(float);

pto_tensor View(const void* data, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  pto_tensor tensor = {};
  tensor.data = const_cast<void*>(data);
  tensor.dtype = PTO_F32;
  tensor.ndim = static_cast<uint32_t>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    tensor.shape[d] = shape[d];
    tensor.strides[d] = strides[d];
  }
  return tensor;
}

pto_tensor Dense(const void* data, int64_t count) { return View(data, {count}, {1}); }

// Addresses that are never dereferenced.
const float* Place(int64_t element) {
  return reinterpret_cast<const float*>(uintptr_t{1} << 40) + element;
}

TEST(IsStreamed, WhatIsLong) {
  EXPECT_TRUE(IsStreamed(Dense(Place(0), kLong), {}));
  EXPECT_FALSE(IsStreamed(Dense(Place(0), kLong - 1), {}));
  EXPECT_FALSE(IsStreamed(View(Place(0), {kLong, 0}, {1, 1}), {}));
}

TEST(IsStreamed, NotWhatLiesAcrossElements) {
  const auto* odd = reinterpret_cast<const char*>(Place(0)) + 1;
  EXPECT_FALSE(IsStreamed(Dense(odd, kLong), {}));
}

TEST(IsStreamed, NotInPlace) {
  const pto_tensor out = Dense(Place(0), kLong);
  const pto_tensor same = Dense(Place(0), kLong);
  const pto_tensor behind = Dense(Place(kLong), kLong);
  const pto_tensor last = Dense(Place(kLong - 1), kLong);
  const pto_tensor before = Dense(Place(-kLong), kLong);
  const pto_tensor first = Dense(Place(1 - kLong), kLong);
  EXPECT_FALSE(IsStreamed(out, {&same}));
  EXPECT_TRUE(IsStreamed(out, {&behind, &before}));
  EXPECT_FALSE(IsStreamed(out, {&behind, &last}));
  EXPECT_FALSE(IsStreamed(out, {&first, &before}));
}

TEST(IsStreamed, ViewsReachAsFarAsTheirStrides) {
  const pto_tensor out = Dense(Place(0), kLong);
  // Every second element, and the reverse.
  const pto_tensor wide = View(Place(-2 * kLong + 1), {kLong}, {2});
  const pto_tensor wider = View(Place(-2 * kLong + 2), {kLong}, {2});
  const pto_tensor backwards = View(Place(2 * kLong - 1), {kLong}, {-1});
  const pto_tensor onto = View(Place(2 * kLong - 2), {kLong}, {-1});
  // One row, repeated.
  const pto_tensor row = View(Place(-1000), {kLong / 1000, 1000}, {0, 1});
  EXPECT_TRUE(IsStreamed(out, {&wide, &backwards, &row}));
  EXPECT_FALSE(IsStreamed(out, {&wider}));
  EXPECT_FALSE(IsStreamed(out, {&onto}));
}

// Checks that StreamRun stores exactly the elements of its run, for any start and length.
template <typename T>
void ExpectStored() {
  for (const int64_t count : {0, 1, 15, 511, 512, 1023, 1024, 1025, 2048, 2300, 5000}) {
    for (int64_t shift = 1; shift < 70; ++shift) {
      std::vector<T> memory(static_cast<size_t>(count + shift + 1), T{7});
      T* const out = memory.data() + shift;
      StreamRun(out, count, [](int64_t first, int64_t n, T* to) {
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(3 * (first + i) + 1);
      });
      ASSERT_EQ(out[-1], T{7});
      ASSERT_EQ(out[count], T{7});
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(3 * i + 1));
    }
  }
}

TEST(StreamRun, StoresEveryElementOfTheRun) {
  ExpectStored<uint16_t>();
  ExpectStored<float>();
  ExpectStored<int64_t>();
}

}  // namespace
}  // namespace pto::kernels
