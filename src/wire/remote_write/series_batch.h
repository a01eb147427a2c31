// Series on their way into requests of remote write: collected with their symbols, then written as requests
// of at most so many samples and bytes. Inside src/wire/remote_write only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/remote_write/remote_write_request.h"
#include "wire/remote_write/remote_write_series.h"

namespace gpulens::remote_write {

using remote_write::Label;
using remote_write::Labels;

// Not thread-safe; keeps its memory.
class SeriesBatch {
 public:
  struct Limits {
    size_t samples = 2000, bytes = 1u << 20;  // of one request
  };
  // Takes one request; its bytes live until it returns. Not ok ends the conversion.
  using Take = std::function<Status(std::string_view request, uint32_t samples)>;
  struct About {
    remote_write::Type type = remote_write::Type::kUnknown;
    std::string_view help, unit;
  };

  SeriesBatch(RemoteWriteVersion version, Limits limits) : version_(version), limits_(limits) {}
  SeriesBatch(const SeriesBatch&) = delete;
  SeriesBatch& operator=(const SeriesBatch&) = delete;

  // Forgets everything that was not written.
  void Begin(RemoteWriteVersion version, const Take& take);
  // Adds `samples` samples or histograms, whose fields are `data`, to the series with these labels, which are
  // sorted by name. False, and nothing is added: the series alone would be larger than a request.
  bool Add(const About& about, const Labels& labels, std::string_view data, uint32_t samples);
  // To the series that was added last.
  bool AddExemplar(const Labels& labels, double value, int64_t ms);
  // A MetricMetadata message of 1.0.
  bool AddMetadata(std::string_view message);
  // Whether so much is collected that Drain should be called.
  bool full() const noexcept;
  // Writes what was added and forgets it. The status is that of `take`.
  Status Drain();
  uint64_t bytes() const noexcept { return bytes_; }  // written since Begin

 private:
  struct Exemplar {
    double value;
    int64_t ms;
    uint32_t first_ref, refs;
  };
  // Of one line of layout_.
  struct Part {
    size_t data_end, cost;
    uint32_t samples, exemplars_end;
  };
  struct Slot {
    uint64_t hash = 0;
    uint32_t round = 0, symbol = 0;
  };

  void Clear();
  uint32_t Intern(std::string_view text);
  void Grow();
  size_t AppendRefs(const Labels& labels);
  uint32_t FamilyOf(const About& about);
  void WriteExemplar(const Exemplar& exemplar);
  Status Hand();

  RemoteWriteVersion version_;
  const Limits limits_;
  const Take* take_ = nullptr;
  RemoteWriteLayout layout_;
  RemoteWriteSymbols symbols_;
  RemoteWriteRequest request_{symbols_};
  std::vector<Part> parts_;
  std::vector<Exemplar> exemplars_;
  std::string data_, series_, message_, metadata_;
  std::vector<size_t> metadata_ends_;
  std::vector<Slot> slots_;
  uint32_t round_ = 0;
  uint32_t in_request_ = 0;  // samples of request_
  bool open_ = false;        // request_ holds something
  uint64_t bytes_ = 0;
  uint64_t cost_ = 0;  // of what is collected, as it will be written
};

}  // namespace gpulens::remote_write
