// Requests of remote write, read piece by piece without copying: symbols, labels, samples, exemplars. Inside
// src/wire/remote_write only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/otlp/proto_cursor.h"
#include "wire/remote_write/remote_write_fields.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens::remote_write {

struct Label {
  std::string_view name, value;
  friend bool operator==(const Label&, const Label&) = default;
};
using Labels = std::vector<Label>;

struct SeriesSample {
  double value = 0;
  int64_t ms = 0, start_ms = 0;
};

// Field numbers of a TimeSeries that depend on the version.
struct SeriesNumbers {
  uint32_t exemplars, histograms;
};
SeriesNumbers NumbersOf(RemoteWriteVersion version) noexcept;

// Properties of a series besides its samples.
struct SeriesAbout {
  int64_t created_ms = 0;
  uint64_t type = 0, help = 0, unit = 0;  // of 2.0: a number, and symbols
};

// One request's symbols, and its labels one series at a time. Views into the request. Not thread-safe; its
// memory is used again.
class LabelReader {
 public:
  static constexpr size_t kMostSymbols = 1'000'000, kMostLabels = 1024;

  // `most`: bytes of labels that are read; the rest is ignored.
  void Begin(RemoteWriteVersion version, uint64_t most) {
    version_ = version;
    symbols_.clear();
    spent_ = 0;
    most_ = most;
  }
  // Whether more label bytes were read than that: one symbol may be used often.
  bool exhausted() const noexcept { return spent_ > most_; }
  uint64_t spent() const noexcept { return spent_; }
  void LiftLimit() noexcept { most_ = UINT64_MAX; }
  // False when there are too many.
  bool AddSymbol(std::string_view text);
  // The text of a symbol of 2.0; empty when there is none, or it is not UTF-8.
  std::string_view Symbol(uint64_t number) const noexcept;
  // Reads the labels of a TimeSeries or an Exemplar, sorted by name, without those that have no value. False:
  // invalid bytes. With a `fault` the labels are useless.
  bool Read(std::string_view message, Labels& out, RemoteWriteFault& fault);

 private:
  struct Text {
    const char* data;
    uint32_t size;
    bool good;  // UTF-8
  };
  void Add(Labels& out, std::string_view name, std::string_view value, RemoteWriteFault& fault);
  bool ReadLabel(std::string_view message, Labels& out, RemoteWriteFault& fault);
  void TakeRef(uint64_t ref, Labels& out, RemoteWriteFault& fault);

  RemoteWriteVersion version_ = RemoteWriteVersion::k1;
  std::vector<Text> symbols_;
  uint64_t spent_ = 0, most_ = 0;
  // The first half of a pair.
  bool half_ = false;
  std::string_view name_;
};

// Each returns false for invalid bytes.
bool ReadSample(std::string_view message, SeriesSample& out) noexcept;
bool ReadExemplar(std::string_view message, SeriesSample& out) noexcept;  // no start
bool ReadMetadata2(std::string_view message, SeriesAbout& out) noexcept;

// Whether a time in milliseconds is one in OTLP's nanoseconds.
bool IsTime(int64_t ms) noexcept;
// Whether a start is set, and not after its sample.
bool IsStart(int64_t start_ms, int64_t ms) noexcept;

}  // namespace gpulens::remote_write

namespace gpulens {

// Metadata of earlier requests: senders of 1.0 send types separately from samples.
//
// Not thread-safe. Bounded: cleared when it is full, since senders repeat all of it every minute or so.
// Shared by all senders: the last metadata of a name counts.
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
  // series. Null: unknown. Valid until the next Learn.
  const Entry* Find(std::string_view series) const noexcept;

  size_t size() const noexcept { return entries_.size(); }

 private:
  const Entry* Get(std::string_view family) const noexcept;

  std::map<std::string, Entry, std::less<>> entries_;
  size_t bytes_ = 0;
};

// Converts a request of 2.0 to 1.0, for requests that wait while their receiver turns out to accept 1.0 only.
// Pure. Replaces `out`. Metadata and start times are left out: 1.0 does not have them with samples. False for
// other bytes, and for native histograms with custom bounds, which 1.0 does not have.
bool ToRemoteWrite1(std::string_view request, std::string& out);

}  // namespace gpulens
