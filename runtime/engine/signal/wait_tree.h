#pragma once

#include <compare>
#include <cstdint>

namespace pto::engine {

// Nodes ordered by key, in an intrusive treap: it allocates nothing, and a single node costs almost
// nothing. Removes a range of keys in O(log n + nodes removed). Does not own the nodes. Not
// thread-safe: the owner locks.
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

  // The only node; nullptr if there is none or more than one.
  Node* only() const {
    return root_ != nullptr && root_->left_ == nullptr && root_->right_ == nullptr ? root_
                                                                                   : nullptr;
  }

  // Keys must be unique.
  void Insert(Node& node, const Key& key) {
    node.key_ = key;
    node.priority_ = PriorityOf(node, key.order);
    if (root_ == nullptr) {
      node.left_ = node.right_ = nullptr;
      root_ = &node;
    } else {
      InsertBelow(node);
    }
  }
  void Remove(Node& node) {
    ++steps_;
    if (only() == &node) {
      root_ = nullptr;
    } else {
      RemoveBelow(node);
    }
  }
  // The first node whose key is not less; nullptr: none.
  Node* LowerBound(const Key& key);

  // Removes the nodes in [begin, end) and calls `use` for each, in order. `use` may destroy the
  // node.
  template <typename Use>
  void Extract(const Key& begin, const Key& end, Use use) {
    for (Node* node = Extract(begin, end); node != nullptr;) {
      Node* const next = node->right_;
      use(*node);
      node = next;
    }
  }

  // The number of nodes visited so far. Tests use it to measure work.
  uint64_t steps() const { return steps_; }

 private:
  // A treap remains balanced if nobody can choose priorities. Clients choose which waits end, but
  // know neither the address of a node nor the number of waits so far.
  static uint64_t PriorityOf(const Node& node, uint64_t order) {
    uint64_t mixed = (reinterpret_cast<uintptr_t>(&node) ^ order) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 32)) * 0xbf58476d1ce4e5b9;
    return mixed ^ (mixed >> 32);
  }

  void InsertBelow(Node& node);
  void RemoveBelow(Node& node);
  // Returns the removed nodes as a list linked by `right_`.
  Node* Extract(const Key& begin, const Key& end);
  // Nodes with keys less than `key` go to `less`.
  void Split(Node* tree, const Key& key, Node** less, Node** rest);
  // All keys of `a` are less than those of `b`.
  void Merge(Node* a, Node* b, Node** link);

  Node* root_ = nullptr;
  uint64_t steps_ = 0;
};

}  // namespace pto::engine
