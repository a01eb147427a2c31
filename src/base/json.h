// Small JSON documents from outside, read by JSON pointers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/json_scanner.h"

namespace gpulens {

// Immutable; thread-safe.
class JsonDocument {
 public:
  static constexpr size_t kMaxBytes = 4u << 20;
  static constexpr size_t kMaxDepth = 32;

  // kDataLoss: invalid JSON, with the place. kExhausted: larger or deeper than the limits.
  static Result<JsonDocument> Parse(std::string_view text);

  // `pointer` is a JSON pointer (RFC 6901): "/data/0/id"; "" is the whole. Each returns nothing when there is
  // no value of that type. A number is the double that is nearest to it.
  std::optional<std::string> Text(std::string_view pointer) const;
  std::optional<double> Number(std::string_view pointer) const;
  std::optional<uint64_t> Whole(std::string_view pointer) const { return Integral<uint64_t>(pointer); }
  std::optional<int64_t> Integer(std::string_view pointer) const { return Integral<int64_t>(pointer); }
  std::optional<bool> Truth(std::string_view pointer) const;
  bool IsNull(std::string_view pointer) const;
  // Keys of the object, in its order. Of a key that comes twice the last value counts.
  std::optional<std::vector<std::string>> Names(std::string_view pointer) const;
  // Number of elements of the array; 0 when there is none.
  size_t Size(std::string_view pointer) const;

 private:
  struct Node {
    JsonScanner::Kind kind = JsonScanner::kNothing;
    uint32_t key_at = 0, key_size = 0;  // in `texts_`
    uint32_t at = 0, size = 0;          // of a string or number in `texts_`, of children in `nodes_`
  };

  Node Store(std::string_view text, JsonScanner::Kind kind);
  bool Read(JsonScanner& json, Node& out);
  void SortMembers(std::vector<Node>& members) const;
  std::string_view KeyOf(const Node& node) const { return At(node.key_at, node.key_size); }
  std::string_view At(uint32_t at, uint32_t size) const { return std::string_view(texts_).substr(at, size); }
  const Node* Find(std::string_view pointer) const;
  const Node* Find(std::string_view pointer, JsonScanner::Kind kind) const;
  template <class T>
  std::optional<T> Integral(std::string_view pointer) const {
    const Node* node = Find(pointer, JsonScanner::kNumber);
    return node ? JsonInteger<T>(At(node->at, node->size)) : std::nullopt;
  }

  std::string texts_;
  std::vector<Node> nodes_;  // children of one node are contiguous, members of an object sorted by key
  Node root_;
};

}  // namespace gpulens
