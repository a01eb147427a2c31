// What another program answers in JSON, read for a few facts. Not for large or hot data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// Immutable; thread-safe.
class JsonDocument {
 public:
  static constexpr size_t kMostBytes = 4u << 20;
  static constexpr size_t kMostDepth = 32;

  // kDataLoss: no JSON, with the place. kExhausted: larger or deeper than the limits.
  static Result<JsonDocument> Parse(std::string_view text);

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  // `pointer` is a JSON pointer (RFC 6901): "/data/0/id". "" is the whole. Nothing when there is no
  // such text or number. A number is the double that is nearest to it.
  std::optional<std::string> Text(std::string_view pointer) const;
  std::optional<double> Number(std::string_view pointer) const;
  // A whole number that is not negative, with all its digits.
  std::optional<uint64_t> Whole(std::string_view pointer) const;
  // Of either sign.
  std::optional<int64_t> Integer(std::string_view pointer) const;
  std::optional<bool> Truth(std::string_view pointer) const;
  bool IsNull(std::string_view pointer) const;
  // Of the object there, in its order; nothing when there is none. Of a name that comes twice the last value
  // counts.
  std::optional<std::vector<std::string>> Names(std::string_view pointer) const;
  // Elements of the array there; 0 when there is none.
  size_t Size(std::string_view pointer) const;

 private:
  struct Impl;
  explicit JsonDocument(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
