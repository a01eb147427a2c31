#include "net/http2/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "base/check.h"

namespace gpulens {
// Budget of a peer for frames without content: spent by frames, earned by work and time.
class Http2Budget {
 public:
  Http2Budget(double most, double per_second) noexcept : most_(most), per_second_(per_second), left_(most) {}

  void Spend(double cost) noexcept { left_ -= cost; }
  void Earn(double amount) noexcept { left_ = std::min(left_ + amount, most_); }
  // Earns for the time since the last call.
  void Elapse(Duration now) noexcept {
    if (begun_ && now > last_) Earn(std::chrono::duration<double>(now - last_).count() * per_second_);
    last_ = begun_ ? std::max(last_, now) : now;
    begun_ = true;
  }
  bool overdrawn() const noexcept { return left_ < 0; }

 private:
  double most_, per_second_, left_;
  Duration last_{};
  bool begun_ = false;
};

// A header block that is being received, kept within limits.
class Http2Block {
 public:
  // A block this many times above its limit is an attack.
  static constexpr size_t kTooManyTimes = 4;
  // 16 KiB each, far above what any limit allows.
  static constexpr int kMaxContinuations = 8;

  Http2Block(size_t max_bytes, size_t max_count) noexcept : max_bytes_(max_bytes), max_count_(max_count) {}

  void Begin() noexcept {
    fields_.Clear();
    bytes_ = count_ = 0;
    continuations_ = 0;
  }
  // Both are false when the peer should be shut out. Fields above the limit are not kept.
  bool Continue() noexcept { return ++continuations_ <= kMaxContinuations; }
  bool Add(std::string_view name, std::string_view value) {
    bytes_ += name.size() + value.size() + Http2Fields::kOverhead;
    ++count_;
    if (!too_large()) fields_.Add(name, value);
    return bytes_ <= kTooManyTimes * max_bytes_ && count_ <= kTooManyTimes * max_count_;
  }

  bool too_large() const noexcept { return bytes_ > max_bytes_ || count_ > max_count_; }
  const Http2Fields& fields() const noexcept { return fields_; }

 private:
  const size_t max_bytes_, max_count_;
  Http2Fields fields_;
  size_t bytes_ = 0, count_ = 0;
  int continuations_ = 0;
};

// Reads a body in frames.
class Http2BodyReader {
 public:
  explicit Http2BodyReader(Http2Body body) : body_(std::move(body)) {}

  // Copies the next bytes, at most `room`; returns their number.
  size_t Take(char* into, size_t room) noexcept {
    size_t filled = Part(body_.head, 0, into, room);
    if (body_.rest) filled += Part(*body_.rest, body_.head.size(), into + filled, room - filled);
    return filled;
  }
  bool finished() const noexcept { return !body_.open && empty(); }
  // All bytes so far are sent.
  bool empty() const noexcept { return sent_ >= body_.head.size() + (body_.rest ? body_.rest->size() : 0); }
  const Http2Body& body() const noexcept { return body_; }
  bool open() const noexcept { return body_.open; }
  // Of an open body.
  void Append(std::string_view bytes) {
    CHECK(!body_.rest);
    if (empty()) {
      body_.head.clear();
      sent_ = 0;
    }
    body_.head.append(bytes);
  }
  void End(Http2Fields trailers) {
    body_.open = false;
    body_.trailers = std::move(trailers);
  }
  // Open, and nghttp2 waits for more bytes.
  bool waits = false;
  // The last frame of the stream is sent.
  void Close() noexcept {
    body_ = {};
    closed_ = true;
  }
  bool closed() const noexcept { return closed_; }

 private:
  size_t Part(std::string_view piece, size_t begins, char* into, size_t room) noexcept {
    if (sent_ < begins || sent_ - begins >= piece.size()) return 0;
    piece = piece.substr(sent_ - begins, room);
    std::memcpy(into, piece.data(), piece.size());
    sent_ += piece.size();
    return piece.size();
  }

