// Exemplars in requests of remote write: which of a frame's are new to the receiver, and their bytes.
//
// A page shows its last exemplar for as long as there is no other, so one is sent once. Receivers take the
// exemplars of a series in the order of their times; one without a time has that of its sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/frame.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {

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

}  // namespace gpulens
