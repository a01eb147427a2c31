// What Delivery does with what receivers take in: one log for all sinks that send it.

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/received_otlp.h"
#include "pipeline/delivery/delivery.h"

namespace gpulens {
namespace {

// So many records may wait before one that its sender waits for.
constexpr uint64_t kBacklog = 16;

// What this sink sends of what is received.
void TakesReceived(const Delivery::Wanted& sink, Delivery::Plan& plan) {
  const uint32_t takes = sink.spec->network->takes(sink.config);
  for (size_t source = 0; source < kRecordSources; ++source) {
    if (!SendsSource(sink.config, static_cast<RecordSource>(source))) continue;
    for (size_t signal = 0; signal < kOtlpSignals; ++signal)
      plan.taken[source][signal] |= (takes >> signal & 1) != 0;
  }
  if (SendsSource(sink.config, RecordSource::kRemoteWrite))
    plan.carries_histograms &= sink.spec->network->remote_write;
}

}  // namespace

void Delivery::PlanReceived(bool receivers, Plan& plan) {
  if (!receivers) return;
  plan.carries_histograms = true;
  std::vector<std::string> members;
  RequestLogOptions options;
  bool disk = false;
  for (const Plan::Destination& one : plan.destinations) {
    if (!SendsReceived(*one.wanted.spec, one.wanted.config)) continue;
    const RequestLogOptions own = LogOptionsOf(one.wanted.config, DefaultFolder(one.wanted.name));
    if (members.empty()) {
      options = own;
      plan.packing = one.wanted.spec->network->packing(one.wanted.config);
    }
    members.push_back(one.wanted.name);
    TakesReceived(one.wanted, plan);
    options.max_bytes = std::max(options.max_bytes, own.max_bytes);
    if (own.sync == LogSync::kAlways) options.sync = own.sync;
    // Beside the folder of the first that has one.
    if (disk || own.folder.empty()) continue;
    disk = true;
    options.folder = (std::filesystem::path(own.folder).parent_path() / kReceivedLog).string();
  }
  if (members.empty()) return;
  if (!disk) options.folder.clear(), options.memory_bytes = MemoryBytes(options.max_bytes);
  std::sort(members.begin(), members.end());
  plan.received = LogOf(std::string(kReceivedLog), members, std::move(options));
  for (Plan::Destination& one : plan.destinations)
    if (SendsReceived(*one.wanted.spec, one.wanted.config)) one.received = plan.received;
}

bool Delivery::wanted() const {
  std::lock_guard lock(mutex_);
  return received_ || discards_;
}

size_t Delivery::packing() const {
  std::lock_guard lock(mutex_);
  return packing_;
}

bool Delivery::carries_histograms() const { return carries_histograms_; }

void Delivery::Forward(const ReceivedOtlp& received, Done done) {
  std::shared_ptr<RequestLog> log;
  bool room = false, busy = true, taken = false, discards = false;
  {
    std::lock_guard lock(mutex_);
    log = received_;
    discards = discards_;
    taken = taken_[static_cast<size_t>(received.source)][static_cast<size_t>(received.signal)];
    // One that is full is passed by, and counts what it loses; only when all are full the sender keeps it.
    for (const auto& reader : received_readers_) {
      room |= reader->HasRoom(received.bytes.size());
      busy &= reader->stats().records > kBacklog;
    }
  }
  if (discards && (!log || !taken)) return done(Ok());
  if (!log) return done({Code::kUnavailable, "no sink accepts received data"});
  if (!taken)
    return done({Code::kInvalidArgument,
                 "no sink sends " + std::string(OtlpSignalName(received.signal)) + " of this receiver"});
  if (!room) return done({Code::kExhausted, "the queues of all sinks are full"});
  // What is in memory alone is answered when it is delivered; nobody waits for a long backlog.
  if (busy && (log->options().folder.empty() || !log->disk()))
    return done({Code::kExhausted, "the queue is in memory only, and delivery is behind"});
  Result<RequestLog::Kept> kept = RequestLog::Kept::kOnDisk;
  {
    std::lock_guard lock(forward_mutex_);
    const size_t kind = NumberOf({static_cast<size_t>(received.signal), received.packing, false});
    WriteEnvelope({static_cast<uint8_t>(kind), static_cast<uint8_t>(received.source), false, 0},
                  received.bytes, record_);
    kept = log->Append(record_, received.items, done);
  }
  if (!kept) return done(kept.error());
  if (*kept == RequestLog::Kept::kOnDisk) done(Ok());
}

}  // namespace gpulens
