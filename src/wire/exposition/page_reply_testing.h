// For tests and the fuzzer of replies: pages through an encoder and a decoder, and replies that are broken.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "wire/exposition/exposition_testing.h"
#include "wire/exposition/page_reply.h"

namespace gpulens::exposition_testing {

// The series that a user of the page would have, who follows its changes alone.
class Follower {
 public:
  // Call after every page that was read. Checks what the contract of ParsedPage promises.
  void Follow(const ParsedPage& page) {
    for (uint32_t id : page.vanished()) CHECK(ids_.erase(id) == 1);
    for (uint32_t id : page.reshaped()) CHECK(ids_.contains(id));
    for (uint32_t id : page.appeared()) CHECK(ids_.insert(id).second);
    std::vector<uint32_t> all;
    page.Series(all);
    CHECK(std::ranges::equal(ids_, all));
    std::set<uint32_t> slots;
    std::vector<PageCell> cells;
    std::vector<PageLabel> labels;
    for (uint32_t id : all) {
      CHECK(page.family_of(id) < page.families().size() && page.families()[page.family_of(id)].alive);
      page.Cells(id, cells);
      CHECK(!cells.empty());
      for (const PageCell& cell : cells) {
        CHECK(cell.slot < page.values().size() && slots.insert(cell.slot).second);
        CHECK(BoundLabel(cell.role).empty() == page.BoundText(cell.slot).empty());
      }
      page.Labels(id, labels);
      for (const PageLabel& label : labels) CHECK(IsUtf8(label.name) && IsUtf8(label.value));
    }
    for (const PageExemplar& exemplar : page.exemplars()) {
      CHECK(slots.contains(exemplar.slot));
      page.ExemplarLabels(exemplar, labels);
    }
  }

 private:
  std::set<uint32_t> ids_;
};

// A page in a process, and its replies here.
struct TwoPages {
  explicit TwoPages(const ExpositionLimits& the_limits = {}) : limits(the_limits), decoded(limits) {
    Restart();
  }

  // Another process begins without memory.
  void Restart() {
    scraped = std::make_unique<ScrapedPage>(limits);
    encoder = std::make_unique<PageEncoder>(*scraped, limits);
  }
  PageReading Read(std::string_view body, ExpositionFormat format = ExpositionFormat::kText004) {
    const PageReading reading = ReadPage({body, format, false}, limits.page_bytes, unpacked, *scraped);
    encoder->Encode(reading, reply);
    const auto taken = decoded.Update(reply);
    CHECK(taken.ok());
    CHECK(taken->fault == reading.fault && taken->page_bytes == reading.page_bytes);
    if (reading.read()) follower.Follow(decoded);
    return *taken;
  }
  // The first difference between the two; empty: none. Of a page that was read.
  std::string Differ() const {
    const ExpositionReport &a = scraped->report(), &b = decoded.report();
    if (a.samples != b.samples || a.bad_lines != b.bad_lines || a.by_error != b.by_error ||
        a.duplicates != b.duplicates || a.type_conflicts != b.type_conflicts || a.truncated != b.truncated ||
        a.open_end != b.open_end)
      return "report";
    if (scraped->bad_examples().size() != decoded.bad_examples().size()) return "bad examples";
    const Lines left = PageLines(*scraped), right = PageLines(decoded);
    if (left == right) return {};
    const auto [one, other] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
    return "scraped: " + (one == left.end() ? "-" : *one) +
           "\ndecoded: " + (other == right.end() ? "-" : *other);
  }

  const ExpositionLimits limits;
  std::unique_ptr<ScrapedPage> scraped;
  std::unique_ptr<PageEncoder> encoder;
  DecodedPage decoded;
  Follower follower;
  std::string unpacked, reply;
};

// One input of the fuzzer. The first byte selects: pages, with a byte 0xFF between them, which must be equal
// on both sides; or a reply to a page of ours, patched by pairs of a place (two bytes) and a byte, then the
// rest of the input as a reply of its own. A reply is refused, or the page holds what it promises.
inline void TryReplies(std::string_view input) {
  if (input.empty()) return;
  const auto mode = static_cast<uint8_t>(input.front());
  input.remove_prefix(1);
  ExpositionLimits limits;
  limits.samples = 100;
  limits.families = 50;
  limits.line_bytes = 4096;
  limits.page_bytes = 1u << 20;
  TwoPages pages(limits);
  if (mode % 2 == 0) {
    const auto format = static_cast<ExpositionFormat>(mode / 2 % 3);
    for (int i = 0; i < 8; ++i) {
      const size_t cut = input.find('\xFF');
      if (pages.Read(input.substr(0, cut), format).read()) CHECK(pages.Differ().empty());
      if (cut == std::string_view::npos) break;
      input.remove_prefix(cut + 1);
      if (i % 3 == 2) pages.Restart();
    }
    return;
  }
  pages.Read(
      "# HELP h of it\n# TYPE h histogram\nh_bucket{a=\"1\",le=\"0.5\"} 1\nh_bucket{a=\"1\",le=\"+Inf\"} 2 # "
      "{t=\"x\"} 1 1\n"
      "h_sum{a=\"1\"} 3\nh_count{a=\"1\"} 2\n# TYPE c counter\nc_total{b=\"2\",d=\"3\"} 4 "
      "5\nc_total{b=\"4\",d=\"3\"} 6\n# EOF\n",
      ExpositionFormat::kOpenMetrics100);
  std::string reply = pages.reply;
  for (size_t patches = mode / 2 % 8; patches > 0 && input.size() >= 3; --patches) {
    const size_t at = static_cast<uint8_t>(input[0]) + 256u * static_cast<uint8_t>(input[1]);
    reply[at % reply.size()] = input[2];
    input.remove_prefix(3);
  }
  for (const std::string_view bytes : {std::string_view(reply), input, std::string_view(pages.reply)}) {
    const auto taken = pages.decoded.Update(bytes);
    if (taken.ok() && taken->read()) {
      pages.follower.Follow(pages.decoded);
      PageLines(pages.decoded);
    }
  }
}

}  // namespace gpulens::exposition_testing
