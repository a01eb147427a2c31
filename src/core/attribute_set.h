// The attributes of a series or an entity: keys and values, sorted by key.
//
//   AttributeSet set({{"gpu.index", int64_t{3}}, {"gpu.model", "H100"}});
//   for (auto [key, value] : set) …
//
// Immutable and counted: a copy has 8 bytes and shares the text. One allocation per set. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/ref.h"

namespace gpulens {

class AttributeSet {
 public:
  using Value = std::variant<std::string_view, int64_t, double, bool>;
  struct Attribute {
    std::string_view key;
    Value value;
  };

  // Walks the set in key order. The texts live as long as any copy of the set.
  class Iterator {
   public:
    using value_type = Attribute;
    using difference_type = std::ptrdiff_t;
    Iterator() noexcept = default;
    explicit Iterator(const char* at) noexcept : at_(at) {}
    Attribute operator*() const noexcept;
    Iterator& operator++() noexcept;
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(Iterator, Iterator) noexcept = default;

   private:
    const char* at_ = nullptr;
  };

  AttributeSet() noexcept = default;
  // Copies the texts, made valid by ValidUtf8 so that no output has to. The last of equal keys wins. Keys up
  // to 64 KiB, values up to 4 GiB.
  AttributeSet(std::initializer_list<Attribute> attributes);
  explicit AttributeSet(std::span<const Attribute> attributes);

  // Both sets; where both have a key, the value of this one.
  AttributeSet OverlaidOn(const AttributeSet& weaker) const;

  Iterator begin() const noexcept;
  Iterator end() const noexcept;
  size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  // The value of a key as text ("3", "true"); empty without one.
  std::string Text(std::string_view key) const;
  // The value of a key, or `fallback`. A text lives as long as the set.
  Value Find(std::string_view key, Value fallback) const noexcept;
  bool Has(std::string_view key) const noexcept;
  // Differs between runs of the program.
  uint64_t hash() const noexcept;

  friend bool operator==(const AttributeSet& a, const AttributeSet& b) noexcept;

 private:
  // A counted block: this header, then the bytes of the attributes.
  struct Rep : RefCounted<Rep> {
    uint32_t bytes = 0;
    uint32_t count = 0;
    uint64_t hash = 0;

    const char* data() const noexcept { return reinterpret_cast<const char*>(this + 1); }
    char* data() noexcept { return reinterpret_cast<char*>(this + 1); }
    // The block is larger than the struct, so a sized delete would be wrong.
    static void operator delete(void* block) { ::operator delete(block); }
    static Ref<const Rep> Make(std::span<const Attribute> sorted);
  };
  Ref<const Rep> rep_;
};

// Appends a value as text: integers in decimal, doubles shortest, bools "true"/"false".
void AppendValue(std::string& out, const AttributeSet::Value& value);

}  // namespace gpulens
