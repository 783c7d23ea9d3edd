#include "runtime/engine/signal/wait_tree.h"

namespace pto::engine {

void WaitTree::InsertBelow(Node& node) {
  Node** link = &root_;
  while (*link != nullptr && (*link)->priority_ >= node.priority_) {
    ++steps_;
    link = node.key_ < (*link)->key_ ? &(*link)->left_ : &(*link)->right_;
  }
  Node* const below = *link;
  *link = &node;
  Split(below, node.key_, &node.left_, &node.right_);
}

void WaitTree::RemoveBelow(Node& node) {
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
  // Rotations turn the tree into a list.
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

}  // namespace pto::engine
