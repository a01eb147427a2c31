// What programs of this machine have said of themselves, each as it said it last.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "wire/otlp/otlp_points.h"

namespace gpulens {

// Take is called by any thread, Write and Count inside the instance's run. A Write between which nothing new
// was said does not allocate.
class ProgramRegistry {
 public:
  struct Limits {
    size_t programs = 256;
    size_t programs_of_user = 128;
    size_t instances = 16;                         // that one process may say it is
    size_t series = 20'000;                        // of a program
    size_t series_of_user = 20'000;                // of all programs of a user
    size_t all_series = 100'000;                   // of all
    Duration told = std::chrono::seconds(150);     // a value is told for so long after it came
    Duration forgotten = std::chrono::minutes(5);  // what is not said any more
  };
  explicit ProgramRegistry(const Limits& limits) : limits_(limits) {}

  // Who sends, as the kernel says; 0 and -1: nobody knows.
  struct Sender {
    int32_t pid = 0;
    int64_t uid = -1;
    auto operator<=>(const Sender&) const = default;
  };
  // A user's programs never take what others may have: there are limits for each. kDataLoss: the bytes cannot
  // be read; kExhausted: no more programs.
  Status Take(const Sender& sender, std::string_view request, Instant now, OtlpPointsReport& report);
  void Write(FrameWriter& out);

  struct Counts {
    size_t programs = 0;
    uint64_t accepted = 0, rejected = 0;
  };
  Counts counts() const;

 private:
  class Taker;
  // One series.
  struct Row {
    std::string name, unit, description;
    AttributeSet attributes;
    Kind kind = Kind::kGauge;
    bool integer = false, has_sum = false;
    int64_t start_unix_ns = 0;
    Instant heard;
    double value = 0;
    int64_t whole = 0;
    std::vector<double> bounds, counts;  // cumulative; the last bound is +Inf
    double sum = 0;
    // Of the run alone.
    Series series;
    int64_t declared_start_ns = 0;
    bool reshaped = false;  // its bounds are others than those that were declared
    bool refused = false;
  };
  struct Program {
    EntityRef entity;
    Instant heard;
    std::unordered_map<std::string, Row> rows;
  };
  using Key = std::pair<Sender, std::string>;  // with service.instance.id
  struct User {
    size_t programs = 0, series = 0;
  };

  Program* ProgramOf(const Sender& sender, std::span<const AttributeSet::Attribute> resource);
  static void Declare(Row& row, const EntityRef& entity, SeriesTable& table);
  static void WriteRow(Row& row, FrameWriter& out);

  const Limits limits_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<Key, Program> programs_;
  std::map<int64_t, User> users_;  // by uid; none without programs
  size_t series_ = 0;
  uint64_t accepted_ = 0, rejected_ = 0;
};

}  // namespace gpulens
