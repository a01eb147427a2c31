// Writer of one request of remote write, with the table of its symbols for 2.0, exemplars, and the
// compression of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/frame.h"
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
  // Returns none for a text of no layout.
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
  // Appends whole fields of a request of 1.0. Returns their place, valid until the next call.
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
  // Of 2.0: the fields of used symbols, and their number in this request by global number.
  struct Local {
    uint32_t round = 0, number = 0;
  };
  std::string table_;
  std::vector<Local> locals_;
  uint32_t round_ = 0, used_ = 0;
  std::unordered_map<std::string, uint32_t> others_;  // symbols of no layout
};

// Exemplars. A page shows its last exemplar until there is another, so each is sent once. Receivers take the
// exemplars of a series in the order of their times; one without a time has that of its sample.

// Letters of all names and values of one exemplar's labels together: OpenMetrics' limit, and that of
// Prometheus.
inline constexpr size_t kMostExemplarLetters = 128;
// A time further ahead of the sample is no time: all later exemplars of the series would be refused.
inline constexpr int64_t kExemplarAheadMs = int64_t{5} * 60 * 1000;

// The last exemplar that a series was sent with.
struct SentExemplar {
  int64_t ms = INT64_MIN;
  uint64_t print = 0;  // of its labels, value and time
};

// One to be sent. Points into the frame.
struct NewExemplar {
  uint32_t line = 0;
  int64_t ms = 0;
  double value = 0;  // as the series has it
  const Exemplar* exemplar = nullptr;
};

// A series with a new sample, and the cells whose exemplars are its own.
struct ExemplarSeries {
  uint32_t line = 0;
  uint32_t cell = 0, cells = 1;
  int64_t sample_ms = 0;
  double scale = 1;
};

// Appends those of the frame's exemplars that are new to the series, by time, and marks them in `sent`. Of a
// series of several cells only those with a time of their own count.
void FindNewExemplars(const Frame& frame, const ExemplarSeries& series, SentExemplar& sent,
                      std::vector<NewExemplar>& out);

// Names and values as receivers take them, by name, within kMostExemplarLetters: trace_id and span_id first,
// then the others in their order while they fit.
RemoteWriteLabels ExemplarLabels(const AttributeSet& attributes);

// Appends the exemplar as a field of a series of `request`, which gets its symbols.
void AppendExemplar(const NewExemplar& exemplar, RemoteWriteVersion version, RemoteWriteRequest& request,
                    std::string& series);

// Replaces `out`. The library takes its table from the heap each time.
void SnappyPack(std::string_view bytes, std::string& out);
// Replaces `out`. False, and nothing in `out`, for what is no block or would be larger than `limit`.
bool SnappyUnpack(std::string_view block, size_t limit, std::string& out);

// The unpacked size that the block declares; 0 for other bytes.
size_t SnappyLength(std::string_view block) noexcept;

}  // namespace gpulens
