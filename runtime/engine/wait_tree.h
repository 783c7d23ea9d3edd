#pragma once

#include <compare>
#include <cstdint>

namespace pto {

// Nodes in the order of their keys, in a treap that runs through the nodes themselves: nothing is
// allocated, and one node alone costs next to nothing. Takes out a range of keys in
// O(log n + nodes taken). Owns no node. Not thread-safe: its owner locks.
class WaitTree {
 public:
  struct Key {
    uint64_t word = 0;
    int64_t threshold = 0;
    uint64_t order = 0;

    auto operator<=>(const Key&) const = default;
  };

  class Node {
   public:
    const Key& key() const { return key_; }

   private:
    friend class WaitTree;
    Key key_;
    uint64_t priority_ = 0;
    Node* left_ = nullptr;
    Node* right_ = nullptr;
  };

  // No two nodes may have the same key at the same time.
  void Insert(Node& node, const Key& key);
  void Remove(Node& node);
  // The first node whose key is not less; nullptr when there is none.
  Node* LowerBound(const Key& key);

  // Takes out the nodes from `begin` to `end` (not included), and calls `use` for each in order.
  // `use` may end the node's life.
  template <typename Use>
  void Extract(const Key& begin, const Key& end, Use use) {
    for (Node* node = Extract(begin, end); node != nullptr;) {
      Node* const next = node->right_;
      use(*node);
      node = next;
    }
  }

  // Nodes that were looked at so far: the work done, which tests count.
  uint64_t steps() const { return steps_; }

 private:
  // Returns a list through `right_`.
  Node* Extract(const Key& begin, const Key& end);
  // Nodes with keys less than `key` go to `less`.
  void Split(Node* tree, const Key& key, Node** less, Node** rest);
  // All keys of `a` are less than those of `b`.
  void Merge(Node* a, Node* b, Node** link);

  Node* root_ = nullptr;
  uint64_t steps_ = 0;
};

}  // namespace pto
