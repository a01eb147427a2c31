// A target's page: its configuration, the HTTP request (redirects on the same server are followed), the
// parser that follows the page from scrape to scrape, here or in a reader process, and self-metrics. Does not
// interpret the page.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "core/frame_writer.h"
#include "net/client/http_client.h"
#include "plugins/plugin.h"
#include "plugins/remote_access.h"
#include "scrape/page_process.h"
#include "scrape/series_rules.h"
#include "wire/exposition/exposition_page.h"
#include "wire/exposition/exposition_parser.h"
#include "wire/exposition/page_reply.h"

namespace gpulens {

// Reasons of a failed scrape, after those of HttpFailure.
enum class ScrapeFailure : uint8_t {
  kCredentials = kHttpFailures,  // a password, token or certificate could not be read
  kContentType,                  // the answer is not an exposition page
  kPage,                         // the page is cut, or no line of it can be parsed
  kSamples,                      // more samples than the limit; the page was not read
  kFamilies,                     // more families than the limit; the page was not read
  kReaderHung,                   // the reader process of an isolated target did not reply in time
  kReaderFailed,                 // it ended, replied what is no page, or could not be started
};
inline constexpr size_t kScrapeFailures = kHttpFailures + 7;

// What the reader of a page knows about series of its own; nothing in it: not reported.
struct PageReport {
  std::optional<SeriesDrops> drops;        // of pages whose series are exported
  std::optional<size_t> unknown_families;  // of pages that are read by tables
};

// Self-metrics of a target's scrapes. Used inside its instance's run: not thread-safe.
class ScrapeRecord {
 public:
  // `configured`: the attributes that the target's own series get. They are on none of these series, but are
  // facts of their entity, for names that identify a target by them (Prometheus' `up`).
  ScrapeRecord(std::string_view target, std::string_view url, AttributeSet configured = {});

  // Reports the starts of the target's reader process from now on. Call before Prepare.
  void Isolated(const PageProcess& process);

  // Declares its series. Call before those of a page, which are many and may be limited.
  void Prepare(SeriesTable& table) {
    if (!declared_) Declare(table);
  }
  // A page was parsed.
  void Page(const ExpositionReport& report, size_t body_bytes);
  // Adds to what was reported before. Report the first drops before Prepare, so that their series are
  // declared even for a target at its limit.
  void Report(const PageReport& report);
  // Writes one run. `failure`: an HttpFailure or ScrapeFailure, 0 for a whole page.
  void Write(size_t failure, Duration took, FrameWriter& out);
  // Counts a failed run without writing.
  void Failed(size_t failure) noexcept { failures_[failure] += failure != 0; }

 private:
  void Declare(SeriesTable& table);
  void WriteDrops(FrameWriter& out);

  const EntityRef entity_;
  const std::string url_;
  bool declared_ = false, has_page_ = false;
  size_t samples_ = 0, bytes_ = 0;
  uint64_t bad_lines_ = 0;
  size_t duplicates_ = 0;  // samples of the last page
  PageReport report_;
  std::array<uint64_t, kScrapeFailures> failures_{};
  Series up_, duration_, samples_series_, size_, parse_errors_, info_, unknown_, folded_;
  std::array<Series, kSeriesDrops> dropped_;
  std::array<Series, kScrapeFailures> errors_;
  const PageProcess* process_ = nullptr;  // null: the target is not isolated
  EntityRef reader_;
  std::array<Series, std::tuple_size_v<PageProcess::Starts>> starts_;
};

// The Accept field for exposition pages, best format first.
inline constexpr std::string_view kAcceptFields =
    "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.9,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.8,text/plain;version=0.0.4;q=0.7,*/*;q=0.1\r\n";

// Parses the target's URL; a URL without a path gets /metrics.
Result<HttpUrl> TargetUrl(const Config& target);

// Returns the entity of the page's own families: the configured attributes, and `name` as target.
EntityRef TargetEntity(const Config& target, std::string_view name);

// Reports faults of one target's options.
void CheckTarget(const Config& target, ConfigFaults& faults);

// Returns the configured name of a target, else host and port of its URL.
std::string TargetName(const Config& target);
// Returns the first of `name`, name-2, name-3, … that is not in `taken`, and adds it there.
std::string TakeFreeName(const std::string& name, std::set<std::string>& taken);

// The outcome of one scrape.
struct Scrape {
  // An incomplete page lacks samples, which keep their old values.
  struct Page {
    size_t bytes = 0;
    bool complete = false;
  };

  size_t failure = 0;  // HttpFailure or ScrapeFailure; 0: a whole page was parsed
  Status status;
  std::optional<Page> page;  // parsed into PageTarget::page(), also where it is incomplete

  void Fail(size_t why, Status what) {
    failure = why;
    status = std::move(what);
  }
};

// Fetch runs on the I/O loop, the rest inside its instance's run: not thread-safe.
class PageTarget {
 public:
  struct Options {
    std::string name;  // subject of its log lines
    // Requested instead when the URL's path is not found (404), and from then on; empty: none.
    std::string other_path = {};
  };

  // kInvalidArgument when options contradict each other, kUnavailable without a network.
  static Result<std::unique_ptr<PageTarget>> Make(const Config& target, Options options, Env& env);

  // The Status is always ok: Read reports failures.
  void Fetch(Instant deadline, std::function<void(Status)> done);
  // Parses the answer to the last Fetch.
  Scrape Read();
  // Ends a run: releases large buffers and reads changed credentials.
  void Release();

  const ParsedPage& page() const noexcept;
  // Null unless the target is isolated.
  const PageProcess* process() const noexcept { return isolated_ ? &isolated_->process : nullptr; }
  const std::string& url() const noexcept { return url_; }
  const RemoteAccess& access() const noexcept { return access_; }
  Instant finished() const noexcept { return finished_; }
  Duration took() const noexcept { return finished_ - started_; }

 private:
  PageTarget(const Config& target, const HttpUrl& url, RemoteAccess access, Options options, Env& env);
  void AddTimeout(Duration timeout);
  // One scrape: all of its requests.
  struct Request {
    Duration timeout{};
    bool last = false;  // no other path is left
    int redirects = 0;  // followed so far
  };
  std::unique_ptr<HttpChannel> Open(const std::string& path);
  void Query(HttpChannel& channel, Request request, std::function<void(Status)> done);
  void OnReply(HttpReply& reply, Request request, std::function<void(Status)> done);
  void Answered(std::function<void(Status)> done);
  bool IsPage() const;
  Result<PageReading> ReadBody();
  void LogBadLines() const;

  const Clock& clock_;
  HttpClient& client_;
  const Options options_;
  const std::string url_;
  HttpTarget http_;  // as configured
  const ExpositionLimits limits_;
  const Duration timeout_;
  RemoteAccess access_;
  Status accessible_;
  // One of them reads the page.
  struct Isolated {
    PageProcess process;
    DecodedPage page;
  };
  std::unique_ptr<ScrapedPage> page_;
  std::unique_ptr<Isolated> isolated_;
  Instant started_, finished_, ends_;
  std::string headers_, body_, unpacked_;
  HttpReply reply_;
  std::optional<ExpositionFormat> format_;  // of the reply
  size_t at_ = 0;                           // the channel that is used first
  // Of the URL and of its other path; and of the last redirect. Last members: they end before what their
  // callbacks use.
  std::vector<std::unique_ptr<HttpChannel>> channels_;
  HttpUrl redirect_url_;
  std::unique_ptr<HttpChannel> redirect_;
};

}  // namespace gpulens
