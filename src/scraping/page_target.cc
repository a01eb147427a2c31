#include "scraping/page_target.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "net/address.h"
#include "wire/gzip.h"

namespace gpulens {
namespace {

constexpr Duration kLongestDefaultTimeout = std::chrono::seconds(10);
// What is left of a run's time for reading the page once it has come.
constexpr Duration kLongestReserve = std::chrono::milliseconds(250);
// A larger buffer goes back to the machine between scrapes.
constexpr size_t kKeptBuffer = 256u << 10;

std::string Printable(std::string_view text) {
  std::string out;
  AppendPrintable(out, text);
  return out;
}

void Release(std::string& buffer) {
  if (buffer.capacity() > kKeptBuffer) std::string().swap(buffer);
}

Duration TimeoutOf(const Config& config) {
  Duration set = config.Time("timeout");
  return set.count() > 0 ? set : std::min(config.Time("interval"), kLongestDefaultTimeout);
}

ExpositionLimits LimitsOf(const Config& config) {
  ExpositionLimits limits;
  limits.page_bytes = config.Size("max_body");
  limits.samples = static_cast<size_t>(config.Int("max_samples"));
  return limits;
}

}  // namespace

Result<HttpUrl> TargetUrl(const Config& target) {
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(target.Text("url")));
  if (!url.has_path && url.target == "/") {
    url.target = "/metrics";
    url.has_path = true;
  }
  return url;
}

void CheckTarget(const Config& target, ConfigFaults& faults) {
  if (target.Text("url").empty()) return;  // the loader says that it is missing
  if (const auto url = TargetUrl(target)) CheckRemote(target, *url, faults);
  else faults.Refuse(target, "url", url.error());
  SeriesRules::Check(target, faults);
}

void CheckTargets(const Config& collector, ConfigFaults& faults) {
  for (const Config& target : collector.Groups("targets")) CheckTarget(target, faults);
}

EntityRef TargetEntity(const Config& target, std::string_view name) {
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, value] : target.TextMap("attributes")) {
    attributes.push_back({key, std::string_view(value)});
  }
  attributes.push_back({"target", name});
  return MakeRef<Entity>("target", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)));
}

std::vector<Finding> ProbeTargets(const Config& config, std::string_view collector,
                                  std::string_view example) {
  std::vector<Finding> findings;
  for (const Config& target : config.Groups("targets")) {
    auto url = TargetUrl(target);
    std::string subject = std::string(collector) + "/" + target.Text("name");
    if (url) findings.push_back({Finding::kFound, subject, "configured: " + url->ToString(), "", ""});
    else findings.push_back({Finding::kBroken, subject, "", url.error().detail, ""});
  }
  if (findings.empty()) {
    findings.push_back(
        {Finding::kNotHere, std::string(collector), "", "no target is configured", std::string(example)});
  }
  return findings;
}

Result<std::unique_ptr<PageTarget>> PageTarget::Make(const Config& target, Options options, Env& env) {
  if (!env.http) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(HttpUrl url, TargetUrl(target));
  // Packing a page costs more than sending it as it is to the same machine.
  const bool local = !target.Text("unix_socket").empty() || IsLoopbackHost(url.host);
  const RemoteAccess::Fields fields{kAcceptFields, local ? "" : "Accept-Encoding: gzip\r\n"};
  ASSIGN_OR_RETURN(RemoteAccess access, RemoteAccess::Make(target, url, fields));
  return std::unique_ptr<PageTarget>(new PageTarget(target, url, std::move(access), std::move(options), env));
}

PageTarget::PageTarget(const Config& target, const HttpUrl& url, RemoteAccess access, Options options,
                       Env& env)
    : clock_(*env.clock),
      options_(std::move(options)),
      url_(url.ToString()),
      max_body_(target.Size("max_body")),
      timeout_(TimeoutOf(target)),
      access_(std::move(access)),
      page_(LimitsOf(target)),
      record_(options_.name, url_) {
  HttpTarget http{url, target.Text("unix_socket"), {}};
  http.limits.body_bytes = max_body_;
  channels_.push_back(env.http->Open(http));
  if (!options_.other_path.empty() && options_.other_path != url.target) {
    http.url.target = options_.other_path;
    channels_.push_back(env.http->Open(http));
  }
  accessible_ = access_.Refresh();
}

void PageTarget::Fetch(Instant deadline, std::function<void(Status)> done) {
  started_ = clock_.Now();
  if (!accessible_) {
    finished_ = started_;
    return done(Ok());
  }
  Duration left = std::min(timeout_, deadline - started_);
  Duration timeout = left - std::min(left / 10, kLongestReserve);
  headers_ = access_.headers();
  AddTimeout(timeout);
  Ask(timeout, channels_.size() == 1, std::move(done));
}

