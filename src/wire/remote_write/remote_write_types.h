// What senders of 1.0 said of metrics in earlier requests: they tell types apart from samples.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {

// Not thread-safe. Bounded: when it is full it begins anew, since senders tell all of it every minute or so.
// One for all senders: what was said last of a name holds.
class RemoteWriteTypes {
 public:
  static constexpr size_t kMostNames = 20'000, kMostBytes = size_t{4} << 20;

  struct Entry {
    remote_write::Type type = remote_write::Type::kUnknown;
    std::string help, unit;
    std::string_view family;
  };

  // Does not allocate for what is known already.
  void Learn(std::string_view family, remote_write::Type type, std::string_view help, std::string_view unit);
  // Of the family that has a series of this name: its own name, or without the suffix that its type gives
  // series. Null: nobody said. Until the next Learn.
  const Entry* Find(std::string_view series) const noexcept;

  size_t size() const noexcept { return entries_.size(); }

 private:
  const Entry* Get(std::string_view family) const noexcept;

  std::map<std::string, Entry, std::less<>> entries_;
  size_t bytes_ = 0;
};

}  // namespace gpulens
