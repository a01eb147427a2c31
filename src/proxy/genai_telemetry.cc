#include "proxy/genai_telemetry.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "base/version.h"
#include "core/received_otlp.h"
#include "wire/otlp/otlp_spans.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens::proxy {
namespace {

constexpr std::string_view kScope = "gpulens.proxy";
// Spans wait this long for others to go with them.
constexpr Duration kGather = std::chrono::seconds(1);
constexpr size_t kMostBufferedBytes = 4u << 20;
// Of one request: below what receivers take by default.
constexpr size_t kMostSpans = 512, kMostSamples = 4000;
constexpr size_t kMostSpanBytes = 1u << 20;
constexpr std::string_view kIntegers[] = {"server.port"};
constexpr std::string_view kSignals[] = {"metrics", "traces"};
constexpr size_t kSignalNumbers[] = {static_cast<size_t>(OtlpSignal::kMetrics),
                                     static_cast<size_t>(OtlpSignal::kTraces)};

}  // namespace

Result<std::unique_ptr<GenaiTelemetry>> GenaiTelemetry::Start(GenaiOptions options, const Clock& clock) {
  std::unique_ptr<GenaiTelemetry> made(new GenaiTelemetry(std::move(options), clock));
  if (made->options_.send) RETURN_IF_ERROR(made->StartDelivery());
  return made;
}

GenaiTelemetry::GenaiTelemetry(GenaiOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      instruments_(options_.metrics ? options_.versions : GenaiVersions{false, false}, options_.max_series) {}

GenaiTelemetry::~GenaiTelemetry() {
  Finish(Duration{});
  for (Queue& queue : queues_) queue.reader = nullptr;
  sender_ = nullptr;
  client_ = nullptr;
  io_.Stop();
}

Status GenaiTelemetry::StartDelivery() {
  io_.Start();
  RETURN_IF_ERROR(io_.status());
  client_ = std::make_unique<HttpClient>(io_);
  sender_ = std::make_unique<RequestSender>(options_.send, *client_, io_, clock_);
  for (size_t i = 0; i < queues_.size(); ++i) {
    RequestLogOptions log;
    log.owner = kSignals[i];
    log.max_bytes = log.memory_bytes = options_.queue_bytes;
    queues_[i].log = RequestLog::Open(std::move(log), clock_);
    queues_[i].reader =
        queues_[i].log->Attach(std::string(kSignals[i]), {options_.queue_bytes, {}}, sender_->waker());
    // Chains are independent: metrics do not wait for spans.
    sender_->Add(queues_[i].reader, i == kMetrics ? RequestSender::kOwn : RequestSender::kReceived);
  }
  RETURN_IF_ERROR(sender_->Begin());
  return StartThread(thread_, [this] { Run(); });
}

void GenaiTelemetry::AddSpan(std::string_view span) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (finish_ || spans_.size() + span.size() > kMostBufferedBytes) {
      ++spans_dropped_;
      return;
    }
    const size_t before = spans_.size();
    spans_ += span;
    ends_.push_back(spans_.size());
    wake = before < kMostBufferedBytes / 4 && spans_.size() >= kMostBufferedBytes / 4;
  }
  if (wake) wake_.notify_one();
}

std::pair<std::string, uint32_t> GenaiTelemetry::TakeSpans() {
  std::lock_guard lock(mutex_);
  const auto count = static_cast<uint32_t>(ends_.size());
  ends_.clear();
  return {std::exchange(spans_, {}), count};
}

void GenaiTelemetry::Run() {
  Instant due = clock_.Now() + options_.interval;
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::min<Duration>(kGather, options_.interval),
                     [this] { return finish_ || spans_.size() >= kMostBufferedBytes / 4; });
      last = finish_;
    }
    ExportSpans();
    const Instant now = clock_.Now();
    if (!last && now.boot_ns < due.boot_ns) continue;
    due = now + options_.interval;
    ExportMetrics();
  }
}

void GenaiTelemetry::ExportSpans() {
  std::string spans;
  std::vector<size_t> ends;
  {
    std::lock_guard lock(mutex_);
    spans.swap(spans_);
    ends.swap(ends_);
  }
  const SpansAbout about{options_.resource, kScope, Version(), {}};
  size_t begin = 0;
  for (size_t i = 0; i < ends.size();) {
    size_t next = i + 1;
    while (next < ends.size() && next - i < kMostSpans && ends[next] - begin <= kMostSpanBytes) ++next;
    EncodeSpans(std::string_view(spans).substr(begin, ends[next - 1] - begin), about, request_);
    Append(kTraces, request_, static_cast<uint32_t>(next - i));
    begin = ends[next - 1];
    i = next;
  }
}

void GenaiTelemetry::ExportMetrics() {
  const std::vector<Sample> samples = instruments_.Read();
  SamplesAbout about{options_.resource, kScope, Version(), clock_.Now().unix_ns, kIntegers};
  for (size_t begin = 0; begin < samples.size(); begin += kMostSamples) {
    const size_t count = std::min(kMostSamples, samples.size() - begin);
    request_.clear();
    EncodeSamples(std::span(samples).subspan(begin, count), about, request_);
    Append(kMetrics, request_, static_cast<uint32_t>(count));
  }
}

// What the queue has no room for is dropped and counted there.
void GenaiTelemetry::Append(size_t queue, std::string_view request, uint32_t items) {
  Envelope envelope;
  envelope.kind = static_cast<uint8_t>(NumberOf({kSignalNumbers[queue], options_.packing, false}));
  WriteEnvelope(envelope, packer_.Pack(request, options_.packing), record_);
  static_cast<void>(queues_[queue].log->Append(record_, items));
}

void GenaiTelemetry::Finish(Duration timeout) {
  const Instant deadline = clock_.Now() + timeout;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(finish_, true)) return;
  }
  wake_.notify_one();
  if (!thread_.joinable()) return;
  thread_.join();
  if (const Status status = sender_->Finish(deadline); !status)
    Log(LogLevel::kWarn, "proxy", "otlp_not_delivered",
        "Not all metrics and spans were delivered before the end: " + status.detail + ".");
}

GenaiStats GenaiTelemetry::stats() const {
  GenaiStats out;
  RequestSender::Stats sent;
  if (sender_) sender_->stats(sent);
  for (size_t i = 0; i < queues_.size(); ++i) {
    GenaiStats::Signal& signal = out.signals[i];
    signal.name = kSignals[i];
    if (!queues_[i].reader) continue;
    const LogReader::Stats waiting = queues_[i].reader->stats();
    signal.waiting = waiting.items;
    // Each reason from the begin: the rate of a series that appears with its first drop lacks that one.
    for (size_t reason = 0; reason < kRecordDropReasons; ++reason)
      signal.dropped[RecordDropReasonName(static_cast<RecordDropReason>(reason))] =
          waiting.dropped_items[reason];
    signal.dropped["rejected"] = 0;
    if (const size_t number = kSignalNumbers[i]; number < sent.signals.size()) {
      signal.delivered = sent.signals[number].delivered;
      signal.dropped["rejected"] = sent.signals[number].rejected;
    }
  }
  out.requests = std::move(sent.requests);
  out.up = sent.up;
  std::lock_guard lock(mutex_);
  if (queues_[kTraces].reader || spans_dropped_ > 0)
    out.signals[kTraces].dropped["buffer_full"] = spans_dropped_;
  return out;
}

}  // namespace gpulens::proxy
