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

  // The only node; nullptr when there is none, or more than one.
  Node* only() const {
    return root_ != nullptr && root_->left_ == nullptr && root_->right_ == nullptr ? root_
                                                                                   : nullptr;
  }

  // No two nodes may have the same key at the same time.
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
  // A treap stays flat as long as nobody can choose priorities. Clients choose which waits end, but
  // know neither the address of a node nor how many waits there have been.
  static uint64_t PriorityOf(const Node& node, uint64_t order) {
    uint64_t mixed = (reinterpret_cast<uintptr_t>(&node) ^ order) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 32)) * 0xbf58476d1ce4e5b9;
    return mixed ^ (mixed >> 32);
  }

  void InsertBelow(Node& node);
  void RemoveBelow(Node& node);
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
