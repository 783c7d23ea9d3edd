#include "runtime/engine/wait_tree.h"

namespace pto {
namespace {

// A treap stays flat as long as nobody can choose priorities. Clients choose which waits end, but
// know neither the address of a node nor how many waits the table has seen.
uint64_t PriorityOf(const WaitTree::Node& node, uint64_t order) {
  uint64_t mixed = reinterpret_cast<uintptr_t>(&node) + order * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

}  // namespace

void WaitTree::Insert(Node& node, const Key& key) {
  node.key_ = key;
  node.priority_ = PriorityOf(node, key.order);
  Node** link = &root_;
  while (*link != nullptr && (*link)->priority_ >= node.priority_) {
    ++steps_;
    link = key < (*link)->key_ ? &(*link)->left_ : &(*link)->right_;
  }
  Node* const below = *link;
  *link = &node;
  Split(below, key, &node.left_, &node.right_);
}

void WaitTree::Remove(Node& node) {
  Node** link = &root_;
  while (*link != &node) {
    ++steps_;
    link = node.key_ < (*link)->key_ ? &(*link)->left_ : &(*link)->right_;
  }
  Merge(node.left_, node.right_, link);
}

WaitTree::Node* WaitTree::LowerBound(const Key& key) {
  Node* found = nullptr;
  for (Node* node = root_; node != nullptr;) {
    ++steps_;
    if (node->key_ < key) {
      node = node->right_;
    } else {
      found = node;
      node = node->left_;
    }
  }
  return found;
}

WaitTree::Node* WaitTree::Extract(const Key& begin, const Key& end) {
  Node* before = nullptr;
  Node* taken = nullptr;
  Node* after = nullptr;
  Split(root_, begin, &before, &taken);
  Split(taken, end, &taken, &after);
  Merge(before, after, &root_);
  // Rotations make a list of the tree.
  Node* first = nullptr;
  Node** link = &first;
  while (taken != nullptr) {
    ++steps_;
    if (Node* const left = taken->left_) {
      taken->left_ = left->right_;
      left->right_ = taken;
      taken = left;
    } else {
      *link = taken;
      link = &taken->right_;
      taken = taken->right_;
    }
  }
  return first;
}

void WaitTree::Split(Node* tree, const Key& key, Node** less, Node** rest) {
  while (tree != nullptr) {
    ++steps_;
    if (tree->key_ < key) {
      *less = tree;
      less = &tree->right_;
      tree = tree->right_;
    } else {
      *rest = tree;
      rest = &tree->left_;
      tree = tree->left_;
    }
  }
  *less = *rest = nullptr;
}

void WaitTree::Merge(Node* a, Node* b, Node** link) {
  while (a != nullptr && b != nullptr) {
    ++steps_;
    if (a->priority_ >= b->priority_) {
      *link = a;
      link = &a->right_;
      a = a->right_;
    } else {
      *link = b;
      link = &b->left_;
      b = b->left_;
    }
  }
  *link = a != nullptr ? a : b;
}

}  // namespace pto
