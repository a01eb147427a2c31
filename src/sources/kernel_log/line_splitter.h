// Lines out of pieces of a stream, with a limit.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::kernel_log {

// Not thread-safe. Keeps its memory.
class LineSplitter {
 public:
  static constexpr size_t kMaxKept = 64 << 10;

  // Calls `visit(line)` for each line that ends in `bytes`. A line longer than kMaxKept is dropped whole and
  // counted.
  template <class Visit>
  void Feed(std::string_view bytes, Visit&& visit) {
    while (!bytes.empty()) {
      size_t end = bytes.find('\n');
      std::string_view piece = bytes.substr(0, end);
      if (!skipping_ && kept_.size() + piece.size() > kMaxKept) skipping_ = true;
      if (end == std::string_view::npos) {
        if (skipping_) kept_.clear();
        else kept_ += piece;
        return;
      }
      if (skipping_) {
        ++too_long_;
      } else if (kept_.empty()) {
        visit(piece);
      } else {
        kept_ += piece;
        visit(std::string_view(kept_));
      }
      skipping_ = false;
      kept_.clear();
      bytes.remove_prefix(end + 1);
    }
  }
  void Reset() noexcept {
    kept_.clear();
    skipping_ = false;
  }
  uint64_t too_long() const noexcept { return too_long_; }

 private:
  std::string kept_;
  bool skipping_ = false;
  uint64_t too_long_ = 0;
};

}  // namespace gpulens::kernel_log
