// What a target's scrapes were like, as series of our own.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/frame_writer.h"
#include "net/client/http_client.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {

// Why a scrape failed: those of HTTP, and ours.
enum class ScrapeFailure : uint8_t {
  kCredentials = kHttpFailures,  // a password, token or certificate could not be read
  kContentType,                  // what came is no exposition page
  kPage,                         // it is one, but cut or without a line that makes sense
};
inline constexpr size_t kScrapeFailures = kHttpFailures + 3;

// Used inside its instance's run: not thread-safe.
class ScrapeRecord {
 public:
  ScrapeRecord(std::string_view target, std::string_view url);

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
  // One run: what was told since the last one.
  void Write(bool up, Duration took, FrameWriter& out);

 private:
  void Declare(SeriesTable& table);

  const EntityRef entity_;
  const std::string url_;
  bool declared_ = false, has_page_ = false, knows_families_ = false;
  size_t samples_ = 0, bytes_ = 0, unknown_families_ = 0;
  uint64_t bad_lines_ = 0;
  std::array<uint64_t, kScrapeFailures> failures_{};
  Series up_, duration_, samples_series_, size_, parse_errors_, info_, unknown_;
  std::array<Series, kScrapeFailures> errors_;
};

}  // namespace gpulens
