#include "plugins/collectors/nccl/rank_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "catalog/nccl.h"

namespace gpulens {
namespace {

using job_page::Function;

constexpr std::string_view kOperationNames[] = {
    "Other",  "AllReduce", "Broadcast", "AllGather", "ReduceScatter", "Reduce",  "AlltoAll",
    "Gather", "Scatter",   "Send",      "Recv",      "AllGatherV",    "Barrier",
};
static_assert(std::size(kOperationNames) == static_cast<size_t>(Function::kCount));

// Operations of one rank with names that NCCL does not have: a file may hold any.
constexpr size_t kMostOperations = 24;
// Means of the last operations count as new for so long; then they are stale.
constexpr Duration kMeansHold = std::chrono::seconds(5);
constexpr double kLeastBound = 1024e-9;

}  // namespace

std::string CommunicatorText(uint64_t hash) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(hash));
  return std::string(text, static_cast<size_t>(size));
}

std::string_view OperationName(Function function) noexcept {
  const auto at = static_cast<size_t>(function);
  return kOperationNames[at < std::size(kOperationNames) ? at : 0];
}

double AlgorithmBytes(Function function, uint64_t bytes, int32_t ranks) noexcept {
  const auto size = static_cast<double>(bytes);
  const bool parts = function == Function::kAllGather || function == Function::kAllGatherV ||
                     function == Function::kReduceScatter;
  return parts ? size * ranks : size;
}

double BusFactor(Function function, int32_t ranks) noexcept {
  if (ranks < 1) return kNotMeasured;
  const double n = ranks;
  switch (function) {
    case Function::kAllReduce: return 2 * (n - 1) / n;
    case Function::kAllGather:
    case Function::kAllGatherV:
    case Function::kReduceScatter: return (n - 1) / n;
    case Function::kBroadcast:
    case Function::kReduce:
    case Function::kSend:
    case Function::kReceive: return 1;
    default: return kNotMeasured;
  }
}

