// How a connection writes its answers, and how it ends.
#include <utility>

#include "net/http/http_connection.h"

namespace gpulens {
namespace {

constexpr size_t kMaxDiscarded = 1 << 20;

}  // namespace

void HttpConnection::FillSlot(Slot& slot, HttpResponse response, bool last) {
  slot.ready = true;
  slot.close |= response.close || (finishing_ && last);
  shared_.stats.answers[static_cast<size_t>(response.status / 100) % 6].fetch_add(1,
                                                                                  std::memory_order_relaxed);
  std::string_view connection;
  if (slot.close) connection = "Connection: close\r\n";
  else if (slot.http10) connection = "Connection: keep-alive\r\n";
  slot.head = HttpHead(response, rules_->headers, connection);
  if (slot.head_only || !HttpHasBody(response.status)) return;
  slot.body = std::move(response.body);
  if (!stream_.is_tls()) slot.file = shared_.files.For(slot.body);
}

// Writes what is ready as far as it goes in one call: heads and bodies of many answers, or one file.
IoResult HttpConnection::WriteReady(size_t& total) {
  const Slot& first = slots_.front();
  if (first.file && sent_ >= first.head.size()) {
    total = first.size() - sent_;
    return stream_.SendFile(first.file->get(), sent_ - first.head.size(), total);
  }
  std::array<std::string_view, Stream::kMaxPieces> pieces;
  size_t count = 0, skip = sent_;
  bool more = false;
  for (const Slot& slot : slots_) {
    if (!slot.ready || count + 2 > pieces.size()) break;
    more = slot.file != nullptr;
    for (std::string_view piece :
         {std::string_view(slot.head), more ? std::string_view() : slot.body.bytes}) {
      size_t part = std::min(skip, piece.size());
      skip -= part;
      piece.remove_prefix(part);
      if (piece.empty()) continue;
      pieces[count++] = piece;
      total += piece.size();
    }
    if (slot.close || more) break;
  }
  return stream_.WriteSome({pieces.data(), count}, more);
}

void HttpConnection::Flush() {
  while (!gone() && !slots_.empty() && slots_.front().ready) {
    size_t total = 0;
    IoResult wrote = WriteReady(total);
    if (wrote.outcome == IoResult::Outcome::kFailed || wrote.outcome == IoResult::Outcome::kClosed)
      return Close();
    Sent(wrote.bytes);
    if (wrote.bytes < total) return stream_.WaitWritable();
  }
  if (gone() || lingering_ || !slots_.empty()) return;
  if (finishing_) return Linger();
  if (input_ended_) Close();
}

void HttpConnection::Sent(size_t bytes) {
  shared_.stats.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  progress_ += bytes;
  sent_ += bytes;
  size_t done = 0;
  bool close = false;
  while (done < slots_.size() && !close && slots_[done].ready && sent_ >= slots_[done].size()) {
    sent_ -= slots_[done].size();
    close = slots_[done++].close;
  }
  slots_.erase(slots_.begin(), slots_.begin() + static_cast<ptrdiff_t>(done));
  if (close) Linger();
}

// A reset for unread bytes would overtake the answer, so these are read for a while.
void HttpConnection::Linger() {
  slots_.clear();
  unparsed_ = {};
  last_taken_ = true;
  if (input_ended_) return Close();
  lingering_ = true;
  stream_.Shutdown();
  shared_.connections.Enter(*this, Phase::kLinger);
}

void HttpConnection::Discard(size_t bytes) {
  discarded_ += bytes;
  if (discarded_ > kMaxDiscarded) Close();
}

}  // namespace gpulens
