#include "sources/nccl_files/inspector_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens::nccl_files {
namespace {

using job_page::Function;

constexpr size_t kLongestName = 64;
constexpr int32_t kMostRanks = 1 << 22;
constexpr double kMostSeconds = 86'400;

struct FunctionName {
  std::string_view name;
  Function function;
};
constexpr FunctionName kFunctionNames[] = {
    {"AllReduce", Function::kAllReduce},
    {"Broadcast", Function::kBroadcast},
    {"AllGather", Function::kAllGather},
    {"ReduceScatter", Function::kReduceScatter},
    {"Reduce", Function::kReduce},
    {"AlltoAll", Function::kAllToAll},
    {"AllToAll", Function::kAllToAll},
    {"Gather", Function::kGather},
    {"Scatter", Function::kScatter},
    {"Send", Function::kSend},
    {"Recv", Function::kReceive},
    {"Receive", Function::kReceive},
    {"AllGatherV", Function::kAllGatherV},
    {"Barrier", Function::kBarrier},
    {"ReduceScatterV", Function::kReduceScatter},
};

std::string NameOf(std::string_view text) { return Printable(text.substr(0, kLongestName)); }

// A number, or a text such as "nan"; nothing for what is neither.
std::optional<double> NumberOf(JsonScanner& json) {
  if (json.Peek() == JsonScanner::kNumber) return json.Double();
  if (json.Peek() == JsonScanner::kString) return ParseDouble(json.Text());
  json.Skip();
  return std::nullopt;
}

std::optional<int64_t> WholeOf(JsonScanner& json) {
  const std::optional<double> number = NumberOf(json);
  constexpr double kEnd = 9.2e18;
  if (!number || !(*number >= 0 && *number < kEnd)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

int32_t SmallOf(JsonScanner& json, int32_t fallback) {
  const auto whole = WholeOf(json);
  return whole && *whole <= std::numeric_limits<int32_t>::max() ? static_cast<int32_t>(*whole) : fallback;
}

// Gigabytes are 10^9 here. Inspector writes 0 where it has no rule for the bus bandwidth.
double RateOf(JsonScanner& json) {
  const double gigabytes = NumberOf(json).value_or(kNotMeasured);
  return std::isfinite(gigabytes) && gigabytes > 0 ? gigabytes * 1e9 : kNotMeasured;
}

double MicrosecondsOf(JsonScanner& json, double unit) {
  const double number = NumberOf(json).value_or(kNotMeasured) * unit;
  return number >= 0 && number <= kMostSeconds * 1e6 ? number : kNotMeasured;
}

TimingSource SourceOf(std::string_view text) {
  if (text == "kernel_gpu") return TimingSource::kKernelGpu;
  if (text == "kernel_cpu") return TimingSource::kKernelCpu;
  return text == "collective_cpu" ? TimingSource::kCollectiveCpu : TimingSource::kUnknown;
}

void ReadHeader(JsonScanner& json, InspectorRecord& out) {
  json.Object([&](std::string_view key) {
    if (key == "id") {
      std::string_view id = json.Text();
      if (id.starts_with("0x")) id.remove_prefix(2);
      out.communicator = ParseInt<uint64_t>(id, 16).value_or(0);
    } else if (key == "comm_name") {
      out.communicator_name = NameOf(json.Text());
      if (out.communicator_name == "unknown") out.communicator_name.clear();
    } else if (key == "rank") {
      out.rank = SmallOf(json, -1);
    } else if (key == "n_ranks") {
      out.ranks = SmallOf(json, 0);
    } else if (key == "nnodes") {
      out.nodes = SmallOf(json, 0);
    }
  });
}

void ReadMetadata(JsonScanner& json, InspectorRecord& out) {
  json.Object([&](std::string_view key) {
    if (key == "dump_timestamp_us") out.dumped_unix_us = WholeOf(json).value_or(-1);
    else if (key == "hostname") out.host = NameOf(json.Text());
    else if (key == "pid") out.pid = SmallOf(json, 0);
  });
}

void SetOperation(InspectorRecord& out, std::string_view name) {
  out.operation = NameOf(name);
  out.function = FunctionOfName(name);
}

// "coll_perf" or "p2p_perf"; the names of its members begin with "coll_" or "p2p_".
void ReadPerformance(JsonScanner& json, bool point_to_point, InspectorRecord& out) {
  out.point_to_point = point_to_point;
  const std::string_view kind = point_to_point ? "p2p" : "coll";
  json.Object([&](std::string_view key) {
    if (key == kind) return SetOperation(out, json.Text());
    if (!key.starts_with(kind) || key.size() <= kind.size()) return;
    key.remove_prefix(kind.size() + 1);
    if (key == "sn") out.sequence = WholeOf(json).value_or(-1);
    else if (key == "msg_size_bytes") out.bytes = WholeOf(json).value_or(-1);
    else if (key == "exec_time_us") out.duration_us = MicrosecondsOf(json, 1);
    else if (key == "timing_source") out.timing = SourceOf(json.Text());
    else if (key == "algobw_gbs") out.bandwidth = RateOf(json);
    else if (key == "busbw_gbs") out.bus_bandwidth = RateOf(json);
    else if (key == "peer") out.peer = SmallOf(json, -1);
  });
}

uint64_t OverwrittenOf(JsonScanner& json) {
  uint64_t sum = 0;
  json.Object([&](std::string_view key) {
    if (key == "coll_dropped_since_last_dump" || key == "p2p_dropped_since_last_dump")
      sum += static_cast<uint64_t>(WholeOf(json).value_or(0));
  });
  return sum;
}

// A member of a flat line.
void ReadFlat(JsonScanner& json, std::string_view key, InspectorRecord& out) {
  if (key == "collective" || (key == "type" && out.operation.empty())) SetOperation(out, json.Text());
  else if (key == "rank") out.rank = SmallOf(json, -1);
  else if (key == "size") out.bytes = WholeOf(json).value_or(-1);
  else if (key == "alg_bw") out.bandwidth = RateOf(json);
  else if (key == "bus_bw") out.bus_bandwidth = RateOf(json);
  else if (key == "time_us") out.duration_us = MicrosecondsOf(json, 1);
  else if (key == "time_ms" && std::isnan(out.duration_us)) out.duration_us = MicrosecondsOf(json, 1000);
}

}  // namespace

Function FunctionOfName(std::string_view name) noexcept {
  const auto found = std::ranges::find(kFunctionNames, name, &FunctionName::name);
  return found == std::end(kFunctionNames) ? Function::kOther : found->function;
}

Result<InspectorLine> ParseInspectorLine(std::string_view line, const InspectorRecord* marker) {
  using Kind = InspectorLine::Kind;
  InspectorLine out;
  InspectorRecord& record = out.record;
  bool has_header = false, has_performance = false;
  if (line.size() > kLongestLine) return Status{Code::kDataLoss, "the line is too long"};
  JsonScanner json(line, 8);
  if (json.Peek() != JsonScanner::kObject) return Status{Code::kDataLoss, "the line is no JSON object"};
  json.Object([&](std::string_view key) {
    if (key == "header") {
      has_header = true;
      ReadHeader(json, record);
    } else if (key == "metadata") {
      ReadMetadata(json, record);
    } else if (key == "coll_perf" || key == "p2p_perf") {
      has_performance = true;
      ReadPerformance(json, key == "p2p_perf", record);
    } else if (key == "dump_stats") {
      out.kind = Kind::kMarker;
      out.overwritten = OverwrittenOf(json);
    } else if (key == "proxy_trace") {
      out.kind = Kind::kUnused;
    } else {
      ReadFlat(json, key, record);
    }
  });
  if (Status status = json.Finish(); !status) return Status{Code::kDataLoss, std::move(status.detail)};
  if (out.kind == Kind::kUnused) return out;
  if (out.kind == Kind::kMarker) {
    if (!has_header) return Status{Code::kDataLoss, "the marker has no header"};
  } else if (record.operation.empty()) {
    return Status{Code::kDataLoss, "the line names no operation"};
  } else if (has_performance && !has_header) {
    if (!marker) return Status{Code::kDataLoss, "the operation has no header, and no marker is before it"};
    record.communicator = marker->communicator;
    record.communicator_name = marker->communicator_name;
    record.rank = marker->rank;
    record.ranks = marker->ranks;
    record.nodes = marker->nodes;
    record.dumped_unix_us = marker->dumped_unix_us;
    record.host = marker->host;
    record.pid = marker->pid;
  }
  if (record.ranks > kMostRanks || record.rank < 0 || (record.ranks > 0 && record.rank >= record.ranks))
    return Status{Code::kDataLoss, "the line has an impossible rank"};
  return out;
}

}  // namespace gpulens::nccl_files
