#include "scrape/page_process.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/parse.h"
#include "base/result.h"
#include "base/sandbox/sandbox.h"
#include "base/sanitizers.h"
#include "base/text.h"
#include "net/stream.h"

namespace gpulens {

namespace page_process {

// In front of the bytes of an answer.
struct RequestHead {
  static constexpr uint32_t kMark = 0x67617031;

  uint32_t mark = kMark;
  uint8_t format = 0, gzip = 0;
  uint16_t unused = 0;
  uint64_t bytes = 0;
};
// In front of a reply: its bytes.
using ReplyHead = uint64_t;

}  // namespace page_process

namespace {

using page_process::ReplyHead;
using page_process::RequestHead;

// Bytes of one packet at most: the kernel's buffers take any number of bytes up to twice as many.
constexpr size_t kPacket = 64u << 10;
constexpr size_t kMostStuck = 2;
// Larger buffers are freed between pages.
constexpr size_t kKeptRoom = 256u << 10;
// An ended process can be reaped some microseconds after its socket is closed; more where processors are
// busy.
constexpr int kReapMs = 200;

template <class T>
std::string_view BytesOf(const T& value) noexcept {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Result<ChildProcess> StartPageReader(int socket, const ExpositionLimits& limits) {
  ChildProcess::Options options;
  options.arguments = {"reader", "page", "--socket-fd=" + std::to_string(socket),
                       "--max-body=" + std::to_string(limits.page_bytes),
                       "--max-samples=" + std::to_string(limits.samples)};
  options.pass_fds = {{socket, socket}};
  return ChildProcess::Start(options);
}

}  // namespace

ProgramRule PageReaderRule() {
  ProgramRule rule{.path = ChildProcess::Options().program, .arguments = {"reader", "page"}};
  rule.prefixes = {"--socket-fd=", "--max-body=", "--max-samples="};
  rule.confines_itself = true;
  return rule;
}

void FreeLarge(std::string& buffer) {
  if (buffer.capacity() > kKeptRoom) std::string().swap(buffer);
}

// One answer and its reply, over the socket. On the loop, except where a comment names another thread.
class PageProcess::Exchange final : public StreamHandler, public std::enable_shared_from_this<Exchange> {
 public:
  enum class Outcome : uint8_t { kNone, kReplied, kHung, kClosed, kInvalid };

  Exchange(IoLoop& loop, size_t most_reply) : loop_(loop), most_reply_(most_reply) {}

  IoLoop& loop() noexcept { return loop_; }
  // Between queries, by any thread.
  void Connect(UniqueFd socket) { socket_ = std::move(socket); }
  Outcome outcome() const noexcept { return outcome_; }
  std::string_view reply() const noexcept { return reply_; }
  void Forget() {
    outcome_ = Outcome::kNone;
    FreeLarge(reply_);
  }

  void Query(const PageBody& body, Duration timeout, std::function<void()> done) {
    head_ = {.format = static_cast<uint8_t>(body.format),
             .gzip = static_cast<uint8_t>(body.gzip),
             .bytes = body.bytes.size()};
    body_ = body.bytes;
    head_sent_ = false;
    reply_head_.clear();
    reply_.clear();
    outcome_ = Outcome::kNone;
    done_ = std::move(done);
    if (socket_) {
      auto adopted = Stream::Adopt(loop_, std::move(socket_));
      stream_ = adopted ? std::move(*adopted) : Stream();
      stream_.SetHandler(this);
    }
    timer_ = loop_.After(timeout, [self = shared_from_this()] { self->Finish(Outcome::kHung); });
    stream_.WaitReadable();
    Send();
  }

  void OnWritable() override { Send(); }
  void OnReadable() override {
    const auto self = shared_from_this();
    // Others on the loop have their turn, too.
    constexpr int kPacketsInTurn = 16;
    for (int i = 0; i < kPacketsInTurn; ++i) {
      if (packet_.empty()) packet_.resize(kPacket);
      const IoResult got = stream_.ReadSome(packet_);
      if (got.outcome == IoOutcome::kWouldBlock) break;
      if (got.outcome != IoOutcome::kOk) return Finish(Outcome::kClosed);
      if (!Receive({packet_.data(), got.bytes})) return Finish(Outcome::kInvalid);
      if (Whole()) return Finish(Outcome::kReplied);
    }
    stream_.WaitReadable();
  }

  // Nothing is called from now on.
  void Abandon() {
    done_ = nullptr;
    Finish(Outcome::kClosed);
    stream_.Close();
  }

