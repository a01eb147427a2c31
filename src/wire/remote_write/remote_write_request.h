// One request of remote write while it is made: series after series, and for 2.0 the table of its symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wire/remote_write/remote_write_layout.h"

namespace gpulens {

// 1.0 is prometheus.WriteRequest, 2.0 io.prometheus.write.v2.Request.
enum class RemoteWriteVersion : uint8_t { k1, k2 };

// The texts of several layouts, each with one number. Not thread-safe.
class RemoteWriteSymbols {
 public:
  // Numbers that were given out mean nothing from here on.
  void Clear() noexcept;
  // Fills `layout.global`, once between two calls of Clear.
  void Add(RemoteWriteLayout& layout);
  std::string_view Text(uint32_t number) const noexcept { return *texts_[number]; }
  // Nothing when no layout has it.
  std::optional<uint32_t> Find(const std::string& text) const;
  size_t size() const noexcept { return texts_.size(); }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<const std::string*> texts_;  // keys of numbers_
  uint64_t plan_ = 1;
};

// Not thread-safe. Does not allocate once it was as large as it gets.
class RemoteWriteRequest {
 public:
  explicit RemoteWriteRequest(const RemoteWriteSymbols& symbols) : symbols_(symbols) {}

  void Begin(RemoteWriteVersion version);
  // Whole fields of a request of 1.0. Returns where they stand; until the next call.
  char* AppendFields(std::string_view fields, uint32_t samples);
  // A series of a layout whose symbols were added; `data` are its fields of samples or histograms.
  void AppendSeries(const RemoteWriteLayout& layout, const RemoteWriteLine& line, std::string_view data);
  // Of 2.0: the number that a symbol of a layout whose symbols were added has in this request.
  uint32_t NumberOf(const RemoteWriteLayout& layout, uint32_t symbol);
  // Of 2.0: the number in this request of a text that need not be of a layout. Its symbol is in the request
  // from then on.
  uint32_t SymbolOf(const std::string& text);
  // The whole request, until Begin.
  std::string_view Finish();

  size_t bytes() const noexcept { return body_.size() + table_.size(); }
  uint32_t samples() const noexcept { return samples_; }

 private:
  uint32_t LocalOf(uint32_t global);
  void AppendSeries1(const RemoteWriteLayout& layout, const RemoteWriteLine& line, std::string_view data);
  void AppendSeries2(const RemoteWriteLayout& layout, const RemoteWriteLine& line, std::string_view data);

  const RemoteWriteSymbols& symbols_;
  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  std::string body_, scratch_;
  uint32_t samples_ = 0;
  // Of 2.0: the field of each symbol that is used, and by global number where it stands in this request.
  struct Local {
    uint32_t round = 0, number = 0;
  };
  std::string table_;
  std::vector<Local> locals_;
  uint32_t round_ = 0, used_ = 0;
  std::unordered_map<std::string, uint32_t> others_;  // symbols of no layout
};

}  // namespace gpulens
