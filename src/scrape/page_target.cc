#include "scrape/page_target.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/self.h"
#include "net/message/address.h"
#include "reader/protocol.h"

namespace gpulens {
namespace {

constexpr Duration kLongestDefaultTimeout = std::chrono::seconds(10);
// Time of a run that is reserved for parsing the page.
constexpr Duration kLongestReserve = std::chrono::milliseconds(250);
Duration TimeoutOf(const Config& config) {
  return RequestTimeout(config.Group(kTransportKey),
                        std::min(config.Time("interval"), kLongestDefaultTimeout));
}

constexpr std::string_view kLocation = "location";
constexpr int kMostRedirects = 5;

// Returns where on the same server the page is instead. Another host, port or scheme is another server, which
// the configured password is not meant for.
std::optional<HttpUrl> RedirectOf(const HttpReply& reply, const HttpUrl& from) {
  constexpr int kRedirects[] = {301, 302, 303, 307, 308};
  if (std::ranges::find(kRedirects, reply.status) == std::end(kRedirects)) {
    return std::nullopt;
  }
  std::string_view kept = reply.kept;
  if (!kept.starts_with(std::string(kLocation) + ": ")) return std::nullopt;
  kept.remove_prefix(kLocation.size() + 2);
  const std::string location(TakeUntil(kept, '\n'));
  HttpUrl to = from;
  to.target.clear();
  std::string text = location;
  if (location.starts_with("/") && !location.starts_with("//")) text = to.ToString() + location;
  auto parsed = ParseHttpUrl(text);
  if (!parsed || parsed->tls != from.tls || parsed->host != from.host || parsed->port != from.port) {
    return std::nullopt;
  }
  to.target = parsed->target;
  return to;
}

ExpositionLimits LimitsOf(const Config& config) {
  ExpositionLimits limits;
  limits.page_bytes = config.Size("max_body");
  limits.samples = static_cast<size_t>(config.Int("max_samples"));
  return limits;
}

size_t FailureOf(PageFault fault) noexcept {
  switch (fault) {
    case PageFault::kNone: return 0;
    case PageFault::kNotGzip: return static_cast<size_t>(HttpFailure::kProtocol);
    case PageFault::kTooLarge: return static_cast<size_t>(HttpFailure::kTooLarge);
    case PageFault::kSamples: return static_cast<size_t>(ScrapeFailure::kSamples);
    case PageFault::kFamilies: return static_cast<size_t>(ScrapeFailure::kFamilies);
    case PageFault::kCut: break;
  }
  return static_cast<size_t>(ScrapeFailure::kPage);
}

std::string_view NameOf(size_t failure) noexcept {
  constexpr std::string_view kOurs[] = {"credentials",      "content_type",      "page",
                                        "too_many_samples", "too_many_families", "reader_hung",
                                        "reader_failed"};
  if (failure >= kHttpFailures) return kOurs[failure - kHttpFailures];
  return HttpFailureName(static_cast<HttpFailure>(failure));
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
  if (target.Text("url").empty()) return;  // the loader reports it
  if (const auto url = TargetUrl(target)) CheckRemote(target.Group(kTransportKey), *url, faults);
  else faults.Refuse(target, "url", url.error());
  SeriesRules::Check(target, faults);
}

std::string TargetName(const Config& target) {
  if (!target.Text("name").empty()) return target.Text("name");
  const auto url = TargetUrl(target);
  if (!url) return target.Text("url");
  const bool v6 = url->host.find(':') != std::string::npos;
  return (v6 ? "[" + url->host + "]" : url->host) + ":" + std::to_string(url->port);
}

std::string TakeFreeName(const std::string& name, std::set<std::string>& taken) {
  std::string free = name;
  for (int number = 2; !taken.insert(free).second; ++number) free = name + "-" + std::to_string(number);
  return free;
}

EntityRef TargetEntity(const Config& target, std::string_view name) {
  std::vector<AttributeSet::Attribute> attributes;
  for (const auto& [key, value] : target.TextMap("attributes"))
    attributes.push_back({key, std::string_view(value)});
  attributes.push_back({"target", name});
  return MakeRef<Entity>("target", AttributeSet(attributes));
}

Result<std::unique_ptr<PageTarget>> PageTarget::Make(const Config& target, Options options, Env& env) {
  if (!env.http || !env.io) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(HttpUrl url, TargetUrl(target));
  // On the same machine compression costs more than it saves.
  const TransportOptions transport = target.Group(kTransportKey);
  const bool local = !transport.Text("unix_socket").empty() || IsLoopbackHost(url.host);
  const RemoteAccess::Fields fields{kAcceptFields, local ? "" : "Accept-Encoding: gzip\r\n"};
  ASSIGN_OR_RETURN(RemoteAccess access, RemoteAccess::Make(transport, url, fields));
  return std::unique_ptr<PageTarget>(new PageTarget(target, url, std::move(access), std::move(options), env));
}

PageTarget::PageTarget(const Config& target, const HttpUrl& url, RemoteAccess access, Options options,
                       Env& env)
    : clock_(*env.clock),
      client_(*env.http),
      options_(std::move(options)),
      url_(url.Shown()),
      http_{url, TransportOptions(target.Group(kTransportKey)).Text("unix_socket"), {}},
      limits_(LimitsOf(target)),
      timeout_(TimeoutOf(target)),
      access_(std::move(access)) {
  const bool timestamps = target.Bool("honor_timestamps");
  if (target.Bool("isolate")) {
    isolated_.reset(new Isolated{PageProcess(limits_, env), DecodedPage(limits_, timestamps)});
    isolated_->process.KeepRunning();
  } else {
    page_ = std::make_unique<ScrapedPage>(limits_, timestamps);
  }
  http_.limits.body_bytes = limits_.page_bytes;
  http_.limits.keep = kLocation;
  channels_.push_back(Open(url.target));
  if (!options_.other_path.empty() && options_.other_path != url.target)
    channels_.push_back(Open(options_.other_path));
  accessible_ = access_.Refresh();
}

void PageTarget::Fetch(Instant deadline, std::function<void(Status)> done) {
  started_ = clock_.Now();
  if (!accessible_) {
    finished_ = started_;
    return done(Ok());
  }
  const Duration left = std::min(timeout_, deadline - started_);
  const Duration reserve = std::min(left / 10, kLongestReserve);
  const Duration timeout = left - reserve;
  ends_ = started_ + (left - reserve / 4);
  headers_ = access_.headers();
  AddTimeout(timeout);
  Query(*channels_[at_], {.timeout = timeout, .last = channels_.size() == 1}, std::move(done));
}

std::unique_ptr<HttpChannel> PageTarget::Open(const std::string& path) {
  HttpTarget http = http_;
  http.url.target = path;
  return client_.Open(std::move(http));
}

void PageTarget::Query(HttpChannel& channel, Request request, std::function<void(Status)> done) {
  const Duration left = request.timeout - std::min(request.timeout, clock_.Now() - started_);
  HttpGet get{headers_, access_.tls(), left, std::move(body_)};
  channel.Get(std::move(get),
              [this, request, done = std::move(done)](HttpReply& reply) { OnReply(reply, request, done); });
}

void PageTarget::OnReply(HttpReply& reply, Request request, std::function<void(Status)> done) {
  constexpr int kNotFound = 404;
  if (reply.status == kNotFound && !request.last) {
    request.last = true;
    at_ = (at_ + 1) % channels_.size();
    body_ = std::move(reply.body);
    return Query(*channels_[at_], request, std::move(done));
  }
  if (request.redirects < kMostRedirects) {
    const HttpUrl& here = request.redirects == 0 ? http_.url : redirect_url_;
    if (auto next = RedirectOf(reply, here)) {
      ++request.redirects;
      body_ = std::move(reply.body);
      if (!redirect_ || redirect_url_.target != next->target) redirect_ = Open(next->target);
      redirect_url_ = std::move(*next);
      return Query(*redirect_, request, std::move(done));
    }
  }
  std::swap(reply_, reply);
  finished_ = clock_.Now();
  Answered(std::move(done));
}

bool PageTarget::IsPage() const { return reply_.failure == HttpFailure::kNone && format_; }

void PageTarget::Answered(std::function<void(Status)> done) {
  format_ = DetectExpositionFormat(reply_.content_type);
  if (!isolated_ || !IsPage()) return done(Ok());
  isolated_->process.Query({reply_.body, *format_, reply_.gzip}, ends_ - finished_,
                           [done = std::move(done)] { done(Ok()); });
}

void PageTarget::AddTimeout(Duration timeout) {
  char text[32];
  double seconds_left = std::chrono::duration<double>(timeout).count();
  auto [end, error] = std::to_chars(text, text + sizeof text, seconds_left);
  headers_ += "X-Prometheus-Scrape-Timeout-Seconds: ";
  headers_.append(text, end);
  headers_ += "\r\n";
}

Scrape PageTarget::Read() {
  Scrape scrape;
  if (!accessible_) {
    scrape.Fail(static_cast<size_t>(ScrapeFailure::kCredentials), accessible_);
  } else if (reply_.failure != HttpFailure::kNone) {
    scrape.Fail(static_cast<size_t>(reply_.failure), {HttpFailureCode(reply_.failure), reply_.detail});
  } else if (!format_) {
    scrape.Fail(static_cast<size_t>(ScrapeFailure::kContentType),
                {Code::kDataLoss,
                 "answers with " + Printable(reply_.content_type) + ", which is not a metrics page"});
  } else if (const auto reading = ReadBody(); !reading) {
    const bool hung = reading.error().code == Code::kTimeout;
    scrape.Fail(static_cast<size_t>(hung ? ScrapeFailure::kReaderHung : ScrapeFailure::kReaderFailed),
                reading.error());
  } else {
    if (reading->read()) {
      scrape.page = {reading->page_bytes, reading->fault == PageFault::kNone};
      LogBadLines();
    }
    if (reading->fault != PageFault::kNone) scrape.Fail(FailureOf(reading->fault), reading->status());
  }
  return scrape;
}

Result<PageReading> PageTarget::ReadBody() {
  if (isolated_) return isolated_->process.Take(isolated_->page);
  return gpulens::ReadPage({reply_.body, *format_, reply_.gzip}, limits_.page_bytes, unpacked_, *page_);
}

const ParsedPage& PageTarget::page() const noexcept {
  if (isolated_) return isolated_->page;
  return *page_;
}

void PageTarget::Release() {
  body_ = std::move(reply_.body);
  FreeLarge(body_);
  FreeLarge(unpacked_);
  if (isolated_) isolated_->process.KeepRunning();
  accessible_ = access_.Refresh();
}

void PageTarget::LogBadLines() const {
  const ExpositionReport& report = page().report();
  if (report.bad_lines > 0 && !page().bad_examples().empty()) {
    const auto& example = page().bad_examples().front();
    Log(LogLevel::kWarn, "targets", "bad_lines",
        url_ + ": " + std::to_string(report.bad_lines) + " lines cannot be read, the first is line " +
            std::to_string(example.line) + " (" + std::string(LineErrorName(example.error)) +
            "): " + Printable(example.excerpt),
        options_.name);
  }
}

ScrapeRecord::ScrapeRecord(std::string_view target, std::string_view url, AttributeSet configured)
    : entity_(
          MakeRef<Entity>("target", AttributeSet({{"target", target}}), EntityRef{}, std::move(configured))),
      url_(url) {}

void ScrapeRecord::Isolated(const PageProcess& process) {
  process_ = &process;
  const std::string name = "targets/" + std::string(entity_->attributes.Text("target"));
  reader_ = MakeRef<Entity>("reader", AttributeSet({{"reader", std::string_view(name)}}));
}

void ScrapeRecord::Declare(SeriesTable& table) {
  declared_ = true;
  up_ = table.Declare(kSelfScrapeUp, entity_);
  duration_ = table.Declare(kSelfScrapeDuration, entity_);
  samples_series_ = table.Declare(kSelfScrapeSamples, entity_);
  size_ = table.Declare(kSelfScrapeSize, entity_);
  parse_errors_ = table.Declare(kSelfScrapeParseErrors, entity_);
  info_ = table.Declare(kSelfScrapeInfo, entity_, {{"url", std::string_view(url_)}});
  for (size_t i = 1; i < kScrapeFailures; ++i) {
    if (i >= static_cast<size_t>(ScrapeFailure::kReaderHung) && !process_) break;
    errors_[i] = table.Declare(kSelfScrapeErrors, entity_, {{"reason", NameOf(i)}});
  }
  for (size_t i = 0; process_ && i < starts_.size(); ++i) {
    const auto reason = static_cast<PageProcess::StartReason>(i);
    if (reason == PageProcess::StartReason::kReload) continue;  // a new configuration is a new target
    starts_[i] = table.Declare(kSelfDriverStarts, reader_, {{"reason", reader::StartReasonName(reason)}});
  }
  if (!report_.drops) return;
  for (size_t i = 0; i < kSeriesDrops; ++i) {
    const auto drop = static_cast<SeriesDrop>(i);
    if (drop == SeriesDrop::kNotCombined && !report_.drops->folds) continue;
    dropped_[i] = table.Declare(kSelfScrapeSeriesDropped, entity_, {{"reason", SeriesDropName(drop)}});
  }
  if (report_.drops->folds) folded_ = table.Declare(kSelfScrapeSeriesFolded, entity_);
}

void ScrapeRecord::Page(const ExpositionReport& report, size_t body_bytes) {
  has_page_ = true;
  samples_ = report.samples;
  bytes_ = body_bytes;
  bad_lines_ += report.bad_lines;
  duplicates_ = report.duplicates;
}

void ScrapeRecord::Report(const PageReport& report) {
  if (report.drops) report_.drops = report.drops;
  if (report.unknown_families) report_.unknown_families = report.unknown_families;
}

void ScrapeRecord::Write(size_t failure, Duration took, FrameWriter& out) {
  Failed(failure);
  Prepare(out.table());
  out.Set(up_, failure == 0 ? 1 : 0);
  out.Set(duration_, static_cast<double>(took.count()) * 1e-9);
  if (has_page_) {
    out.Set(samples_series_, samples_);
    out.Set(size_, bytes_);
  }
  if (has_page_ && report_.unknown_families)
    out.DeclareAndSet(unknown_, kSelfScrapeFamiliesUnknown, entity_, {}, *report_.unknown_families);
  if (has_page_ && report_.drops) WriteDrops(out);
  has_page_ = false;
  out.Set(parse_errors_, bad_lines_);
  out.Set(info_, 1);
  for (size_t i = 1; i < kScrapeFailures; ++i) {
    if (errors_[i]) out.Set(errors_[i], failures_[i]);
  }
  for (size_t i = 0; i < starts_.size(); ++i) {
    if (starts_[i]) out.Set(starts_[i], process_->starts()[i]);
  }
}

void ScrapeRecord::WriteDrops(FrameWriter& out) {
  SeriesDrops drops = *report_.drops;
  drops[SeriesDrop::kDuplicate] += duplicates_;
  for (size_t i = 0; i < kSeriesDrops; ++i) {
    if (dropped_[i]) out.Set(dropped_[i], drops.dropped[i]);
  }
  if (folded_) out.Set(folded_, drops.folded);
}

}  // namespace gpulens
