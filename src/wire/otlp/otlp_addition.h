// Attributes ready to be put into messages that others made, and who says which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/attribute_set.h"
#include "wire/otlp/otlp_identity.h"

namespace gpulens {

// Attributes, encoded once. Immutable after it is filled; thread-safe to read.
class OtlpAddition {
 public:
  OtlpAddition() = default;
  explicit OtlpAddition(const AttributeSet& attributes, bool replaces = false) { Add(attributes, replaces); }

  // Of equal keys the first stays. `replaces`: what the sender said under such a key is left out; else the
  // sender's word stays and this attribute is left out.
  void Add(const AttributeSet& attributes, bool replaces = false);

  size_t size() const noexcept { return ends_.size(); }
  bool empty() const noexcept { return ends_.empty(); }
  std::string_view key(size_t i) const noexcept { return Piece(i).substr(0, ends_[i].key); }
  // Its length and the KeyValue: what stands behind the tag.
  std::string_view field(size_t i) const noexcept { return Piece(i).substr(ends_[i].key); }
  bool replaces(size_t i) const noexcept { return ends_[i].replaces; }

 private:
  struct End {
    uint32_t key;  // its length
    uint32_t end;
    bool replaces;
  };
  std::string_view Piece(size_t i) const noexcept {
    const size_t begin = i == 0 ? 0 : ends_[i - 1].end;
    return std::string_view(bytes_).substr(begin, ends_[i].end - begin);
  }

  std::string bytes_;  // key and field, one after the other
  std::vector<End> ends_;
};

// Knows what to say of what was received. What it returns (null: nothing) lives until the batch is done with
// the request. Called by one thread.
class OtlpEnricher {
 public:
  virtual ~OtlpEnricher() = default;
  // For the Resource itself.
  virtual const OtlpAddition* OfResource(const OtlpIdentity& resource) = 0;
  // For an item that says what it is of, below that Resource.
  virtual const OtlpAddition* OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) = 0;
};

}  // namespace gpulens
