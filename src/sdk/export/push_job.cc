#include "sdk/export/push_job.h"

#include <algorithm>

#include "base/log.h"
#include "base/version.h"
#include "net/message/http_message.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_write.h"

namespace gpulens::sdk {

Duration PushPace::After(const OtlpDelivery& delivered) {
  // A permanent error is not retried early: the rest was accepted, or the next attempt would fail as well.
  const bool again = delivered.status.code != Code::kOk && delivered.status.code != Code::kDataLoss &&
                     delivered.status.code != Code::kInvalidArgument;
  if (!again) {
    backoff_.Reset();
    return interval_;
  }
  return std::max(backoff_.Next(), delivered.come_again);
}

PushJob::PushJob(Options options, std::unique_ptr<OtlpTransport> transport)
    : options_(std::move(options)), transport_(std::move(transport)), pace_(options_.interval) {}

void PushJob::Run() {
  // The first export is early, so that a program appears soon after its start.
  Duration rest = std::min<Duration>(options_.interval, std::chrono::seconds(1));
  while (true) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, rest, [this] { return finishing_ || cut_ || requested_ != done_; });
    if (cut_) break;
    const bool last = finishing_;
    const uint64_t wanted = requested_;
    const Duration timeout = last ? std::min(options_.timeout, end_ - RealClock().Now()) : options_.timeout;
    lock.unlock();
    const OtlpDelivery delivered = SendAll(timeout);
    rest = pace_.After(delivered);
    Record(delivered, last);
    lock.lock();
    done_ = wanted;
    sent_.notify_all();
    if (last || cut_) break;
  }
  std::lock_guard lock(mutex_);
  over_ = true;
  sent_.notify_all();
}

OtlpDelivery PushJob::SendAll(Duration timeout) {
  std::vector<Sample> samples;
  SamplesAbout about{options_.resource, "gpulens.sdk", Version(), RealClock().Now().unix_ns};
  {
    std::lock_guard lock(mutex_);
    if (cut_) return {{Code::kUnavailable, "cancelled"}};
    samples = options_.registry->Snapshot();
  }
  OtlpDelivery whole;
  for (size_t begin = 0; begin < samples.size(); begin += kSamples) {
    const size_t count = std::min(kSamples, samples.size() - begin);
    auto request = std::make_shared<std::string>();
    EncodeSamples(std::span(samples).subspan(begin, count), about, *request);
    OtlpDelivery part = transport_->Send(std::move(request), timeout);
    if (part.status.ok()) continue;
    whole = std::move(part);
    // Continues with the rest after a partial error.
    if (whole.status.code != Code::kDataLoss) break;
  }
  return whole;
}

void PushJob::Record(const OtlpDelivery& delivered, bool last) {
  const Code code = delivered.status.code;
  {
    std::lock_guard lock(mutex_);
    failed_ = code == Code::kOk ? 0 : failed_ + 1;
    status_ = delivered.status;
  }
  if (code == reported_) return;
  reported_ = code;
  if (code == Code::kOk)
    return Log(LogLevel::kInfo, "sdk", "export_again", "sends to " + options_.peer + " again.");
  if (code == Code::kUnavailable && !last)
    return Log(LogLevel::kInfo, "sdk", "export_waits",
               "no " + options_.peer + " (" + delivered.status.detail +
                   "): retrying; counts until then are sent later.");
  Log(LogLevel::kWarn, "sdk", "export_failed", options_.peer + ": " + delivered.status.detail);
}

void PushJob::Finish(Duration timeout) {
  std::lock_guard lock(mutex_);
  finishing_ = true;
  end_ = RealClock().Now() + timeout;
  wake_.notify_all();
}

void PushJob::Cut() {
  transport_->Cut();
  std::lock_guard lock(mutex_);
  cut_ = true;
  wake_.notify_all();
  sent_.notify_all();
}

Status PushJob::status() const {
  std::lock_guard lock(mutex_);
  if (status_.ok()) return Ok();
  const bool absent = status_.code == Code::kUnavailable;
  std::string detail = absent ? "no " + options_.peer : options_.peer + ": " + status_.detail;
  detail += ", " + std::to_string(failed_) + (failed_ == 1 ? " try" : " tries");
  if (absent) detail += " (" + status_.detail + ")";
  return {status_.code, std::move(detail)};
}

Status PushJob::Flush(Duration timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++requested_;
  wake_.notify_all();
  if (!sent_.wait_for(lock, timeout, [&] { return done_ >= mine || over_ || cut_; }))
    return {Code::kTimeout, options_.peer + " has not answered yet"};
  return status_;
}

Status ValidateOtlpSuccess(std::string_view answer) {
  const auto partial = ReadOtlpAnswer(answer);
  if (!partial) return {Code::kDataLoss, "the response is not OTLP"};
  if (partial->rejected == 0) return Ok();
  return {Code::kDataLoss, std::to_string(partial->rejected) + " points were refused: " + partial->message};
}

OtlpDelivery ValidateOtlpAnswer(int http_status, std::string_view body, std::string_view retry_after,
                                Instant now) {
  if (http_status / 100 == 2) return {ValidateOtlpSuccess(body)};
  std::string why = DescribeStatus(http_status, {});
  if (std::string stated = ReadOtlpError(body); !stated.empty()) why += ": " + stated;
  const bool later = http_status == 429 || http_status == 502 || http_status == 503 || http_status == 504;
  const Code code = later                                      ? Code::kExhausted
                    : http_status == 401 || http_status == 403 ? Code::kPermissionDenied
                                                               : Code::kInvalidArgument;
  return {{code, std::move(why)}, later ? RetryAfter(retry_after, now).value_or(Duration(0)) : Duration(0)};
}

PlainTransport::PlainTransport(HttpUrl url, std::string headers)
    : url_(std::move(url)), headers_("Content-Type: application/x-protobuf\r\n" + std::move(headers)) {}

OtlpDelivery PlainTransport::Send(std::shared_ptr<const std::string> request, Duration timeout) {
  return SendTo({}, *request, timeout);
}

OtlpDelivery PlainTransport::SendTo(std::string unix_socket, const std::string& request, Duration timeout) {
  Result<BlockingReply> reply = post_.Send({url_, std::move(unix_socket), headers_, request}, timeout);
  if (!reply) return {std::move(reply).error()};
  return ValidateOtlpAnswer(reply->status, reply->body, reply->retry_after, RealClock().Now());
}

}  // namespace gpulens::sdk