  Http2Body body_;
  size_t sent_ = 0;
  bool closed_ = false;
};

namespace {

// Output made at once, plus at most a frame.
constexpr size_t kOutputBytes = 64u << 10;
// Frames waiting in nghttp2 above which nothing is read; each received frame adds one at most.
constexpr size_t kWaitingFrames = 256;
// Waiting replies to SETTINGS and PING: more than one Feed can cause; the budget ends it first.
constexpr size_t kMaxAnswers = 4096;
// Costs and earnings of frames. A finished stream pays for the window updates and pings around it.
constexpr double kCostOfReset = 2, kCostOfContinuation = 4, kCostOfWrongFrame = 4, kEarnedByStream = 8,
                 kEarnedByData = 3;
constexpr size_t kTinyData = 64;

std::vector<nghttp2_nv> Pairs(const Http2Fields& fields) {
  auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  std::vector<nghttp2_nv> pairs;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto [name, value] = fields[i];
    pairs.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return pairs;
}

std::string_view Text(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Whether a call succeeded that fails only when it comes too late, or without memory.
bool Worked(int result) {
  CHECK(result != NGHTTP2_ERR_NOMEM);
  return result == 0;
}

}  // namespace

struct Http2Session::Impl {
  Impl(Side which, const Http2Limits& given, Http2Handler& callee)
      : side(which),
        limits(given),
        handler(callee),
        block(given.header_bytes, given.header_count),
        budget(given.idle_frames, given.idle_frames_per_second) {}
  ~Impl() {
    silent = true;  // nghttp2 reports every open stream
    nghttp2_session_del(session);
  }

  void Open();
  void AddCallbacks(nghttp2_session_callbacks* calls);
  void Settings();
  void Spend(double cost) {
    budget.Spend(cost);
    if (budget.overdrawn()) Doom("too many frames without data");
  }
  void Doom(std::string what) {
    if (!doomed) why = std::move(what);
    doomed = true;
  }
  void BeginFrame(const nghttp2_frame_hd& frame);
  void EndFrame(const nghttp2_frame& frame);
  void SentFrame(const nghttp2_frame_hd& frame);
  void CloseStream(int32_t stream, uint32_t error);
  ssize_t Read(int32_t stream, Http2BodyReader& from, uint8_t* into, size_t room, uint32_t& flags);
  template <class Submit>
  int32_t Send(Http2Body body, Submit submit);
  template <class Change>
  bool Continue(int32_t stream, Change change);