void PageTarget::Ask(Duration timeout, bool last, std::function<void(Status)> done) {
  constexpr int kNotFound = 404;
  HttpGet get{headers_, access_.tls(), timeout, std::move(body_)};
  channels_[at_]->Get(std::move(get), [this, timeout, last, done = std::move(done)](HttpReply& reply) {
    if (reply.status == kNotFound && !last) {
      at_ = (at_ + 1) % channels_.size();
      body_ = std::move(reply.body);
      return Ask(timeout - std::min(timeout, clock_.Now() - started_), true, done);
    }
    std::swap(reply_, reply);
    finished_ = clock_.Now();
    done(Ok());
  });
}

Status PageTarget::Collect(PageUser& user, FrameWriter& out) {
  // Its own series come before those of the page, which are many and may be limited.
  if (answered_ || !options_.on_trial) record_.Prepare(out.table());
  Outcome outcome;
  if (accessible_) outcome = Read(user, out);
  else outcome = {static_cast<size_t>(ScrapeFailure::kCredentials), accessible_};
  if (outcome.failure != 0) record_.Failed(outcome.failure);
  answered_ = answered_ || outcome.status.ok();
  if (answered_ || !options_.on_trial) record_.Write(outcome.failure == 0, finished_ - started_, out);
  body_ = std::move(reply_.body);
  Release(body_);
  Release(unpacked_);
  accessible_ = access_.Refresh();
  if (!outcome.status) outcome.status.detail = url_ + ": " + outcome.status.detail;
  return outcome.status;
}

void PageTarget::AddTimeout(Duration timeout) {
  char text[32];
  double seconds_left = std::chrono::duration<double>(timeout).count();
  auto [end, error] = std::to_chars(text, text + sizeof text, seconds_left);
  headers_ += "X-Prometheus-Scrape-Timeout-Seconds: ";
  headers_.append(text, end);
  headers_ += "\r\n";
}

PageTarget::Outcome PageTarget::Read(PageUser& user, FrameWriter& out) {
  if (reply_.failure != HttpFailure::kNone) {
    return {static_cast<size_t>(reply_.failure), {HttpFailureCode(reply_.failure), reply_.detail}};
  }
  auto format = DetectExpositionFormat(reply_.content_type);
  if (!format) {
    return {
        static_cast<size_t>(ScrapeFailure::kContentType),
        {Code::kDataLoss, "answers with " + Printable(reply_.content_type) + ", which is no metrics page"}};
  }
  std::string_view body = reply_.body;
  if (reply_.gzip) {
    Status status = Gunzip(reply_.body, max_body_, unpacked_);
    if (!status) {
      auto failure = status.code == Code::kExhausted ? HttpFailure::kTooLarge : HttpFailure::kProtocol;
      return {static_cast<size_t>(failure), std::move(status)};
    }
    body = unpacked_;
  }
  return ReadPage(body, *format, user, out);
}

PageTarget::Outcome PageTarget::ReadPage(std::string_view body, ExpositionFormat format, PageUser& user,
                                         FrameWriter& out) {
  Status status = page_.Update(body, format);
  if (status.code == Code::kExhausted) {
    return {static_cast<size_t>(HttpFailure::kTooLarge), std::move(status)};
  }
  out.ReadAt(finished_);
  Status used = user.Write(body, format, status.ok(), out);
  record_.Page(page_.report(), body.size());
  Complain();
  if (!status) return {static_cast<size_t>(ScrapeFailure::kPage), std::move(status)};
  if (!used) return {static_cast<size_t>(ScrapeFailure::kContentType), std::move(used)};
  // What was read is told; that it is not all must not look like a page that became smaller.
  if (size_t over = page_.report().samples_over_limit; over > 0) {
    return {static_cast<size_t>(ScrapeFailure::kSamples),
            {Code::kExhausted,
             std::to_string(over) + " samples above max_samples are left out; raise it, or ask for less"}};
  }
  return {};
}

// Lines that were passed over must be seen somewhere, once in a while.
void PageTarget::Complain() const {
  const ExpositionReport& report = page_.report();
  if (report.bad_lines > 0 && !page_.bad_examples().empty()) {
    const auto& example = page_.bad_examples().front();
    Log(LogLevel::kWarn, "scrape", "bad_lines",
        url_ + ": " + std::to_string(report.bad_lines) + " lines cannot be read, the first is line " +
            std::to_string(example.line) + " (" + std::string(LineErrorName(example.error)) +
            "): " + Printable(example.excerpt),
        options_.name);
  }
}

}  // namespace gpulens
