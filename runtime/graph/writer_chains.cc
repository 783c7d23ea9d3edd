#include "runtime/graph/writer_chains.h"

namespace pto::engine {

void WriterChains::Begin() {
  for (const Newest& newest : newest_) {
    slots_[newest.chain].newest = kNone;
    slots_[newest.chain].waits = false;
  }
  newest_.clear();
}

void WriterChains::Meet(uint32_t region, uint32_t writer) {
  const Place* const place = Find(region, writer);
  if (place == nullptr) return;
  Chain& chain = slots_[place->chain];
  if (chain.newest == kNone) {
    chain.newest = static_cast<uint32_t>(newest_.size());
    newest_.push_back({region, place->chain, place->position});
  } else if (newest_[chain.newest].position < place->position) {
    newest_[chain.newest] = {region, place->chain, place->position};
  }
}

bool WriterChains::IsImplied(uint32_t region, uint32_t writer) const {
  const Place* const place = Find(region, writer);
  if (place == nullptr) return false;
  const Chain& chain = slots_[place->chain];
  return chain.waits && place->position < newest_[chain.newest].position;
}

void WriterChains::Write(uint32_t region, uint32_t writer) {
  Place place;
  place.writer = writer;
  place.chain = kNone;
  for (const Newest& newest : newest_) {
    const Chain& chain = slots_[newest.chain];
    if (!chain.waits || newest.position + 1 != chain.length) continue;
    place.chain = newest.chain;
    break;
  }
  if (place.chain == kNone) {
    if (slots_.size() > kMostChains + 2 * places_.size()) {
      // Most of these chains are obsolete. A forgotten region is just compared again.
      places_.clear();
      slots_.clear();
      newest_.clear();
    }
    place.chain = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  place.position = slots_[place.chain].length++;
  if (region >= places_.size()) places_.resize(size_t{region} + 1);
  places_[region] = place;
}

size_t WriterChains::bytes() const {
  return places_.capacity() * sizeof(Place) + slots_.capacity() * sizeof(Chain) +
         newest_.capacity() * sizeof(Newest);
}

}  // namespace pto::engine