  const Side side;
  const Http2Limits limits;
  Http2Handler& handler;
  nghttp2_session* session = nullptr;
  // By pointer: nghttp2 holds them until the stream closes.
  std::unordered_map<int32_t, std::unique_ptr<Http2BodyReader>> bodies;
  size_t unsent = 0;  // bodies that are not completely sent
  Http2Block block;
  Http2Budget budget;
  bool doomed = false, dead = false, silent = false, foreign = false;
  std::string why;
  std::string output;
  size_t taken = 0;  // of output
};

void Http2Session::Impl::BeginFrame(const nghttp2_frame_hd& frame) {
  switch (frame.type) {
    case NGHTTP2_DATA:
      if (frame.length < kTinyData && (frame.flags & NGHTTP2_FLAG_END_STREAM) == 0) Spend(1);
      break;
    case NGHTTP2_CONTINUATION:
      Spend(kCostOfContinuation);
      if (!block.Continue()) Doom("a header block in too many frames");
      break;
    case NGHTTP2_RST_STREAM: Spend(kCostOfReset); break;
    default: Spend(1); break;
  }
}

void Http2Session::Impl::EndFrame(const nghttp2_frame& frame) {
  const bool ended = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (frame.hd.type == NGHTTP2_HEADERS) {
    handler.OnFields(frame.hd.stream_id, block.fields(), ended, block.too_large());
  } else if (frame.hd.type == NGHTTP2_DATA && ended) {
    handler.OnEnd(frame.hd.stream_id);
  } else if (frame.hd.type == NGHTTP2_GOAWAY) {
    handler.OnGoaway(frame.goaway.error_code);
  }
}

void Http2Session::Impl::SentFrame(const nghttp2_frame_hd& frame) {
  if (frame.type == NGHTTP2_DATA) budget.Earn(kEarnedByData);
  if (frame.type != NGHTTP2_DATA && frame.type != NGHTTP2_HEADERS) return;
  if ((frame.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  auto found = bodies.find(frame.stream_id);
  if (found == bodies.end() || found->second->closed()) return;
  found->second->Close();
  --unsent;
  if (side == Side::kServer && nghttp2_session_get_stream_remote_close(session, frame.stream_id) == 0)
    Worked(nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame.stream_id, NGHTTP2_NO_ERROR));
}

void Http2Session::Impl::CloseStream(int32_t stream, uint32_t error) {
  if (error == 0) budget.Earn(kEarnedByStream);
  if (auto found = bodies.find(stream); found != bodies.end()) {
    if (!found->second->closed() && !found->second->waits) --unsent;
    bodies.erase(found);
  }
  if (!silent) handler.OnClosed(stream, error);
}

// Reads the next part of a body into a frame.
ssize_t Http2Session::Impl::Read(int32_t stream, Http2BodyReader& from, uint8_t* into, size_t room,
                                 uint32_t& flags) {
  const size_t filled = from.Take(reinterpret_cast<char*>(into), room);
  if (filled == 0 && from.open()) {
    from.waits = true;
    --unsent;
    return NGHTTP2_ERR_DEFERRED;
  }
  if (!from.finished()) return static_cast<ssize_t>(filled);
  flags |= NGHTTP2_DATA_FLAG_EOF;
  if (from.body().trailers.size() > 0) {
    const auto pairs = Pairs(from.body().trailers);
    if (Worked(nghttp2_submit_trailer(session, stream, pairs.data(), pairs.size())))
      flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  }
  return static_cast<ssize_t>(filled);
}

// `submit` is called with the provider of the body, or null, and returns the stream or an error.
template <class Submit>
int32_t Http2Session::Impl::Send(Http2Body body, Submit submit) {
  const bool none = body.none;
  auto from = std::make_unique<Http2BodyReader>(std::move(body));
  nghttp2_data_provider provider{};
  provider.source.ptr = from.get();
  provider.read_callback = [](nghttp2_session*, int32_t stream, uint8_t* into, size_t room, uint32_t* flags,
                              nghttp2_data_source* source, void* self) {
    return static_cast<Impl*>(self)->Read(stream, *static_cast<Http2BodyReader*>(source->ptr), into, room,
                                          *flags);
  };
  const int32_t stream = submit(none ? nullptr : &provider);
  CHECK(stream != NGHTTP2_ERR_NOMEM);
  if (stream <= 0) return 0;
  bodies[stream] = std::move(from);
  ++unsent;
  return stream;
}

// Changes an open body and lets it be sent.
template <class Change>
bool Http2Session::Impl::Continue(int32_t stream, Change change) {
  auto found = bodies.find(stream);
  if (dead || found == bodies.end() || !found->second->open()) return false;
  Http2BodyReader& body = *found->second;
  change(body);
  if (!body.waits) return true;
  body.waits = false;
  ++unsent;
  return Worked(nghttp2_session_resume_data(session, stream));
}

void Http2Session::Impl::AddCallbacks(nghttp2_session_callbacks* calls) {
  nghttp2_session_callbacks_set_on_begin_frame_callback(
      calls, [](nghttp2_session*, const nghttp2_frame_hd* frame, void* self) {
        return static_cast<Impl*>(self)->BeginFrame(*frame), 0;
      });
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      calls, [](nghttp2_session*, const nghttp2_frame*, void* self) {
        return static_cast<Impl*>(self)->block.Begin(), 0;
      });
  nghttp2_session_callbacks_set_on_header_callback(
      calls, [](nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size,
                const uint8_t* value, size_t value_size, uint8_t, void* self) {
        auto& impl = *static_cast<Impl*>(self);
        if (impl.block.Add(Text(name, name_size), Text(value, value_size))) return 0;
        impl.Doom("header fields far above the limit");
        return static_cast<int>(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE);
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      calls, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
        return static_cast<Impl*>(self)->EndFrame(*frame), 0;
      });
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
      calls, [](nghttp2_session*, const nghttp2_frame*, int, void* self) {
        return static_cast<Impl*>(self)->Spend(kCostOfWrongFrame), 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      calls, [](nghttp2_session*, uint8_t, int32_t stream, const uint8_t* bytes, size_t size, void* self) {
        return static_cast<Impl*>(self)->handler.OnData(stream, Text(bytes, size)), 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      calls, [](nghttp2_session*, int32_t stream, uint32_t error, void* self) {
        return static_cast<Impl*>(self)->CloseStream(stream, error), 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      calls, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
        return static_cast<Impl*>(self)->SentFrame(frame->hd), 0;
      });
  // A request that was waiting when the peer sent GOAWAY.
  nghttp2_session_callbacks_set_on_frame_not_send_callback(
      calls, [](nghttp2_session*, const nghttp2_frame* frame, int, void* self) {
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
          static_cast<Impl*>(self)->CloseStream(frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
        return 0;
      });
}

void Http2Session::Impl::Open() {
  nghttp2_session_callbacks* calls = nullptr;
  nghttp2_option* options = nullptr;
  CHECK(nghttp2_session_callbacks_new(&calls) == 0 && nghttp2_option_new(&options) == 0);
  AddCallbacks(calls);
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_max_reserved_remote_streams(options, 0);
  nghttp2_option_set_max_outbound_ack(options, kMaxAnswers);
  const auto make = side == Side::kServer ? &nghttp2_session_server_new2 : &nghttp2_session_client_new2;
  CHECK(make(&session, calls, this, options) == 0);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(calls);
  Settings();
}

void Http2Session::Impl::Settings() {
  const nghttp2_settings_entry entries[] = {
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.header_bytes)},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, side == Side::kServer ? limits.streams : 0},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  };
  const size_t count = side == Side::kServer ? 3 : 4;  // a server must not send ENABLE_PUSH
  CHECK(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, count) == 0);
  CHECK(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                              static_cast<int32_t>(limits.connection_window)) == 0);
}

