// Received requests of one signal, written again: without what a scan left out, with attributes put inside
// the Resource and the items they belong to, small ones merged, large ones split. Pure.
//
// Unchanged messages are copied byte for byte, unknown fields included. Messages that are split or extended
// may change the order of fields, never their content; a field next to the items is in each part. There is
// always one Resource: additions go into the one that is there, since some decoders replace rather than merge
// a second one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/attribute_set.h"
#include "wire/otlp/otlp_scan.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens {

// Attributes, encoded once. Immutable after it is filled; thread-safe to read.
class OtlpAddition {
 public:
  OtlpAddition() = default;
  explicit OtlpAddition(const AttributeSet& attributes, bool replaces = false) { Add(attributes, replaces); }

  // Of equal keys the first stays. `replaces`: the sender's attribute of such a key is left out; else
  // it stays and this attribute is left out.
  void Add(const AttributeSet& attributes, bool replaces = false);

  size_t size() const noexcept { return ends_.size(); }
  bool empty() const noexcept { return ends_.empty(); }
  std::string_view key(size_t i) const noexcept { return Piece(i).substr(0, ends_[i].key); }
  // Its length and the KeyValue, which follow the tag.
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

// Adds attributes to received data. What it returns (null: nothing) lives until the batch is done with
// the request. Called by one thread.
class OtlpEnricher {
 public:
  virtual ~OtlpEnricher() = default;
  // Returns the additions for the Resource itself.
  virtual const OtlpAddition* OfResource(const OtlpIdentity& resource) = 0;
  // Returns the additions for an item with an identity of its own, below that Resource.
  virtual const OtlpAddition* OfItem(const OtlpIdentity& resource, const OtlpIdentity& item) = 0;
};

// Not thread-safe. Holds one request that is being filled.
class OtlpBatch {
 public:
  struct Limits {
    uint32_t items = 1000;           // of one request that is emitted
    size_t bytes = size_t{3} << 20;  // the same; a single item may be larger
  };
  // Takes a whole request.
  using Emit = std::function<void(std::string request, uint32_t items)>;

  OtlpBatch(OtlpSignal signal, Limits limits, Emit emit);

  // Appends the items that remain of the scanned request, whose bytes must still exist; emits each time that
  // a request is full. `enricher` may be null.
  void Add(const OtlpScan& scan, OtlpEnricher* enricher);
  // Emits what is held, if anything.
  void Flush();

  uint32_t items() const noexcept { return items_; }
  bool empty() const noexcept { return out_.empty(); }

 private:
  enum : size_t { kResource, kScope, kMetric, kData, kLevels };
  // Whether a field of a message of this level leads to items.
  static bool IsWalked(size_t level, uint32_t number) noexcept {
    switch (level) {
      case kResource: return number == otlp::kScopeList;
      case kScope: return number == otlp::kItems;
      case kMetric: return otlp::IsData(number);
      default: return number == otlp::kPoints;
    }
  }
  // A message on the way down to the items. `length_at` is 0 while it is not written in this request.
  struct Step {
    uint32_t number = 0;
    std::string_view bytes;
    size_t length_at = 0;
  };

  void AddResource(const ProtoField& list, const OtlpScan::Resource& scanned);
  void ReadResource(std::string_view list);
  void CopyWhole(const ProtoField& list);
  template <class Walk>
  void WalkLevel(size_t level, const ProtoField& message, Walk&& walk);
  void WalkScopes(const ProtoField& list);
  void WalkMetric(const ProtoField& metric);
  void WriteItem(size_t below, OtlpMessage shape, const ProtoField& item);
  void Open(size_t level);
  void CloseFrom(size_t level);
  void WriteHead(size_t level);
  void Cut();
  bool TakeRemoved(const ProtoField& message);
  bool MustCut() const noexcept { return items_ >= limits_.items || out_.size() >= limits_.bytes; }

  // Of `addition`, what goes into a message with the attributes keys_: into extra_ and replaced_.
  void Choose(const OtlpAddition* addition);
  void AppendSpliced(uint32_t number, std::string_view message, uint32_t attributes);
  size_t SplicedSize(std::string_view message, uint32_t attributes);

  const OtlpSignal signal_;
  const Limits limits_;
  const Emit emit_;
  std::string out_;
  uint32_t items_ = 0;

  // Of the request that is being added.
  const OtlpScan* scan_ = nullptr;
  OtlpEnricher* enricher_ = nullptr;
  size_t next_removed_ = 0;
  bool own_ = false;
  std::array<Step, kLevels> path_;
  std::string_view resource_;  // the content of the last Resource
  const char* resource_field_ = nullptr;
  OtlpIdentity identity_;     // of all Resources
  std::string new_resource_;  // the Resource as it is sent; empty: as it is
  // Scratch.
  std::vector<std::string_view> keys_, extra_, replaced_;
  size_t extra_bytes_ = 0;
  std::string kept_;
};

}  // namespace gpulens