AttributeSet RankTable::AttributesOf(uint64_t communicator, int32_t rank, const std::string& name) {
  std::vector<AttributeSet::Attribute> attributes;
  const std::string hash = CommunicatorText(communicator);
  if (communicator != 0) attributes.push_back({"nccl.communicator", std::string_view(hash)});
  if (!name.empty()) attributes.push_back({"nccl.communicator.name", std::string_view(name)});
  if (rank >= 0) attributes.push_back({"nccl.rank", int64_t{rank}});
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

EntityRef RankTable::EntityOf(uint64_t communicator, int32_t rank, const std::string& name) {
  const auto found = entries_.find({communicator, rank});
  if (rank >= 0 && found != entries_.end()) return found->second->entity;
  return MakeRef<Entity>(rank >= 0 ? "nccl.rank" : "nccl.communicator",
                         AttributesOf(communicator, rank, name));
}

RankTable::Entry& RankTable::EntryOf(const Rank& rank, Instant now) {
  std::unique_ptr<Entry>& entry = entries_[{rank.communicator, rank.rank}];
  if (!entry) {
    entry = std::make_unique<Entry>();
    entry->who = rank;
    const auto known = ranks_of_.find(rank.communicator);
    const bool own = known != ranks_of_.end() || ranks_of_.size() < options_.communicators;
    if (own) {
      ++ranks_of_[rank.communicator];
      AttributeSet attributes = AttributesOf(rank.communicator, rank.rank, rank.name);
      if (!rank.device_id.empty())
        attributes =
            attributes.OverlaidOn(AttributeSet({{"gpu.pci.bus_id", std::string_view(rank.device_id)}}));
      entry->entity = MakeRef<Entity>("nccl.rank", std::move(attributes), rank.process);
    }
  }
  entry->seen = now;
  return *entry;
}

void RankTable::Add(Operation& operation, double seconds, int64_t bytes, double bandwidth,
                    double bus_bandwidth) {
  ++operation.recent;
  if (bytes >= 0) operation.recent_bytes += static_cast<double>(bytes);
  if (!(seconds >= 0)) return;
  size_t bucket = 0;
  for (double bound = kLeastBound; bucket < kBounds && seconds > bound; bound *= 2) ++bucket;
  ++operation.buckets[bucket];
  ++operation.measured;
  operation.seconds += seconds;
  ++operation.recent_timed;
  operation.recent_seconds += seconds;
  operation.only_bandwidth = bandwidth;
  operation.only_bus_bandwidth = bus_bandwidth;
  if (std::isfinite(bandwidth)) operation.recent_moved += bandwidth * seconds;
  if (!std::isfinite(bus_bandwidth)) return;
  ++operation.recent_bus;
  operation.recent_bus_moved += bus_bandwidth * seconds;
  operation.recent_bus_seconds += seconds;
}

void RankTable::TakeProgress(const Rank& rank, const job_page::CommunicatorCopy& copy, Instant now) {
  Entry& entry = EntryOf(rank, now);
  entry.by_page = true;
  for (size_t i = 0; i < static_cast<size_t>(Function::kCount); ++i) {
    const job_page::ProgressCopy& progress = copy.functions[i];
    if (progress.enqueued == 0 && progress.operations == 0) continue;
    Operation& operation = entry.operations[std::string(kOperationNames[i])];
    operation.has_progress = operation.has_bytes = true;
    operation.enqueued = std::max(progress.operations, progress.enqueued);
    operation.started = progress.started;
    operation.done = progress.done;
    operation.bytes = progress.bytes;
  }
}

void RankTable::TakeRecord(const job_page::RecordCopy& record, const EntityRef& process, Instant now) {
  if (!record.communicator) return;
  const job_page::CommunicatorIdentity& who = *record.communicator;
  Entry& entry = EntryOf({.communicator = who.hash,
                          .rank = who.rank,
                          .ranks = who.ranks,
                          .name = who.name,
                          .device_id = who.device_id,
                          .process = process},
                         now);
  entry.by_page = true;
  Operation& operation = entry.operations[std::string(OperationName(record.function))];
  const double seconds = record.timing == job_page::Timing::kNone
                             ? kNotMeasured
                             : static_cast<double>(record.duration_ns()) * 1e-9;
  const double bandwidth =
      seconds > 0 ? AlgorithmBytes(record.function, record.bytes, who.ranks) / seconds : kNotMeasured;
  Add(operation, seconds, static_cast<int64_t>(record.bytes), bandwidth,
      bandwidth * BusFactor(record.function, who.ranks));
}

bool RankTable::TakeRecord(const nccl_files::InspectorRecord& record, Instant now) {
  const auto known = entries_.find({record.communicator, record.rank});
  if (record.communicator != 0 && known != entries_.end() && known->second->by_page) return false;
  Entry& entry = EntryOf({.communicator = record.communicator,
                          .rank = record.rank,
                          .ranks = record.ranks,
                          .name = record.communicator_name,
                          .device_id = {},
                          .process = {}},
                         now);
  if (entry.operations.size() >= kMostOperations && !entry.operations.contains(record.operation)) return true;
  Operation& operation = entry.operations[record.operation];
  operation.has_progress = true;
  ++operation.done;
  Add(operation, record.duration_us * 1e-6, record.bytes, record.bandwidth, record.bus_bandwidth);
  return true;
}

void RankTable::SetSlowest(uint64_t communicator, int32_t rank, const std::string& operation, bool slowest) {
  const auto found = entries_.find({communicator, rank});
  if (found == entries_.end()) return;
  const auto at = found->second->operations.find(operation);
  if (at != found->second->operations.end())
    at->second.slowest = std::max(at->second.slowest, slowest ? 1 : 0);
}

void RankTable::EndOf(const EntityRef& process) {
  for (auto& [key, entry] : entries_) {
    if (process && entry->who.process == process) entry->ended = true;
  }
}

void RankTable::WriteOperation(FrameWriter& out, Entry& entry, const std::string& name,
                               Operation& operation) {
  const AttributeSet type({{"nccl.collective.type", std::string_view(name)}});
  const auto set = [&](Series& series, const MetricDesc& desc, auto value) {
    if (!series) series = out.table().Declare(desc, entry.entity, type);
    out.Set(series, value);
  };
  if (operation.measured > 0) {
    if (!operation.duration) {
      if (!shape_) {
        auto shape = MakeRef<Shape>();
        for (size_t i = 0; i < kBounds; ++i)
          shape->bounds.push_back(std::ldexp(kLeastBound, static_cast<int>(i)));
        shape->bounds.push_back(std::numeric_limits<double>::infinity());
        shape_ = shape;
      }
      operation.duration = out.table().Declare(kNcclCollectiveDuration, entry.entity, type,
                                               SeriesTable::Form{.shape = shape_});
    }
    const std::span<Cell> cells = out.Cells(operation.duration);
    if (cells.size() == kBounds + 3) {
      uint64_t sum = 0;
      for (size_t i = 0; i <= kBounds; ++i) cells[i].d = static_cast<double>(sum += operation.buckets[i]);
      cells[kBounds + 1].d = operation.seconds;
      cells[kBounds + 2].d = static_cast<double>(operation.measured);
    }
  }
  const Instant now = out.begun_at();
  if (operation.recent > 0) {
    operation.recent_at = now;
  } else if (now - operation.recent_at < kMeansHold) {
    for (const Series series : {operation.size, operation.last_duration, operation.bandwidth,
                                operation.bus_bandwidth, operation.slowest_series}) {
      if (series) out.Keep(series);
    }
  }
  const auto recent = static_cast<double>(operation.recent);
  if (operation.recent > 0)
    set(operation.size, kNcclCollectiveMessageSize, std::llround(operation.recent_bytes / recent));
  if (operation.recent_timed > 0) {
    const bool one = operation.recent_timed == 1;
    set(operation.last_duration, kNcclCollectiveLastDuration,
        operation.recent_seconds / static_cast<double>(operation.recent_timed));
    const double bandwidth =
        one ? operation.only_bandwidth : operation.recent_moved / operation.recent_seconds;
    if (std::isfinite(bandwidth)) set(operation.bandwidth, kNcclCollectiveBandwidth, bandwidth);
  }
  if (operation.recent_bus > 0) {
    const double bus = operation.recent_bus == 1 && operation.recent_timed == 1
                           ? operation.only_bus_bandwidth
                           : operation.recent_bus_moved / operation.recent_bus_seconds;
    if (std::isfinite(bus)) set(operation.bus_bandwidth, kNcclCollectiveBusBandwidth, bus);
  }
  const auto stage = [&](Series& series, std::string_view word, uint64_t value) {
    if (!series)
      series = out.table().Declare(
          kNcclCollectives, entry.entity,
          AttributeSet({{"nccl.collective.type", std::string_view(name)}, {"nccl.stage", word}}));
    out.Set(series, value);
  };
  if (operation.has_progress) {
    if (entry.by_page) {
      stage(operation.enqueued_series, "enqueued", operation.enqueued);
      stage(operation.started_series, "started", operation.started);
    }
    stage(operation.done_series, "done", operation.done);
  }
  if (operation.has_bytes) set(operation.bytes_series, kNcclCollectiveBytes, operation.bytes);
  if (operation.slowest >= 0) set(operation.slowest_series, kNcclRankSlowest, operation.slowest);
  operation.slowest = -1;
  operation.recent = operation.recent_timed = operation.recent_bus = 0;
  operation.recent_bytes = operation.recent_seconds = operation.recent_moved = operation.recent_bus_moved =
      operation.recent_bus_seconds = 0;
}

void RankTable::Write(FrameWriter& out) {
  const Instant now = out.begun_at();
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = *at->second;
    if (entry.entity) {
      for (auto& [name, operation] : entry.operations) WriteOperation(out, entry, name, operation);
    } else {
      for (auto& [name, operation] : entry.operations) other_[name] += std::exchange(operation.recent, 0);
    }
    if (!entry.ended && now - entry.seen < options_.forget_after) {
      ++at;
      continue;
    }
    if (entry.entity) {
      out.table().Retire(entry.entity);
      if (--ranks_of_[at->first.first] == 0) ranks_of_.erase(at->first.first);
    }
    at = entries_.erase(at);
  }
  for (const auto& [name, count] : other_) {
    if (!other_entity_)
      other_entity_ = MakeRef<Entity>("nccl.communicator", AttributeSet({{"nccl.communicator", "other"}}));
    Series& series = other_series_[name];
    if (!series)
      series = out.table().Declare(
          kNcclCollectives, other_entity_,
          AttributeSet({{"nccl.collective.type", std::string_view(name)}, {"nccl.stage", "done"}}));
    out.Set(series, count);
  }
}

}  // namespace gpulens