Http2Session::Http2Session(Side side, const Http2Limits& limits, Http2Handler& handler)
    : impl_(std::make_unique<Impl>(side, limits, handler)) {
  impl_->Open();
}
Http2Session::~Http2Session() = default;

bool Http2Session::Feed(std::string_view bytes, Duration now) {
  Impl& my = *impl_;
  if (my.dead) return false;
  my.budget.Elapse(now);
  const ssize_t result =
      nghttp2_session_mem_recv(my.session, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  CHECK(result != NGHTTP2_ERR_NOMEM);
  if (result < 0) {
    my.dead = true;
    my.foreign = result == NGHTTP2_ERR_BAD_CLIENT_MAGIC;
    if (!my.doomed) my.why = nghttp2_strerror(static_cast<int>(result));
    my.doomed |= result == NGHTTP2_ERR_FLOODED;
    return false;
  }
  if (!my.doomed) return true;
  my.dead = true;
  Terminate(Http2Error::kEnhanceYourCalm);
  return false;
}

const std::string& Http2Session::why() const noexcept { return impl_->why; }
bool Http2Session::flooded() const noexcept { return impl_->doomed; }
bool Http2Session::no_http2() const noexcept { return impl_->foreign; }

std::string_view Http2Session::Output() {
  Impl& my = *impl_;
  if (my.taken == my.output.size()) {
    my.output.clear();
    my.taken = 0;
    while (my.output.size() < kOutputBytes) {
      const uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(my.session, &bytes);
      CHECK(size != NGHTTP2_ERR_NOMEM);
      if (size <= 0) break;
      my.output.append(Text(bytes, static_cast<size_t>(size)));
    }
  }
  return std::string_view(my.output).substr(my.taken);
}

void Http2Session::Sent(size_t bytes) {
  CHECK(bytes <= impl_->output.size() - impl_->taken);
  impl_->taken += bytes;
  if (impl_->taken < impl_->output.size()) return;
  impl_->output = {};  // an idle connection holds no buffer
  impl_->taken = 0;
}

bool Http2Session::wants_input() const noexcept {
  return nghttp2_session_get_outbound_queue_size(impl_->session) < kWaitingFrames;
}

bool Http2Session::finished() const noexcept {
  return impl_->taken == impl_->output.size() && !nghttp2_session_want_read(impl_->session) &&
         !nghttp2_session_want_write(impl_->session);
}

size_t Http2Session::sending() const noexcept { return impl_->unsent; }

int32_t Http2Session::Request(const Http2Fields& fields, Http2Body body) {
  const auto pairs = Pairs(fields);
  return impl_->Send(std::move(body), [&](const nghttp2_data_provider* from) {
    return nghttp2_submit_request(impl_->session, nullptr, pairs.data(), pairs.size(), from, nullptr);
  });
}

bool Http2Session::Answer(int32_t stream, const Http2Fields& fields, Http2Body body) {
  if (impl_->dead || impl_->bodies.contains(stream) || !nghttp2_session_find_stream(impl_->session, stream))
    return false;
  const auto pairs = Pairs(fields);
  return impl_->Send(std::move(body), [&](const nghttp2_data_provider* from) {
    const int result = nghttp2_submit_response(impl_->session, stream, pairs.data(), pairs.size(), from);
    return result == 0 ? stream : result;
  }) != 0;
}

bool Http2Session::Append(int32_t stream, std::string_view bytes) {
  return impl_->Continue(stream, [&](Http2BodyReader& body) { body.Append(bytes); });
}

bool Http2Session::End(int32_t stream, Http2Fields trailers) {
  return impl_->Continue(stream, [&](Http2BodyReader& body) { body.End(std::move(trailers)); });
}

void Http2Session::Reset(int32_t stream, Http2Error error) {
  Worked(nghttp2_submit_rst_stream(impl_->session, NGHTTP2_FLAG_NONE, stream, static_cast<uint32_t>(error)));
}

void Http2Session::Drain() {
  const int32_t last = nghttp2_session_get_last_proc_stream_id(impl_->session);
  Worked(nghttp2_submit_goaway(impl_->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0));
}

void Http2Session::Terminate(Http2Error error) {
  Worked(nghttp2_session_terminate_session(impl_->session, static_cast<uint32_t>(error)));
}

}  // namespace gpulens
