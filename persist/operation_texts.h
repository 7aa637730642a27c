// OperationTexts: the operations of a recording, as texts, by their numbers.
//
// An operation may have no text: it then costs nothing. A model that makes the texts only when somebody asks for them
//   (Recording::operations()) counts its operations here, since a million stores must not make a million strings.
// Threads: not synchronised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crashcut::persist {

class OperationTexts {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string_view;

    Iterator() = default;
    Iterator(const OperationTexts& all, std::size_t number) : all_(&all), number_(number) {}
    std::string_view operator*() const { return (*all_)[number_]; }
    Iterator& operator++() { return ++number_, *this; }
    Iterator operator++(int) { return {*all_, number_++}; }
    bool operator==(const Iterator& other) const { return number_ == other.number_; }

   private:
    const OperationTexts* all_ = nullptr;
    std::size_t number_ = 0;
  };

  std::size_t size() const { return size_; }
  // Empty if it has none.
  std::string_view operator[](std::size_t number) const {
    if (numbers_.size() == size_) return texts_[number];
    const auto at = std::lower_bound(numbers_.begin(), numbers_.end(), number);
    if (at == numbers_.end() || *at != number) return {};
    return texts_[static_cast<std::size_t>(at - numbers_.begin())];
  }
  std::string_view back() const { return (*this)[size_ - 1]; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }
  bool operator==(const OperationTexts& other) const = default;

  void push_back(std::string text) {
    texts_.push_back(std::move(text));
    numbers_.push_back(static_cast<std::uint32_t>(size_++));
  }
  // An operation without a text.
  void add_untold() { ++size_; }
  void set_last(std::string text) {
    pop_back();
    push_back(std::move(text));
  }
  void pop_back() {
    --size_;
    if (numbers_.empty() || numbers_.back() != size_) return;
    texts_.pop_back();
    numbers_.pop_back();
  }

 private:
  std::vector<std::string> texts_;
  std::vector<std::uint32_t> numbers_;  // of the operations that have these texts, ascending
  std::size_t size_ = 0;
};

}  // namespace crashcut::persist
