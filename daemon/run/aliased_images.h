#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/memory_account.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

// A graph's image for launches whose slots overlap like `places`.
struct AliasedImage {
  engine::SlotPlaces places;
  std::shared_ptr<const engine::GraphImage> image;
  std::shared_ptr<const HostCharge> charge = nullptr;  // for the image
};

// Those of one graph that were used last. Not thread-safe.
class AliasedImages {
 public:
  static constexpr size_t kMax = 4;

  // nullptr when there is none.
  std::shared_ptr<const engine::GraphImage> Find(const engine::SlotPlaces& places) {
    const auto it = std::find_if(images_.begin(), images_.end(),
                                 [&](const AliasedImage& known) { return known.places == places; });
    if (it == images_.end()) return nullptr;
    std::rotate(images_.begin(), it, it + 1);
    return images_.front().image;
  }

  // It must not be there yet.
  void Add(AliasedImage image) {
    if (images_.size() == kMax) images_.pop_back();
    images_.insert(images_.begin(), std::move(image));
  }

  size_t size() const { return images_.size(); }

 private:
  std::vector<AliasedImage> images_;  // the last one used comes first
};

}  // namespace pto::daemon
