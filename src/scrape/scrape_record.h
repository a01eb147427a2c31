// What a target's scrapes were like, as series of our own.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/frame_writer.h"
#include "net/client/http_client.h"
#include "scrape/series_losses.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

// Why a scrape failed: those of HTTP, and ours.
enum class ScrapeFailure : uint8_t {
  kCredentials = kHttpFailures,  // a password, token or certificate could not be read
  kContentType,                  // what came is no exposition page
  kPage,                         // it is one, but cut or without a line that makes sense
  kSamples,                      // it has more samples than it may, and was not read
  kFamilies,                     // likewise, of families
};
inline constexpr size_t kScrapeFailures = kHttpFailures + 5;

// Used inside its instance's run: not thread-safe.
class ScrapeRecord {
 public:
  // `configured`: the attributes that the target's own series get. They are on none of these series, but are
  // facts of their entity, for names that tell a target by them (Prometheus' `up`).
  ScrapeRecord(std::string_view target, std::string_view url, AttributeSet configured = {});

  // Makes its series; call before a page's, which may be limited and are many.
  void Prepare(SeriesTable& table) {
    if (!declared_) Declare(table);
  }
  void Page(const ExpositionReport& report, size_t body_bytes);
  void Failed(size_t failure) noexcept { ++failures_[failure]; }
  // Families that no table knows: for pages that are read by tables.
  void UnknownFamilies(size_t count) noexcept {
    unknown_families_ = count;
    knows_families_ = true;
  }
  // What of the page is not passed on; for pages whose series are. First before Prepare, so that they are
  // told of a target that has as many series as it may.
  void Losses(const SeriesLosses& losses) noexcept {
    losses_ = losses;
    knows_losses_ = true;
  }
  // One run: what was told since the last one.
  void Write(bool up, Duration took, FrameWriter& out);

 private:
  void Declare(SeriesTable& table);
  void WriteLosses(FrameWriter& out);

  const EntityRef entity_;
  const std::string url_;
  bool declared_ = false, has_page_ = false, knows_families_ = false, knows_losses_ = false;
  size_t samples_ = 0, bytes_ = 0, unknown_families_ = 0;
  uint64_t bad_lines_ = 0;
  size_t twice_ = 0;  // samples of the last page
  SeriesLosses losses_;
  std::array<uint64_t, kScrapeFailures> failures_{};
  Series up_, duration_, samples_series_, size_, parse_errors_, info_, unknown_, folded_;
  std::array<Series, kSeriesLosses> dropped_;
  std::array<Series, kScrapeFailures> errors_;
};

}  // namespace gpulens