 private:
  void Send() {
    const auto self = shared_from_this();
    while (!head_sent_ || !body_.empty()) {
      const std::string_view packet = head_sent_ ? body_.substr(0, kPacket) : BytesOf(head_);
      const IoResult put = stream_.WriteSome({&packet, 1});
      if (put.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
      if (put.outcome != IoOutcome::kOk) return Finish(Outcome::kClosed);
      if (head_sent_) body_.remove_prefix(put.bytes);
      head_sent_ = true;
    }
  }

  bool Receive(std::string_view bytes) {
    // No process may speak before it has the whole answer.
    if (!head_sent_ || !body_.empty()) return false;
    if (reply_head_.size() < sizeof(ReplyHead)) {
      const size_t part = std::min(sizeof(ReplyHead) - reply_head_.size(), bytes.size());
      reply_head_ += bytes.substr(0, part);
      bytes.remove_prefix(part);
      if (reply_head_.size() < sizeof(ReplyHead)) return true;
    }
    reply_ += bytes;
    return Wanted() <= most_reply_ && reply_.size() <= Wanted();
  }

  uint64_t Wanted() const noexcept {
    ReplyHead bytes = 0;
    std::memcpy(&bytes, reply_head_.data(), sizeof bytes);
    return bytes;
  }
  bool Whole() const noexcept { return reply_head_.size() == sizeof(ReplyHead) && reply_.size() == Wanted(); }

  void Finish(Outcome outcome) {
    if (outcome_ != Outcome::kNone) return;
    outcome_ = outcome;
    if (outcome != Outcome::kReplied) stream_.Close();
    loop_.Cancel(std::exchange(timer_, 0));
    body_ = {};
    std::vector<char>().swap(packet_);
    if (auto done = std::exchange(done_, nullptr)) done();
  }

  IoLoop& loop_;
  const size_t most_reply_;
  UniqueFd socket_;  // of a process that was started since the last query
  Stream stream_;
  RequestHead head_;
  bool head_sent_ = false;
  std::string_view body_;  // what is left to send
  std::string reply_head_, reply_;
  std::vector<char> packet_;
  IoLoop::TimerId timer_ = 0;
  Outcome outcome_ = Outcome::kNone;
  std::function<void()> done_;
};

PageProcess::PageProcess(const ExpositionLimits& limits, Env& env, Launch launch)
    : launch_(launch ? std::move(launch) : [limits](int socket) { return StartPageReader(socket, limits); }),
      clock_(*env.clock),
      exchange_(std::make_shared<Exchange>(*env.io, MostReplyBytes(limits))),
      backoff_({.initial = std::chrono::seconds(1), .cap = std::chrono::seconds(60), .jitter = 0}, 0) {}

PageProcess::~PageProcess() {
  if (exchange_->loop().InLoop()) exchange_->Abandon();
  else exchange_->loop().Post([exchange = exchange_] { exchange->Abandon(); });
}

void PageProcess::KeepRunning() {
  const Instant now = clock_.Now();
  reaper_.Reap(now, stuck_);
  if (child_.running() || now.boot_ns < next_start_ns_) return;
  if (stuck_.size() >= kMostStuck) {
    why_ = "processes that read its pages are stuck in the kernel";
    return;
  }
  auto ends = MakeSocketPair();
  auto started = ends ? launch_(ends->theirs.get()) : Result<ChildProcess>(ends.error());
  if (!started) {
    why_ = "the reader process cannot be started: " + started.error().detail;
    next_start_ns_ = now.boot_ns + backoff_.Next().count();
    return;
  }
  child_ = std::move(*started);
  exchange_->Connect(std::move(ends->ours));
  ++starts_[static_cast<size_t>(next_reason_)];
}

void PageProcess::Query(const PageBody& body, Duration timeout, std::function<void()> done) {
  exchange_->Query(body, timeout, std::move(done));
}

Result<PageReading> PageProcess::Take(DecodedPage& page) {
  using Outcome = Exchange::Outcome;
  const Outcome outcome = exchange_->outcome();
  if (!child_.running()) return Status{Code::kIo, why_};
  if (outcome == Outcome::kHung)
    return Failed(StartReason::kHang, Code::kTimeout, "the reader process did not reply in time");
  if (outcome == Outcome::kInvalid)
    return Failed(StartReason::kProtocol, Code::kDataLoss, "the reader process sent what is no reply");
  if (outcome != Outcome::kReplied) return Ended();
  auto reading = page.Update(exchange_->reply());
  exchange_->Forget();
  if (!reading) return Failed(StartReason::kProtocol, Code::kDataLoss, reading.error().detail);
  failed_ = false;
  backoff_.Reset();
  return reading;
}

Status PageProcess::Ended() {
  struct pollfd ended = {child_.end_fd(), POLLIN, 0};
  if (child_.end_fd() >= 0) ::poll(&ended, 1, kReapMs);
  const int pid = child_.pid();
  const auto status = child_.TryWait();
  if (!status) return Failed(StartReason::kExited, Code::kIo, "the reader process closed its socket");
  const int signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
  StartReason reason = signal == 0 ? StartReason::kExited : StartReason::kCrash;
  if (signal == SIGKILL || signal == SIGTERM) reason = StartReason::kKilled;
  return Failed(reason, Code::kIo,
                "reader process " + std::to_string(pid) + " " + DescribeWaitStatus(*status));
}

Status PageProcess::Failed(StartReason reason, Code code, std::string text) {
  const Instant now = clock_.Now();
  exchange_->Forget();
  reaper_.Take(std::move(child_), now.boot_ns);
  child_ = ChildProcess();
  next_reason_ = reason;
  // A second failure without a reply between them is no accident.
  next_start_ns_ = now.boot_ns + (failed_ ? backoff_.Next().count() : 0);
  failed_ = true;
  why_ = "waits before it starts the reader process again: " + text;
  return {code, std::move(text)};
}

// The side of the process.

namespace {

// Reads `size` bytes, which are whole packets. False: the other end has gone.
bool ReadWhole(int socket, size_t size, std::string& out) {
  out.resize(size);
  for (size_t have = 0; have < size;) {
    const ssize_t got = ::recv(socket, out.data() + have, size - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

bool WriteWhole(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(socket, bytes.data(), std::min(bytes.size(), kPacket), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// What the largest page within the limits takes: the answer, the same unpacked while its room grows, what is
// kept of it, and the reply.
rlim_t MostMemory(const ExpositionLimits& limits) noexcept {
  return (rlim_t{64} << 20) + 8 * rlim_t{limits.page_bytes} + 2048 * rlim_t{limits.samples};
}

void LimitPageReader(const ExpositionLimits& limits) noexcept {
  const rlimit memory{MostMemory(limits), MostMemory(limits)};
  if (!kSanitized) ::setrlimit(RLIMIT_DATA, &memory);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

}  // namespace

bool ServePages(int socket, const ExpositionLimits& limits) {
  ScrapedPage page(limits);
  PageEncoder encoder(page, limits);
  std::string head, body, unpacked, reply;
  while (ReadWhole(socket, sizeof(RequestHead), head)) {
    RequestHead request;
    std::memcpy(&request, head.data(), sizeof request);
    if (request.mark != RequestHead::kMark || request.format > 2 || request.bytes > limits.page_bytes)
      return false;
    if (!ReadWhole(socket, request.bytes, body)) break;
    const PageBody answer{body, static_cast<ExpositionFormat>(request.format), request.gzip != 0};
    encoder.Encode(ReadPage(answer, limits.page_bytes, unpacked, page), reply);
    const ReplyHead size = reply.size();
    if (!WriteWhole(socket, BytesOf(size)) || !WriteWhole(socket, reply)) break;
    const bool large = std::max({body.capacity(), unpacked.capacity(), reply.capacity()}) > kKeptRoom;
    for (std::string* room : {&body, &unpacked, &reply}) FreeLarge(*room);
    if (large) ::malloc_trim(0);
  }
  return true;
}

int RunPageReader(std::span<const std::string_view> arguments) {
  constexpr int kBadStart = 2;
  int socket = -1;
  ExpositionLimits limits;
  for (std::string_view argument : arguments) {
    std::string_view text = argument;
    const std::string_view key = TakeUntil(text, '=');
    const auto number = ParseInt<uint32_t>(text);
    if (!number) return kBadStart;
    if (key == "--socket-fd") socket = static_cast<int>(*number);
    else if (key == "--max-body") limits.page_bytes = *number;
    else if (key == "--max-samples") limits.samples = *number;
    else return kBadStart;
  }
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) != 0) return kBadStart;
  LimitPageReader(limits);
  // From here on no file can be opened, and nothing leaves but over this socket.
  static_cast<void>(EnterSandbox({.mode = ReaderSandboxMode(),
                                  .filter = CallFilter::kParser,
                                  .files = FileRights{},
                                  .capabilities = {}}));
  return ServePages(socket, limits) ? 0 : kBadStart;
}

}  // namespace gpulens
